"""Faults: what may go wrong around the product, injected on purpose, one after the other, and healed.

Owns: the faults by name, the plan of a run, and the nemesis, which injects the planned faults and records them. The plan is pure: the
same seed gives the same plan."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg

from headrace.core import DatabaseUnavailable, Invalid
from headrace.prove.environment import LEAD_S, PAUSE_MIN_S, Environment, Fault
from headrace.prove.evidence import FaultRecord, NoEffect, now
from headrace.prove.faults import crashes, load

__all__ = ["FAULTS", "Fault", "Nemesis", "PlannedFault", "make_plan", "select_faults"]

TAIL_S = 4.0
PAUSE_MAX_S = 34.0
"""From one fault to the next. The longest leaves the rate its 30 s to recover, so that a long run judges every fault."""
FAULTS_PER_RUN = 100
"""A long run has at least this many faults; a short one has as many as its pauses allow."""


@dataclass(frozen=True)
class PlannedFault:
    """A fault, its earliest time in seconds after the start, and the seed of its own choices."""

    at_s: float
    fault: str
    seed: int


def make_plan(
    seed: int, *, seconds: float, faults: Sequence[str], lead_s: float = LEAD_S, pause_min_s: float = PAUSE_MIN_S
) -> tuple[PlannedFault, ...]:
    """Rounds of all faults, each in another order. The first round is complete, however short the run."""
    if not faults:
        return ()
    draw = random.Random(f"{seed}:plan")
    pause_s = min(max(seconds / FAULTS_PER_RUN, pause_min_s), PAUSE_MAX_S)
    planned: list[PlannedFault] = []
    at_s = lead_s
    while at_s < seconds - TAIL_S or len(planned) < len(faults):
        for fault in draw.sample(list(faults), len(faults)):
            if at_s >= seconds - TAIL_S and len(planned) >= len(faults):
                break
            planned.append(PlannedFault(round(at_s, 3), fault, draw.getrandbits(32)))
            at_s += pause_s * draw.uniform(0.95, 1.05)
    return tuple(planned)


FAULTS = {fault.name: fault for module in (crashes, load) for fault in vars(module).values() if isinstance(fault, Fault)}


def select_faults(names: Sequence[str] | None, *, own_server: bool, spark: bool = False, relays: bool = False) -> tuple[str, ...]:
    """The named faults, or all that are possible on this server. Raises Invalid for one that is not."""
    if names is None:
        return tuple(
            name
            for name, fault in FAULTS.items()
            if not fault.opt_in
            and (own_server or not fault.needs_own_server)
            and (spark or not fault.spark)
            and (relays or not fault.relays)
        )
    if unknown := [name for name in names if name not in FAULTS]:
        raise Invalid(f"there is no fault {', '.join(unknown)}; known: {', '.join(FAULTS)}")
    if not own_server and (wrong := [name for name in names if FAULTS[name].needs_own_server]):
        raise Invalid(f"fault {', '.join(wrong)} needs a server that the checker may kill; omit --dsn")
    if not spark and (wrong := [name for name in names if FAULTS[name].spark]):
        raise Invalid(f"fault {', '.join(wrong)} needs a pipeline on Spark; give --spark")
    if not relays and (wrong := [name for name in names if FAULTS[name].relays]):
        raise Invalid(f"fault {', '.join(wrong)} needs a relay; give --relays")
    return tuple(names)


class Nemesis:
    """Runs the plan; `on_progress` gets a line per fault."""

    def __init__(self, environment: Environment, plan: Sequence[PlannedFault], on_progress: Callable[[str], None]) -> None:
        self._environment = environment
        self._plan = plan
        self._on_progress = on_progress
        self.faults: list[FaultRecord] = []

    def run(self, started_at: float, until: float) -> None:
        """Runs until the plan or the time is over. A fault that takes longer than planned delays the next ones; each kind in
        the plan is injected once even if the time is over."""
        for number, planned in enumerate(self._plan, 1):
            time.sleep(max(started_at + planned.at_s - now(), 0))
            if now() > until and any(record.fault == planned.fault for record in self.faults):
                return
            minutes = (now() - started_at) / 60
            self._inject(planned, f"{minutes:5.1f} min, fault {number} of {len(self._plan)}: {planned.fault}")
            self._environment.processes.restart_dead()

    def _inject(self, planned: PlannedFault, title: str) -> None:
        started_at, detail = now(), ""
        try:
            with FAULTS[planned.fault].inject(self._environment, random.Random(planned.seed)) as detail:
                self._on_progress(f"{title}, {detail}")
        except (psycopg.OperationalError, psycopg.InterfaceError, DatabaseUnavailable) as error:
            # The server was unreachable after an earlier fault. The fault has healed what it broke all the same.
            detail = NoEffect(f"{detail}, interrupted: {' '.join(str(error).split())[:200]}")
            self._on_progress(f"{title}, {detail}")
        took_effect = not isinstance(detail, NoEffect)
        self.faults.append(FaultRecord(planned.fault, started_at, now(), str(detail), took_effect))
