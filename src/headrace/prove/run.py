"""A run: start the workload, inject faults, measure the progress twice a second, wait for the rest of the work, collect the evidence,
check it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import psycopg
from psycopg.rows import tuple_row

from headrace.core import Invalid
from headrace.db import Connection, connect, query
from headrace.prove.bugs import find_bugs
from headrace.prove.checks import CHECKS, CheckResult, merge_shards, rate_returns
from headrace.prove.collect import collect_evidence, finish_workload
from headrace.prove.environment import Environment, open_environment
from headrace.prove.evidence import Evidence, Sample, now
from headrace.prove.faults import Nemesis, PlannedFault, make_plan, select_faults
from headrace.prove.faults.nemesis import LEAD_S, PAUSE_MIN_S
from headrace.prove.processes import MAIN, reader_name
from headrace.prove.relay_targets import check_relay_kinds, read_targets

INTERVAL_S = 0.5


class Sampler:
    """A thread that samples; it skips samples while the database is unreachable."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self.samples: list[Sample] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        conn: psycopg.Connection[tuple[int, ...]] | None = None
        while not self._stop.wait(INTERVAL_S):
            with suppress(psycopg.Error, OSError):
                if conn is None or conn.closed:
                    conn = psycopg.connect(self._dsn, autocommit=True, connect_timeout=2, row_factory=tuple_row)
                row = conn.execute(query("prove/sample")).fetchone()
                assert row is not None
                self.samples.append(Sample(now(), *(int(value) for value in row)))


STALLED_S = 60.0
LEASE_S = 4.0
START_TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to run."""

    minutes: float = 1.0
    faults: Sequence[str] | None = None
    """None: all that are possible on this server. Empty: none."""
    seed: int = 1
    dsn: str | None = None
    producers: int = 2
    nodes: int = 2
    rate: float = 100.0
    """Events per second of each producer."""
    margin: float = 0.0
    """How far the rate may stay below 95 % of the rate before a fault, for a machine with other users."""
    spark: bool = False
    """A pipeline runs the rules and correlators of one topic on Spark. Needs Java and about a gigabyte of memory."""
    relays: Sequence[str] = ()
    """Kinds of relays, each to a server of the checker's own; see RELAY_KINDS."""
    bugs: Sequence[str] = ()
    """Seeded bugs, to show that the checks catch them."""
    failpoints: Sequence[str] = ()
    """Where the fault `failpoint` may kill a node; empty: anywhere."""
    keep: Path | None = None
    """Folder that keeps histories and logs; None: they are deleted."""
    stalled_s: float = STALLED_S
    """How long to wait at the end while no open work is done."""
    lead_s: float = LEAD_S
    """Quiet time before the first fault."""
    pause_min_s: float = PAUSE_MIN_S
    """Least time from one fault to the next."""
    fault_scale: float = 1.0
    """Factor on how long a fault lasts: below 1 for a short run."""
    lease_s: float = LEASE_S
    """How long a node holds an action without a heartbeat."""


@dataclass(frozen=True)
class RunResult:
    """The evidence of a run and the results of all checks."""

    options: Options
    plan: tuple[PlannedFault, ...]
    evidence: Evidence
    checks: tuple[CheckResult, ...]
    started_at: float
    ended_at: float

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    @property
    def operations(self) -> int:
        """Events published, handled and read, effects of actions, firings and outputs."""
        return sum(
            sum(len(events) for events in shard.log.values())
            + len(shard.consumed) + len(shard.effects) + len(shard.firings) + len(shard.outputs) + len(shard.reads)
            for shard in self.evidence.all_shards
        )  # fmt: skip


