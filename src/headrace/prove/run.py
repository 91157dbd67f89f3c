"""A run: workload, faults, healing, draining, reading everything again, judging."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from headrace.core import Invalid
from headrace.db import Connection, connect, query
from headrace.prove import check_log as log
from headrace.prove import check_reaction as reaction
from headrace.prove import check_time as in_time
from headrace.prove.actor import MAIN, reader_name
from headrace.prove.bug import known
from headrace.prove.drain import drain
from headrace.prove.environment import Scene, scene
from headrace.prove.evidence import Evidence
from headrace.prove.final import read_evidence
from headrace.prove.history import now
from headrace.prove.nemesis import Nemesis, chosen_faults
from headrace.prove.plan import Planned, make_plan
from headrace.prove.verdict import Verdict, join
from headrace.prove.watch import Watch

DRAIN_S = 60.0
LEASE_S = 4.0
START_S = 120.0

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
    in_time.other_shards_go_on,
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
    margin: float = 0.0
    """How far the rate may stay below 95 % of the one before a fault, for a machine that others use as well."""
    spark: bool = False
    """A pipeline runs the rules and correlators of one topic on Spark. Needs Java and about a gigabyte of memory."""
    bugs: Sequence[str] = ()
    """Seeded bugs, to see that they are caught."""
    failpoints: Sequence[str] = ()
    """Where the fault `failpoint` may strike; empty: anywhere."""
    keep: Path | None = None
    """Where histories, logs and the course of the run stay; None: they are deleted."""
    drain_s: float = DRAIN_S
    """How long to wait at the end where nothing becomes less any more."""


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
        counted = 0
        for one in (self.evidence, *self.evidence.others):
            counted += sum(len(events) for events in one.log.values())
            counted += len(one.consumed) + len(one.effects) + len(one.fired) + len(one.pushed) + len(one.seen)
        return counted


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
        shard="shard-down" in faults,
        keep=options.keep,
    ) as stage:
        stage.failpoints = tuple(options.failpoints) or stage.failpoints
        evidence, began_at = _play(stage, options, plan, tell)
    tell("judging")
    shards = (evidence, *evidence.others)
    verdicts = (
        *(join({one.shard: check(one) for one in shards}) for check in CHECKS),
        in_time.rate_returns(evidence, margin=options.margin),
    )
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
    nemesis.run(began_at, until)
    time.sleep(max(until - now(), 0))
    until = now()
    tell(f"healing and draining after {len(nemesis.fallen)} faults")
    stage.cast.mend()
    drained = drain(stage, options.drain_s)
    watch.stop()
    (stage.folder / "course.json").write_bytes(msgspec.json.encode({"faults": nemesis.fallen, "samples": watch.samples}))
    tell("reading everything again from position 0")
    first, *others = (read_evidence(target, stage.folder, drained[target.name]) for target in stage.targets)
    evidence = replace(
        first,
        others=others,
        fallen=nemesis.fallen,
        samples=watch.samples,
        flows_until=until,
        unexpected=stage.cast.unexpected,
    )
    return evidence, began_at


def _start(stage: Scene, options: Options) -> None:
    for number in range(1, options.nodes + 1):
        stage.cast.add("node", stage.orders(f"node-{number}", bugs=tuple(options.bugs), shards=stage.shards))
    for number in range(1, options.producers + 1):
        stage.cast.add("producer", stage.orders(f"producer-{number}", rate=options.rate))
    if stage.shards:
        stage.cast.add("producer", stage.orders("producer-spread", rate=options.rate / 2, shards=stage.shards))
    # Not through the proxy: what a reader sees must not depend on it.
    for target in stage.targets:
        stage.cast.add("reader", stage.orders(reader_name(target.name), dsn=target.dsn))
    stage.cast.add("sink", stage.orders("sink"))
    if options.spark:
        stage.cast.add("pipeline", stage.orders("pipeline", bugs=tuple(options.bugs)))


def _await_flow(stage: Scene, options: Options) -> None:
    """Until events are handled everywhere: processes take a while to start, Spark longer."""
    deadline = now() + START_S
    for target in stage.targets:
        with connect(target) as conn:
            while now() < deadline and not _flows(conn, spark=options.spark and target.name == MAIN):
                time.sleep(0.1)


def _flows(conn: Connection, *, spark: bool) -> bool:
    row = conn.execute(query("prove/flows")).fetchone()
    assert row is not None
    return bool(row[0] and (row[1] or not spark))
