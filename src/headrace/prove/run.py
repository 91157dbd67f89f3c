"""A run: start the workload, inject faults, measure the progress twice a second, wait for the rest of the work, collect the evidence,
check it.

At the end the producers stop, the rest of the work is waited for on every shard, then all processes stop; what the run has left is
read, the logs from position 1 on, and the histories."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from math import inf
from pathlib import Path

import msgspec
import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from headrace.core import Invalid, LoggedEvent
from headrace.db import Connection, Target, connect, fetch_rows, fetch_value, query
from headrace.log.topics import get_topic, read_log
from headrace.prove.bugs import find_bugs
from headrace.prove.checks import CHECKS, CheckResult, merge_shards, rate_returns
from headrace.prove.environment import Environment, Options, open_environment
from headrace.prove.evidence import (
    ActionResult,
    Completed,
    ConsumedEvent,
    DeadLetter,
    Effect,
    ErasedData,
    Evidence,
    Firing,
    HandlerEnded,
    HandlerStarted,
    Invoked,
    Operation,
    Output,
    Paused,
    PipelineTotals,
    ReadEvent,
    Sample,
    SentAction,
    Tick,
    now,
    read_history,
)
from headrace.prove.faults import Nemesis, PlannedFault, make_plan, select_faults
from headrace.prove.processes import MAIN, reader_name
from headrace.prove.processes.clients import digest
from headrace.prove.relay_targets import check_relay_kinds, read_targets
from headrace.prove.workload import COMPLETE_TOPICS, CRON, EXPIRING, MEND, PEOPLE, PERSONAL, RETURNS, SCHEDULE, TRIPS
from headrace.schedules import pause_schedule, ticks

POLL_S = 0.25


@dataclass(frozen=True)
class FinalState:
    """A shard at the end: the work that was still open, the database's time, and when its schedule was paused."""

    unfinished: dict[str, int]
    at: datetime
    schedule_paused_at: datetime


def finish_workload(environment: Environment, stalled_s: float) -> dict[str, FinalState]:
    """Stops the workload and returns the final state of each shard.

    Waits while work is open, until none was done for `stalled_s`: work that is slow on purpose may take its time."""
    for role in ("producer", "sink", "eraser", "sender"):
        environment.processes.stop_role(role)
    with ExitStack() as stack:
        conns = {target.name: stack.enter_context(connect(target)) for target in environment.targets}
        deadline = time.monotonic() + stalled_s
        paused_at = {name: _pause_schedule(conn, deadline) for name, conn in conns.items()}
        least = inf
        while (count := sum(sum(unfinished_work(conn).values()) for conn in conns.values())) and time.monotonic() < deadline:
            if count < least:
                least, deadline = count, time.monotonic() + stalled_s
            for conn in conns.values():
                conn.execute(query("prove/redrive"), {"action": MEND})
            time.sleep(POLL_S)
        states = {name: FinalState(unfinished_work(conn), _clock(conn), paused_at[name]) for name, conn in conns.items()}
    for role in ("pipeline", "node", "reader"):
        environment.processes.stop_role(role)
    return states


def _pause_schedule(conn: Connection, deadline: float) -> datetime:
    """Pauses the schedule when none of its ticks is due; returns the time."""
    while conn.execute(query("prove/ticks_due")).fetchone() != (0,) and time.monotonic() < deadline:
        time.sleep(POLL_S / 5)
    at = _clock(conn)
    pause_schedule(conn, SCHEDULE)
    return at


def unfinished_work(conn: Connection) -> dict[str, int]:
    """How much work of each kind is open."""
    return {kind: int(count) for kind, count in conn.execute(query("prove/unfinished")).fetchall()}


def _clock(conn: Connection) -> datetime:
    moment: datetime = fetch_value(conn, "select headrace.clock()")
    return moment


PAGE = 5000
TICK_S = 2.0
"""A tick that was due less than this before the schedule was paused need not have fired."""


def read_operations(folder: Path, prefix: str) -> list[Operation]:
    """The transactions of the producers whose names begin with the prefix, each with its outcomes."""
    operations: dict[tuple[str, int], Operation] = {}
    for path in sorted(folder.glob(f"{prefix}*.jsonl")):
        producer = path.name.split(".")[0]
        for record in read_history(folder, path.name.removesuffix(".jsonl")):
            if isinstance(record, Invoked):
                known = operations.get((producer, record.op))
                operations[producer, record.op] = (
                    replace(known, attempts=known.attempts + 1)
                    if known
                    else Operation(
                        producer=producer, op=record.op, events=record.events, commits=record.commits, started_at=record.at
                    )
                )
            elif isinstance(record, Completed):
                known = operations[producer, record.op]
                operations[producer, record.op] = replace(known, outcomes=(*known.outcomes, record.outcome), ended_at=record.at)
    return list(operations.values())


