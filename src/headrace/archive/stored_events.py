"""The past of a topic: its archive and its log as one, read in order without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from psycopg.rows import class_row

from headrace.archive.catalog import files_of
from headrace.archive.reading import FileRange, RowFilter, first_at, read_file
from headrace.core import OutOfLog
from headrace.db import Connection, map_database_errors, parse_time, query

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 5000
_COLUMNS = ("position", "event_id", "type", "key", "payload", "headers", "emitted_at", "appended_at", "producer")


@dataclass(frozen=True)
class StoredEvent:
    """An event as it stands in archive or log; payload and headers are JSON text, exactly as stored."""

    position: int
    event_id: UUID
    type: str
    key: str | None
    payload: str
    headers: str
    emitted_at: datetime
    appended_at: datetime
    producer: str | None


@dataclass(frozen=True)
class StoredRange:
    """A range of a topic's positions, from `first` to before `until`; those before `logged` are in the archive only."""

    topic_id: int
    topic: str
    first: int
    until: int
    logged: int

    def __len__(self) -> int:
        return max(0, self.until - self.first)


def stored_range(
    conn: Connection,
    topic: str,
    *,
    start: str = "earliest",
    end: str = "latest",
    folder: str | None = None,
    namespace: str | None = None,
) -> StoredRange:
    """From start to before end, each `earliest`, `latest`, a position or a time of the log. Raises OutOfLog for a position that
    neither archive nor log has."""
    with map_database_errors(), conn.cursor(row_factory=class_row(StoredRange)) as cursor:
        whole = cursor.execute(query("archive/range"), {"topic": topic, "namespace": namespace}).fetchone()
    assert whole is not None
    first = _position(conn, whole, start, folder)
    return replace(whole, first=first, until=max(first, _position(conn, whole, end, folder)))


def _position(conn: Connection, whole: StoredRange, text: str, folder: str | None) -> int:
    if text in ("earliest", "latest"):
        return whole.first if text == "earliest" else whole.until
    if text.isdecimal():
        if not whole.first <= int(text) <= whole.until:
            raise OutOfLog(
                f"position {text} of topic {whole.topic!r} is neither in the archive nor in the log, "
                f"which hold {whole.first} to {whole.until - 1}; use earliest, latest or a position within"
            )
        return int(text)
    return _position_at(conn, whole, parse_time(conn, text), folder)


def _position_at(conn: Connection, whole: StoredRange, at: datetime, folder: str | None) -> int:
    given = {"topic_id": whole.topic_id, "at": at}
    with map_database_errors():
        row = conn.execute(query("archive/file_at"), given).fetchone()
        if row is not None:
            found = first_at(FileRange.of(row, whole.first, whole.logged, folder), at)
            if found is not None:
                return found
        (position,) = conn.execute(query("archive/position_at"), given).fetchone() or (None,)
    return whole.until if position is None else int(position)


def read_stored_events(
    conn: Connection, span: StoredRange, *, rows: RowFilter | None = None, batch: int = BATCH, folder: str | None = None
) -> Iterator[list[StoredEvent]]:
    """The events of a range that pass, in order, in batches. Every position comes once: from the archive below the log's start,
    from the log above; also when retention moves that start meanwhile."""
    at = span.first
    rows = rows or RowFilter()
    while at < span.until:
        logged = _logged(conn, span)
        if at < logged:
            for piece in _archived(conn, span, at, min(logged, span.until), folder):
                for some in read_file(piece, _COLUMNS, rows):
                    yield _pasts(some)
            at = min(logged, span.until)
            continue
        found = _from_log(conn, span, rows, at, batch)
        if _logged(conn, span) > at:
            continue  # Some of it was dropped while it was read; it is in the archive now.
        if found:
            yield found
        at = found[-1].position + 1 if len(found) == batch else span.until


def read_positions(
    conn: Connection, span: StoredRange, positions: Collection[int], *, folder: str | None = None
) -> dict[int, StoredEvent]:
    """The events at these positions, wherever they are; what neither archive nor log has is left out."""
    found: dict[int, StoredEvent] = {}
    if not positions:
        return found
    with map_database_errors(), conn.cursor(row_factory=class_row(StoredEvent)) as cursor:
        given = {"topic_id": span.topic_id, "positions": list(positions)}
        found |= {event.position: event for event in cursor.execute(query("archive/positions"), given)}
    missing = set(positions) - set(found)
    for piece in files_of(conn, span.topic_id, min(missing), max(missing) + 1, folder=folder) if missing else []:
        wanted = [position for position in missing if piece.first <= position < piece.until]
        for some in read_file(piece, _COLUMNS, RowFilter(positions=tuple(wanted))) if wanted else []:
            found |= {event.position: event for event in _pasts(some)}
    return found


def _pasts(batch: pa.RecordBatch) -> list[StoredEvent]:
    return [StoredEvent(**{**row, "event_id": UUID(row["event_id"])}) for row in batch.to_pylist()]


def _archived(conn: Connection, span: StoredRange, first: int, until: int, folder: str | None) -> list[FileRange]:
    pieces = files_of(conn, span.topic_id, first, until, folder=folder)
    if sum(piece.until - piece.first for piece in pieces) != until - first:
        raise OutOfLog(
            f"topic {span.topic!r}: some of the positions {first} to {until - 1} have been dropped by retention "
            "and are not in the archive; begin at earliest"
        )
    return pieces


def _logged(conn: Connection, span: StoredRange) -> int:
    row = conn.execute("select t.dropped_to + 1 from headrace.topic t where t.topic_id = %s", (span.topic_id,)).fetchone()
    return span.until if row is None else int(row[0])


def _from_log(conn: Connection, span: StoredRange, rows: RowFilter, first: int, limit: int) -> list[StoredEvent]:
    with map_database_errors(), conn.cursor(row_factory=class_row(StoredEvent)) as cursor:
        given = {"topic_id": span.topic_id, "first": first, "until": span.until, "limit": limit}
        chosen = {name: None if told is None else list(told) for name, told in (("types", rows.types), ("keys", rows.keys))}
        return cursor.execute(query("archive/past"), given | chosen).fetchall()
