"""Seek: moving a consumer's cursors, with a preview of what that means."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.db import Connection, map_database_errors


@dataclass(frozen=True)
class Seek:
    """One partition's move. `events` > 0 will be handled again, < 0 will be skipped."""

    partition: int
    from_position: int
    to_position: int
    events: int


def seek_position(conn: Connection, topic: str, target: str, *, namespace: str | None = None) -> int:
    """The position before 'earliest', 'latest', a position or a time: reading after it begins there."""
    with map_database_errors():
        given = (topic, namespace, target)
        row = conn.execute("select headrace.seek_position(headrace_internal.topic_id(%s, %s), %s)", given).fetchone()
    assert row is not None
    return int(row[0])


def seek_consumer(
    conn: Connection, topic: str, consumer: str, target: str, *, preview: bool = False, namespace: str | None = None
) -> list[Seek]:
    """Moves a consumer to 'earliest', 'latest', a position (the next event handled) or a time; with `preview`, only says so."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Seek)) as cursor:
        given = (topic, consumer, target, preview, namespace)
        return cursor.execute("select * from headrace.seek(%s, %s, %s, %s, %s)", given).fetchall()
