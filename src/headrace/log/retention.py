"""Retention: dropping old time partitions, never what a consumer has not passed unless told so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class Expired:
    """A time partition that is old enough to go: dropped, or kept for the consumers named."""

    topic: str
    name: str
    events: int
    dropped: bool
    kept_for: str | None


def maintain(conn: Connection) -> list[Expired]:
    """Makes time partitions ahead and applies every topic's retention."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Expired)) as cursor:
        return cursor.execute("select topic, name, events, dropped, kept_for from headrace.maintain_log()").fetchall()


def drop_expired(
    conn: Connection, topic: str, *, before: datetime, force: bool = False, namespace: str | None = None
) -> list[Expired]:
    """Drops a topic's time partitions that ended before a moment. `force` drops also what consumers have not passed."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Expired)) as cursor:
        given = {"topic": topic, "namespace": namespace, "before": before, "force": force}
        return cursor.execute(query("log/drop_expired"), given).fetchall()
