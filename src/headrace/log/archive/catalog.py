"""The catalog: which file holds which positions, and whether the files still hold what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

from headrace.core import ArchiveMismatch
from headrace.db import Connection, fetch_rows, fetch_value, map_database_errors, query
from headrace.log.archive.parquet import Content, read_content
from headrace.log.archive.reading import FileRange, StoredRange, first_position_at, literal_query


@dataclass(frozen=True)
class ArchivedDays:
    """Consecutive days of one month of a topic's log: `day` is the first. Their positions have no gap."""

    day: date
    first_position: int
    last_position: int
    first_at: datetime
    last_at: datetime
    events: int
    checksum: str

    @property
    def content(self) -> Content:
        """What the archive must hold of these days."""
        return Content(self.first_position, self.last_position, self.events, self.checksum)


@dataclass(frozen=True)
class ArchivedFile(ArchivedDays):
    """A file of the catalog. `in_log`: the log still has these events."""

    topic_id: int
    topic: str
    folder: str
    file: str
    file_bytes: int
    archived_at: datetime
    archived_by: str
    in_log: bool


def list_archive(conn: Connection, topic: str | None = None, *, namespace: str | None = None) -> list[ArchivedFile]:
    """The files of a namespace, or of one topic, by topic and position. Raises UnknownTopic."""
    if topic is not None:
        fetch_value(conn, "select headrace.topic_id(%s, %s)", (topic, namespace))
    return fetch_rows(conn, ArchivedFile, query("log/archive/catalog"), {"topic": topic, "namespace": namespace})


def find_file_ranges(conn: Connection, span: StoredRange, *, folder: str | None = None) -> list[FileRange]:
    """The archived parts of a range of positions, in order."""
    with map_database_errors():
        statement = literal_query("log/archive/files", topic_id=span.topic_id, first=span.first, until=span.until)
        rows = conn.execute(statement.encode()).fetchall()
    return [FileRange.from_row(row, span, folder) for row in rows]


def find_position_at(conn: Connection, span: StoredRange, at: datetime, *, folder: str | None = None) -> int:
    """The first position of a topic that was appended at a time or later, in archive or log; the end of `span` if there is none."""
    parameters = {"topic_id": span.topic_id, "at": at}
    with map_database_errors():
        row = conn.execute(query("log/archive/file_at"), parameters).fetchone() if span.first < span.log_first else None
        if row is not None:
            position = first_position_at(FileRange.from_row(row, replace(span, until=span.log_first), folder), at)
            if position is not None:
                return position
        # Index: log_position, in the time partitions from there on.
        statement = "select min(l.position) from headrace.log l where l.topic_id = %(topic_id)s and l.appended_at >= %(at)s"
        row = conn.execute(statement, parameters).fetchone()
    return span.until if row is None or row[0] is None else int(row[0])


@dataclass(frozen=True)
class FileVerification:
    """The result for one file; `problem` is None if the file holds what the catalog says."""

    archived: ArchivedFile
    problem: str | None


def verify_archive(
    conn: Connection, topic: str | None = None, *, folder: Path | str | None = None, namespace: str | None = None
) -> Iterator[FileVerification]:
    """Reads the files of one topic, or of all, one by one. `folder` is where they are now, if they were moved."""
    for archived in list_archive(conn, topic, namespace=namespace):
        yield FileVerification(archived, _problem(archived, Path(folder or archived.folder) / archived.file))


def _problem(archived: ArchivedFile, path: Path) -> str | None:
    if not path.exists():
        return f"{path} does not exist"
    try:
        content = read_content(path)
    except ArchiveMismatch as error:
        return str(error)
    return None if content == archived.content else f"{path} holds {content}; the catalog says {archived.content}"
