"""Batch publish (COPY path) against a bare binary COPY of the same rows, one transaction each: CPU time of client and backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from psycopg.types.json import set_json_dumps

from bench.clocks import Clocks
from bench.lab import Lab, settle, surroundings
from bench.pgbench import PAYLOAD
from bench.publish import BARE_TABLE
from bench.result import Figure, Round, Side, cpu_ratio, report
from headrace.core import Event
from headrace.db import Connection, connect
from headrace.log.outbox import publish_many

COPY = "copy bare (emitted_at, topic_id, event_id, type, key, payload, headers) from stdin (format binary)"
TYPES = ("timestamptz", "int4", "uuid", "text", "text", "jsonb", "jsonb")


@dataclass(frozen=True)
class Plan:
    sizes: tuple[int, ...]
    rounds: int
    events: int
    """Events per round, in as many batches as it takes; one batch at least."""


FULL = Plan((100, 1_000, 10_000, 50_000), rounds=9, events=5_000)
QUICK = Plan((100, 1_000, 10_000), rounds=5, events=2_000)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    facts = surroundings(lab)
    figures: list[Figure] = []
    raw: dict[str, object] = {}
    with lab.database("batch", partitions=10) as target, connect(target) as conn:
        conn.execute(BARE_TABLE)
        set_json_dumps(msgspec.json.Encoder().encode, conn)
        for size in plan.sizes:
            ours, theirs = Side("publish_many", []), Side("bare copy", [])
            for _ in range(plan.rounds):
                conn.execute("truncate bare, headrace_internal.outbox")
                for side, write in ((theirs, _copy), (ours, _publish)):
                    settle(conn)
                    # After a truncation a session reads the catalog again, once, and not for every batch.
                    write(conn, _events(100))
                    batches = [_events(size) for _ in range(max(1, plan.events // size))]
                    side.rounds.append(_round(conn, batches, write))
            figures.append(cpu_ratio(f"publish_many : COPY, {size:,} events", ours, theirs, 0.8))
            raw[str(size)] = {"ours": ours, "theirs": theirs}
    report("batch", facts, figures, raw)


def _round(conn: Connection, batches: list[list[Event]], write: Callable[[Connection, list[Event]], None]) -> Round:
    before = Clocks.read(conn.info.backend_pid)
    for batch in batches:
        write(conn, batch)
    return before.round(sum(map(len, batches)))


def _events(size: int) -> list[Event]:
    payload = msgspec.json.decode(PAYLOAD)
    return [
        Event(topic="bench", type="account.created", key=f"account-{number % 1000}", payload={**payload, "number": number})
        for number in range(size)
    ]


def _copy(conn: Connection, events: list[Event]) -> None:
    """What one writes by hand: rows to psycopg's binary COPY, dicts to JSON by the fastest encoder. No check of anything."""
    now = datetime.now(UTC)
    with conn.transaction(), conn.cursor() as cursor, cursor.copy(COPY) as copy:
        copy.set_types(TYPES)
        for event in events:
            copy.write_row((now, 1, event.id, event.type, event.key, event.payload, event.headers))


def _publish(conn: Connection, events: list[Event]) -> None:
    with conn.transaction():
        publish_many(conn, events)
