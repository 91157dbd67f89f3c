"""A run: workload, faults, healing, draining, reading everything again, judging."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headrace.core import Invalid
from headrace.db import Connection, query
from headrace.prove import _check_log as log
from headrace.prove import _check_reaction as reaction
from headrace.prove import _check_time as in_time
from headrace.prove._bug import known
from headrace.prove._evidence import Evidence
from headrace.prove._final import read_evidence
from headrace.prove._history import now
from headrace.prove._nemesis import Nemesis, chosen_faults
from headrace.prove._plan import Planned, make_plan
from headrace.prove._scene import Scene, scene
from headrace.prove._verdict import Verdict
from headrace.prove._watch import Watch
from headrace.prove._workload import SCHEDULE
from headrace.schedule import pause_schedule

DRAIN_S = 180.0
LEASE_S = 4.0
START_S = 60.0

CHECKS: tuple[Callable[[Evidence], Verdict], ...] = (
    log.acknowledged_is_logged,
    log.rolled_back_is_unseen,
    log.known_events_only,
    log.positions_without_gaps,
    log.one_event_per_id,
    log.producer_order_per_key,
    log.live_reads_are_final,
    log.sink_wrote_once,
    reaction.consumed_once,
    reaction.consumed_in_order,
    reaction.consumed_what_is_there,
    reaction.poison_is_put_aside,
    reaction.firings_are_the_rules,
    reaction.outputs_are_the_replay,
    reaction.outputs_arrive,
    reaction.pipeline_did_it_once,
    reaction.actions_end_once,
    reaction.effects_once,
    reaction.ticks_once,
    in_time.one_holder,
    in_time.worked_off,
    in_time.processes_live,
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is to be."""

    minutes: float = 1.0
    faults: Sequence[str] | None = None
    """None: all that can be done there. Empty: none."""
    seed: int = 1
    dsn: str | None = None
    producers: int = 2
    nodes: int = 2
    rate: float = 100.0
    """Events per second of each producer."""
    margin: float = 0.1
    """How far the rate may stay below 95 % of the one before a fault, for a machine that others use as well."""
    spark: bool = False
    """A pipeline runs the rules and correlators of one topic on Spark. Needs Java and about a gigabyte of memory."""
    bugs: Sequence[str] = ()
    """Seeded bugs, to see that they are caught."""
    failpoints: Sequence[str] = ()
    """Where the fault `failpoint` may strike; empty: anywhere."""
    keep: Path | None = None
    """Where histories and logs stay; None: they are deleted."""
    drain_s: float = DRAIN_S


@dataclass(frozen=True)
class Proved:
    """What a run came to."""

    options: Options
    plan: tuple[Planned, ...]
    evidence: Evidence
    verdicts: tuple[Verdict, ...]
    began_at: float
    ended_at: float

    @property
    def holds(self) -> bool:
        return all(verdict.holds for verdict in self.verdicts)

    @property
    def operations(self) -> int:
        """Events published, handled and read, actions carried out, rules and correlators fired."""
        seen = self.evidence
        logged = sum(len(events) for events in seen.log.values())
        return logged + len(seen.consumed) + len(seen.effects) + len(seen.fired) + len(seen.pushed) + len(seen.seen)


def prove(options: Options, tell: Callable[[str], None] = lambda _: None) -> Proved:
    """Runs it all and judges. What is told are lines for people."""
    faults = chosen_faults(options.faults, own_server=options.dsn is None, spark=options.spark)
    if not options.spark and (its := [bug.name for bug in known(options.bugs) if bug.spark]):
        raise Invalid(f"the seeded bug {', '.join(its)} is a pipeline's; give spark=True")
    plan = make_plan(options.seed, seconds=options.minutes * 60, faults=faults)
    tell(f"seed {options.seed}: {len(plan)} faults planned of {len(faults)} kinds")
    with scene(
        seed=options.seed,
        dsn=options.dsn,
        bugs=options.bugs,
        lease_s=LEASE_S,
        minutes=options.minutes,
        small_disk="disk-full" in faults,
        spark=options.spark,
        keep=options.keep,
    ) as stage:
        stage.failpoints = tuple(options.failpoints) or stage.failpoints
        evidence, began_at = _play(stage, options, plan, tell)
    tell("judging")
    verdicts = (*(check(evidence) for check in CHECKS), in_time.rate_returns(evidence, margin=options.margin))
    return Proved(options, plan, evidence, verdicts, began_at, now())


def _play(stage: Scene, options: Options, plan: Sequence[Planned], tell: Callable[[str], None]) -> tuple[Evidence, float]:
    watch = Watch(stage.target.dsn)
    _start(stage, options)
    watch.start()
    _await_flow(stage, options)
    began_at = now()
    tell("everything flows")
    until = began_at + options.minutes * 60
    nemesis = Nemesis(stage, plan, tell)
    nemesis.run(began_at, threading.Event(), until)
    time.sleep(max(until - now(), 0))
    tell(f"healing and draining after {len(nemesis.fallen)} faults")
    stage.cast.mend()
    left_over, drained_at = _drain(stage, options.drain_s)
    watch.stop()
    tell("reading everything again from position 0")
    with stage.connect() as conn:
        evidence = read_evidence(
            conn,
            stage.folder,
            fallen=nemesis.fallen,
            samples=watch.samples,
            left_over=left_over,
            drained_at=drained_at,
            flows_until=until,
            unexpected=stage.cast.unexpected,
        )
    return evidence, began_at


def _start(stage: Scene, options: Options) -> None:
    for number in range(1, options.nodes + 1):
        stage.cast.add("node", stage.orders(f"node-{number}", bugs=tuple(options.bugs)))
    for number in range(1, options.producers + 1):
        stage.cast.add("producer", stage.orders(f"producer-{number}", rate=options.rate))
    # Not through the proxy: what a reader sees must not depend on it.
    stage.cast.add("reader", stage.orders("reader", dsn=stage.target.dsn))
    stage.cast.add("sink", stage.orders("sink"))
    if options.spark:
        stage.cast.add("pipeline", stage.orders("pipeline", bugs=tuple(options.bugs)))


def _await_flow(stage: Scene, options: Options) -> None:
    """Until events are handled everywhere: processes take a while to start, Spark longer."""
    deadline = now() + START_S
    with stage.connect() as conn:
        while now() < deadline:
            row = conn.execute(query("prove/flows")).fetchone()
            if row and row[0] and (row[1] or not options.spark):
                return
            time.sleep(0.1)


def _drain(stage: Scene, drain_s: float) -> tuple[dict[str, int], datetime]:
    """Producers end, then everything is worked off, then nodes and reader end."""
    for role in ("producer", "sink"):
        stage.cast.end(role)
    with stage.connect() as conn:
        pause_schedule(conn, SCHEDULE)
        deadline = time.monotonic() + drain_s
        while any((left_over := _left_over(conn)).values()) and time.monotonic() < deadline:
            time.sleep(0.25)
        row = conn.execute("select headrace.clock()").fetchone()
    assert row is not None
    stage.cast.end("reader")
    stage.cast.end("pipeline")
    stage.cast.end("node")
    return left_over, row[0]


def _left_over(conn: Connection) -> dict[str, int]:
    return {what: int(count) for what, count in conn.execute(query("prove/left_over")).fetchall()}
