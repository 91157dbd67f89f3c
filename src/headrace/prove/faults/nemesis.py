"""Nemesis: injects the planned faults, one after the other, and records them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

import psycopg

from headrace.core import DatabaseUnavailable
from headrace.prove.environment import Environment
from headrace.prove.evidence import FaultRecord, NoEffect
from headrace.prove.faults.catalog import FAULTS
from headrace.prove.faults.plan import PlannedFault
from headrace.prove.history import now


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
