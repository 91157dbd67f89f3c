"""Collecting evidence. The producers stop, the rest of the work is waited for on every shard, then all processes stop; what the run has
left is read, the logs from position 1 on, and the histories."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import TypeVar

from psycopg import sql
from psycopg.rows import class_row

from headrace.core import LoggedEvent
from headrace.db import Connection, Target, connect, query
from headrace.log.topics import get_topic, read_log
from headrace.prove.environment import Environment
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
    SentAction,
    Tick,
    read_history,
)
from headrace.prove.processes import MAIN, reader_name
from headrace.prove.processes.clients import digest
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
    row = conn.execute("select headrace.clock()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


T = TypeVar("T")
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


def _rows(conn: Connection, name: str, row_class: type[T], parameters: dict[str, str] | None = None) -> list[T]:
    with conn.cursor(row_factory=class_row(row_class)) as cursor:
        return cursor.execute(query(f"prove/{name}"), parameters).fetchall()


def _expected_ticks(conn: Connection, until: datetime) -> list[datetime]:
    """Every tick from the schedule's creation to `until`, by its cron expression."""
    row = conn.execute("select s.created_at from headrace.schedule s where s.schedule = %s", (SCHEDULE,)).fetchone()
    assert row is not None
    return list(takewhile(lambda tick: tick <= until, ticks(CRON, "UTC", row[0])))


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
    [(count,)] = conn.execute("select count(*) from headrace_internal.erasure").fetchall()
    return ErasedData(
        positions={topic: [event.position for event in log] for topic, log in events.items()},
        payloads=sum(event.payload != {} for log in events.values() for event in log),
        remains=remains,
        erasures=int(count),
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
            consumed=_rows(conn, "consumed_events", ConsumedEvent),
            dead_letters=_rows(conn, "dead_letters", DeadLetter),
            effects=_rows(conn, "effects", Effect),
            action_results=_rows(conn, "action_results", ActionResult),
            firings=_rows(conn, "firings", Firing),
            outputs=_rows(conn, "outputs", Output),
            erased=_erased_data(conn) if is_first else None,
            pipeline=next(iter(_rows(conn, "pipeline_totals", PipelineTotals, {"topic": TRIPS})), None),
            ticks=_rows(conn, "ticks", Tick, {"schedule": SCHEDULE}),
            expected_ticks=_expected_ticks(conn, final.schedule_paused_at - timedelta(seconds=TICK_S)),
            handler_records=[record for record in node_records if isinstance(record, HandlerStarted | HandlerEnded)],
            sent_actions=[record for record in sender_records if isinstance(record, SentAction)],
            pauses=[record for record in sender_records if isinstance(record, Paused)],
            finished_at=final.at,
            unfinished=final.unfinished,
            expiring_head=get_topic(conn, EXPIRING).last_position,
        )
