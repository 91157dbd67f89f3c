"""Final: reads everything that a run has left, the log from position 0 on, and the histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from psycopg.rows import class_row

from headrace.core import LoggedEvent
from headrace.db import Connection, Target, connect, query
from headrace.log import get_topic, read
from headrace.prove.actor import MAIN, reader_name
from headrace.prove.drain import Drained
from headrace.prove.evidence import Consumed, Effect, Evidence, Fired, Ledger, Letter, Operation, Pushed, Result, Ticked
from headrace.prove.history import Began, Ended, Invoked, Left, Seen, read_history
from headrace.prove.reader import digest
from headrace.prove.workload import CRON, EXPIRING, SCHEDULE, TRIPS, WHOLE
from headrace.schedules import ticks

T = TypeVar("T")
PAGE = 5000
TICK_S = 2.0
"""A tick that was due so shortly before the schedule ended need not have come."""


def read_operations(folder: Path, who: str) -> list[Operation]:
    """The transactions of the actors whose names begin like that, with what became of each."""
    found: dict[tuple[str, int], Operation] = {}
    for path in sorted(folder.glob(f"{who}*.jsonl")):
        producer = path.name.split(".")[0]
        for one in read_history(folder, path.name.removesuffix(".jsonl")):
            if isinstance(one, Invoked):
                known = found.get((producer, one.op))
                found[producer, one.op] = (
                    replace(known, tries=known.tries + 1)
                    if known
                    else Operation(producer=producer, op=one.op, events=one.events, commits=one.commits, began_at=one.at)
                )
            elif isinstance(one, Ended):
                known = found[producer, one.op]
                found[producer, one.op] = replace(known, outcomes=(*known.outcomes, one.outcome), ended_at=one.at)
    return list(found.values())


def whole_log(conn: Connection, topic: str) -> list[LoggedEvent]:
    """A topic's log from position 0 on."""
    return list(_pages(conn, topic))


def _pages(conn: Connection, topic: str) -> Iterator[LoggedEvent]:
    after = 0
    while events := read(conn, topic, after=after, limit=PAGE):
        yield from events
        after = events[-1].position


def _rows(conn: Connection, name: str, kind: type[T], given: dict[str, str] | None = None) -> list[T]:
    with conn.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(query(f"prove/{name}"), given).fetchall()


def _planned(conn: Connection, until: datetime) -> list[datetime]:
    """Every tick from the schedule's beginning to its end, whether it came or not."""
    row = conn.execute("select s.created_at from headrace.schedule s where s.schedule = %s", (SCHEDULE,)).fetchone()
    assert row is not None
    return list(takewhile(lambda tick: tick <= until, ticks(CRON, "UTC", row[0])))


def read_evidence(target: Target, folder: Path, drained: Drained) -> Evidence:
    """All that there is of a shard. Sink and the history of nodes go with the first one."""
    first = target.name == MAIN
    with connect(target) as conn:
        log = {topic: whole_log(conn, topic) for topic in WHOLE}
        return Evidence(
            shard=target.name,
            operations=read_operations(folder, "producer" if first else f"{target.name}-producer"),
            batches=read_operations(folder, "sink") if first else (),
            log=log,
            digests={(topic, event.position): digest(event) for topic, events in log.items() for event in events},
            seen=[one for one in read_history(folder, reader_name(target.name)) if isinstance(one, Seen)],
            consumed=_rows(conn, "consumed", Consumed),
            letters=_rows(conn, "letters", Letter),
            effects=_rows(conn, "effects", Effect),
            results=_rows(conn, "results", Result),
            fired=_rows(conn, "fired", Fired),
            pushed=_rows(conn, "pushed", Pushed),
            ledger=next(iter(_rows(conn, "ledger", Ledger, {"topic": TRIPS})), None),
            ticks=_rows(conn, "ticked", Ticked, {"schedule": SCHEDULE}),
            planned_ticks=_planned(conn, drained.paused_at - timedelta(seconds=TICK_S)),
            handlings=[one for one in read_history(folder, "node") if isinstance(one, Began | Left)] if first else (),
            drained_at=drained.at,
            left_over=drained.left_over,
            expired_head=get_topic(conn, EXPIRING).last_position,
        )
