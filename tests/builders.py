"""Builders: what tests need and do not want to show."""

from __future__ import annotations

from headrace.db import Connection
from headrace.log import create_topic, read, sequence


def topic(conn: Connection, name: str = "orders", *, partitions: int = 1) -> str:
    """A topic, ready."""
    create_topic(conn, name, partitions=partitions)
    return name


def publish(
    conn: Connection, n: int, *, key: str | None = None, topic: str = "orders", type: str = "placed", id: object = None
) -> None:
    """One event whose payload is a number."""
    conn.execute("select headrace.publish(%s, %s, to_jsonb(%s::int), p_key => %s, p_event_id => %s)", (topic, type, n, key, id))


def fill(conn: Connection, count: int, *, keys: int = 0, topic: str = "orders") -> None:
    """Events 1 to count, in one transaction, already in the log; key k<n % keys> where keys are wanted."""
    with conn.transaction():
        conn.execute(
            """select headrace.publish(%s, 'placed', to_jsonb(n), p_key => case when %s > 0 then 'k' || n %% %s end)
               from generate_series(1, %s) n""",
            (topic, keys, max(keys, 1), count),
        )
    drain(conn)


def drain(conn: Connection) -> int:
    """Sequences until the outbox is empty; returns how many events got a position."""
    total = 0
    while moved := sequence(conn):
        total += sum(one.events for one in moved)
    return total


def numbers(conn: Connection, topic: str = "orders") -> list[object]:
    """The payloads of a topic's log in the order of positions."""
    return [event.payload for event in read(conn, topic, limit=1_000_000)]


def shift_clock(conn: Connection, by: str) -> None:
    """Moves headrace's clock for this session."""
    conn.execute("select set_config('headrace.clock_shift', %s, false)", (by,))