def prove(options: Options, on_progress: Callable[[str], None] = lambda _: None) -> RunResult:
    """Runs the workload under faults and checks every promise; `on_progress` gets lines for people."""
    faults = select_faults(options.faults, own_server=options.dsn is None, spark=options.spark, relays=bool(options.relays))
    check_relay_kinds(options.relays)
    if not options.spark and (names := [bug.name for bug in find_bugs(options.bugs) if bug.spark]):
        raise Invalid(f"the seeded bug {', '.join(names)} needs a pipeline; give spark=True")
    plan = make_plan(
        options.seed,
        seconds=options.minutes * 60,
        faults=faults,
        lead_s=options.lead_s,
        pause_min_s=options.pause_min_s,
    )
    on_progress(f"seed {options.seed}: {len(plan)} faults planned of {len(faults)} kinds")
    with open_environment(
        seed=options.seed,
        dsn=options.dsn,
        bugs=options.bugs,
        lease_s=options.lease_s,
        minutes=options.minutes,
        small_disk="disk-full" in faults,
        spark=options.spark,
        second_shard="shard-down" in faults,
        relays=options.relays,
        keep=options.keep,
    ) as environment:
        environment.failpoints = tuple(options.failpoints) or environment.failpoints
        environment.fault_scale = options.fault_scale
        evidence, started_at = _run(environment, options, plan, on_progress)
    on_progress("checking the evidence")
    checks = (
        *(merge_shards({shard.shard: check(shard) for shard in evidence.all_shards}) for check in CHECKS),
        rate_returns(evidence, margin=options.margin),
    )
    return RunResult(options, plan, evidence, checks, started_at, now())


def _run(
    environment: Environment, options: Options, plan: Sequence[PlannedFault], on_progress: Callable[[str], None]
) -> tuple[Evidence, float]:
    sampler = Sampler(environment.target.dsn)
    _start_processes(environment, options)
    sampler.start()
    _wait_until_running(environment, options)
    started_at = now()
    on_progress("the workload is running")
    until = started_at + options.minutes * 60
    nemesis = Nemesis(environment, plan, on_progress)
    nemesis.run(started_at, until)
    time.sleep(max(until - now(), 0))
    producers_stopped_at = now()
    on_progress(f"finishing the work after {len(nemesis.faults)} faults")
    environment.processes.restart_dead()
    states = finish_workload(environment, options.stalled_s)
    sampler.stop()
    (environment.folder / "course.json").write_bytes(msgspec.json.encode({"faults": nemesis.faults, "samples": sampler.samples}))
    on_progress("reading the logs from position 1")
    first, *others = (collect_evidence(target, environment.folder, states[target.name]) for target in environment.targets)
    evidence = replace(
        first,
        other_shards=others,
        relayed=read_targets(environment.relay_targets),
        faults=nemesis.faults,
        samples=sampler.samples,
        producers_stopped_at=producers_stopped_at,
        unexpected_exits=environment.processes.unexpected_exits,
    )
    return evidence, started_at


def _start_processes(environment: Environment, options: Options) -> None:
    processes, config = environment.processes, environment.config
    for number in range(1, options.nodes + 1):
        processes.add("node", config(f"node-{number}", bugs=tuple(options.bugs), shards=environment.shards))
    for number in range(1, options.producers + 1):
        processes.add("producer", config(f"producer-{number}", rate=options.rate))
    if environment.shards:
        processes.add("producer", config("producer-sharded", rate=options.rate / 2, shards=environment.shards))
    # Readers do not use the proxy: what they read must not depend on it.
    for target in environment.targets:
        processes.add("reader", config(reader_name(target.name), dsn=target.dsn))
    processes.add("sink", config("sink"))
    processes.add("eraser", config("eraser", dsn=environment.target.dsn))
    processes.add("sender", config("sender"))
    if options.spark:
        processes.add("pipeline", config("pipeline", bugs=tuple(options.bugs)))


def _wait_until_running(environment: Environment, options: Options) -> None:
    """Waits until events are handled on every shard: processes take a while to start, Spark longer."""
    deadline = now() + START_TIMEOUT_S
    for target in environment.targets:
        with connect(target) as conn:
            while now() < deadline and not _is_running(conn, spark=options.spark and target.name == MAIN):
                time.sleep(0.1)


def _is_running(conn: Connection, *, spark: bool) -> bool:
    row = conn.execute(query("prove/is_running")).fetchone()
    assert row is not None
    consumes, has_pipeline_batch = row
    return bool(consumes and (has_pipeline_batch or not spark))
