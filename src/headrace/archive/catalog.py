"""The catalog: which file holds which positions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from psycopg import sql
from psycopg.rows import class_row

from headrace.archive.reading import FileRange
from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class ArchivedFile:
    """A file with one day of a topic's log. `in_log`: the log still has these events."""

    topic_id: int
    topic: str
    day: date
    first_position: int
    last_position: int
    first_at: datetime
    last_at: datetime
    events: int
    checksum: str
    folder: str
    file: str
    file_bytes: int
    archived_at: datetime
    archived_by: str
    in_log: bool


def list_archive(conn: Connection, topic: str | None = None, *, namespace: str | None = None) -> list[ArchivedFile]:
    """The files of a namespace, or of one topic, by topic and position. Raises UnknownTopic."""
    with map_database_errors(), conn.cursor(row_factory=class_row(ArchivedFile)) as cursor:
        if topic is not None:
            conn.execute("select headrace.topic_id(%s, %s)", (topic, namespace))
        return cursor.execute(query("archive/catalog"), {"topic": topic, "namespace": namespace}).fetchall()


def file_ranges_statement(topic_id: int, first: int, until: int) -> str:
    """The statement that finds the files of a range, without parameters, for any driver."""
    parts = {"topic_id": sql.Literal(topic_id), "first": sql.Literal(first), "until": sql.Literal(until)}
    return sql.SQL(query("archive/files")).format(**parts).as_string(None)


def find_file_ranges(conn: Connection, topic_id: int, first: int, until: int, *, folder: str | None = None) -> list[FileRange]:
    """The archived parts of a range of positions, in order. `folder` is where the files are now, if they were moved."""
    with map_database_errors():
        rows = conn.execute(file_ranges_statement(topic_id, first, until).encode()).fetchall()
    return [FileRange.of(row, first, until, folder) for row in rows]
