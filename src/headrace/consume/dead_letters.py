"""Dead letters of consumers: events put aside, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from headrace.core import JSON
from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class DeadLetter:
    """An event a consumer could not handle (`dead`), or one that waits behind such an event of its key (`behind`)."""

    topic: str
    consumer: str
    partition: int
    position: int
    event_id: UUID
    type: str
    key: str | None
    payload: JSON
    headers: JSON
    state: str
    reason: str
    error: str | None
    attempts: int
    buried_at: datetime


def list_dead_letters(
    conn: Connection,
    *,
    topic: str | None = None,
    consumer: str | None = None,
    ended: bool = False,
    limit: int = 100,
    namespace: str | None = None,
) -> list[DeadLetter]:
    """Dead letters, oldest position first; with `ended` also those redriven or discarded."""
    with map_database_errors(), conn.cursor(row_factory=class_row(DeadLetter)) as cursor:
        given = {"topic": topic, "consumer": consumer, "ended": ended, "limit": limit, "namespace": namespace}
        return cursor.execute(query("consume/dead_letters"), given).fetchall()


def redrive(conn: Connection, topic: str, consumer: str, *, position: int | None = None, namespace: str | None = None) -> int:
    """Has dead letters handled again, in order: all, or one with what waits behind it. Returns how many were marked."""
    with map_database_errors():
        given = (topic, consumer, position, namespace)
        row = conn.execute("select headrace.redrive(%s, %s, %s, %s)", given).fetchone()
    assert row is not None
    return int(row[0])


def discard(conn: Connection, topic: str, consumer: str, *, position: int | None = None, namespace: str | None = None) -> int:
    """Gives dead letters up: all, or one. They stay on record. Returns how many."""
    with map_database_errors():
        given = (topic, consumer, position, namespace)
        row = conn.execute("select headrace.discard(%s, %s, %s, %s)", given).fetchone()
    assert row is not None
    return int(row[0])