def read_whole_log(conn: Connection, topic: str) -> Iterator[LoggedEvent]:
    """A topic's log from its beginning."""
    after = 0
    while events := read_log(conn, topic, after=after, limit=PAGE):
        yield from events
        after = events[-1].position


def _expected_ticks(conn: Connection, until: datetime) -> list[datetime]:
    """Every tick from the schedule's creation to `until`, by its cron expression."""
    created_at = fetch_value(conn, "select s.created_at from headrace.schedule s where s.schedule = %s", (SCHEDULE,))
    return list(takewhile(lambda tick: tick <= until, ticks(CRON, "UTC", created_at)))


def _erased_data(conn: Connection) -> ErasedData | None:
    """What is left of erased keys, in every table of headrace and of the queue; None if none was erased."""
    events = {topic: list(read_whole_log(conn, topic)) for topic in (PEOPLE, RETURNS)}
    if not any(events.values()):
        return None
    remains = []
    for schema, table in conn.execute(query("prove/tables_of_headrace")).fetchall():
        statement = sql.SQL("select count(*) from {} t where strpos(t::text, %s) > 0").format(sql.Identifier(schema, table))
        [(rows,)] = conn.execute(statement, (PERSONAL,)).fetchall()
        remains += [f"{schema}.{table}: {rows} rows"] if rows else []
    return ErasedData(
        positions={topic: [event.position for event in log] for topic, log in events.items()},
        payloads=sum(event.payload != {} for log in events.values() for event in log),
        remains=remains,
        erasures=fetch_value(conn, "select count(*) from headrace_internal.erasure"),
    )


def collect_evidence(target: Target, folder: Path, final: FinalState) -> Evidence:
    """The evidence of one shard. Sink and nodes write their histories for the first one."""
    is_first = target.name == MAIN
    with connect(target) as conn:
        log = {topic: list(read_whole_log(conn, topic)) for topic in COMPLETE_TOPICS}
        sender_records = list(read_history(folder, "sender")) if is_first else []
        node_records = read_history(folder, "node") if is_first else ()
        return Evidence(
            shard=target.name,
            operations=read_operations(folder, "producer" if is_first else f"{target.name}-producer"),
            batches=read_operations(folder, "sink") if is_first else (),
            log=log,
            digests={(topic, event.position): digest(event) for topic, events in log.items() for event in events},
            reads=[record for record in read_history(folder, reader_name(target.name)) if isinstance(record, ReadEvent)],
            consumed=fetch_rows(conn, ConsumedEvent, query("prove/consumed_events")),
            dead_letters=fetch_rows(conn, DeadLetter, query("prove/dead_letters")),
            effects=fetch_rows(conn, Effect, query("prove/effects")),
            action_results=fetch_rows(conn, ActionResult, query("prove/action_results")),
            firings=fetch_rows(conn, Firing, query("prove/firings")),
            outputs=fetch_rows(conn, Output, query("prove/outputs")),
            erased=_erased_data(conn) if is_first else None,
            pipeline=next(iter(fetch_rows(conn, PipelineTotals, query("prove/pipeline_totals"), {"topic": TRIPS})), None),
            ticks=fetch_rows(conn, Tick, query("prove/ticks"), {"schedule": SCHEDULE}),
            expected_ticks=_expected_ticks(conn, final.schedule_paused_at - timedelta(seconds=TICK_S)),
            handler_records=[record for record in node_records if isinstance(record, HandlerStarted | HandlerEnded)],
            sent_actions=[record for record in sender_records if isinstance(record, SentAction)],
            pauses=[record for record in sender_records if isinstance(record, Paused)],
            finished_at=final.at,
            unfinished=final.unfinished,
            expiring_head=get_topic(conn, EXPIRING).last_position,
        )


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


START_TIMEOUT_S = 120.0


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
    with open_environment(options, faults) as environment:
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
    [(consumes, has_pipeline_batch)] = conn.execute(query("prove/is_running")).fetchall()
    return bool(consumes and (has_pipeline_batch or not spark))
