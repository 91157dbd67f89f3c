"""Stored events: a topic's archive and log as one, read in order without Spark, and replayed: published again with a mark."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

import msgspec

from headrace.core import STORED_COLUMNS, Event, NotFound, PositionOutOfRange, RawJSON, StoredEvent
from headrace.db import Connection, fetch_rows, fetch_value, parse_time, query
from headrace.log.archive.catalog import find_file_ranges, find_position_at
from headrace.log.archive.reading import FileRange, RowFilter, StoredRange, read_archive_file
from headrace.log.outbox import publish_many

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 5000
REPLAY_BATCH = 1000
REPLAY_HEADER = "headrace-replay"
"""The header that says from which topic and position an event was replayed."""
_COLUMNS = tuple(column.name for column in STORED_COLUMNS)


def find_stored_range(
    conn: Connection,
    topic: str,
    *,
    start: str = "earliest",
    end: str = "latest",
    folder: str | None = None,
    namespace: str | None = None,
) -> StoredRange:
    """From start to before end, each `earliest`, `latest`, a position, or a time of the log. Raises PositionOutOfRange for a
    position that neither archive nor log has."""
    [whole] = fetch_rows(conn, StoredRange, query("log/archive/range"), {"topic": topic, "namespace": namespace})
    first = _parse_position(conn, whole, start, folder)
    return replace(whole, first=first, until=max(first, _parse_position(conn, whole, end, folder)))


def _parse_position(conn: Connection, whole: StoredRange, text: str, folder: str | None) -> int:
    if text in ("earliest", "latest"):
        return whole.first if text == "earliest" else whole.until
    if not text.isdecimal():
        return find_position_at(conn, whole, parse_time(conn, text), folder=folder)
    if not whole.first <= int(text) <= whole.until:
        raise PositionOutOfRange(
            f"position {text} of topic {whole.topic!r} is neither in the archive nor in the log, "
            f"which hold {whole.first} to {whole.until - 1}; use earliest, latest or a position within"
        )
    return int(text)


def read_stored_events(
    conn: Connection, span: StoredRange, *, rows: RowFilter | None = None, batch: int = BATCH, folder: str | None = None
) -> Iterator[list[StoredEvent]]:
    """The events of a range that pass the filter, in order, in batches. Every position comes once: from the archive below the
    start of the log, from the log above it; also if retention moves that start meanwhile."""
    position = span.first
    rows = rows or RowFilter()
    while position < span.until:
        log_first = _log_first(conn, span)
        if position < log_first:
            archived = replace(span, first=position, until=min(log_first, span.until))
            for record_batch in _read_archived(conn, archived, rows, folder):
                yield _stored_events(record_batch)
            position = archived.until
            continue
        events = _read_log(conn, span, rows, position, batch)
        if _log_first(conn, span) > position:
            continue  # Some of it was dropped while it was read, and is in the archive now.
        if events:
            yield events
        position = events[-1].position + 1 if len(events) == batch else span.until


def read_stored_events_at(
    conn: Connection, span: StoredRange, positions: Collection[int], *, folder: str | None = None
) -> dict[int, StoredEvent]:
    """The events at these positions, from log or archive; positions that neither has are left out."""
    if not positions:
        return {}
    parameters = {"topic_id": span.topic_id, "positions": list(positions)}
    events = {event.position: event for event in fetch_rows(conn, StoredEvent, query("log/archive/events_at"), parameters)}
    if missing := set(positions) - set(events):
        try:
            return events | _read_archived_at(conn, span, missing, folder)
        except NotFound:
            # Once more: small files are put together from time to time.
            return events | _read_archived_at(conn, span, missing, folder)
    return events


def _read_archived_at(
    conn: Connection, span: StoredRange, positions: Collection[int], folder: str | None
) -> dict[int, StoredEvent]:
    events: dict[int, StoredEvent] = {}
    for file_range in find_file_ranges(conn, replace(span, first=min(positions), until=max(positions) + 1), folder=folder):
        within = tuple(position for position in positions if file_range.first <= position < file_range.until)
        for record_batch in read_archive_file(file_range, _COLUMNS, RowFilter(positions=within)) if within else []:
            events |= {event.position: event for event in _stored_events(record_batch)}
    return events


def _stored_events(batch: pa.RecordBatch) -> list[StoredEvent]:
    return [StoredEvent(**{**row, "event_id": UUID(row["event_id"])}) for row in batch.to_pylist()]


def _read_archived(conn: Connection, span: StoredRange, rows: RowFilter, folder: str | None) -> Iterator[pa.RecordBatch]:
    position = span.first
    missing: list[FileRange] = []
    while position < span.until:
        ranges = _archived_ranges(conn, replace(span, first=position), folder)
        try:
            for file_range in ranges:
                yield from read_archive_file(file_range, _COLUMNS, rows)
                position = file_range.until
        except NotFound:
            # Small files are put together from time to time: the catalog knows where the events are now.
            if ranges == missing:
                raise
            missing = ranges


def _archived_ranges(conn: Connection, span: StoredRange, folder: str | None) -> list[FileRange]:
    ranges = find_file_ranges(conn, span, folder=folder)
    if sum(file_range.until - file_range.first for file_range in ranges) != len(span):
        raise PositionOutOfRange(
            f"topic {span.topic!r}: retention dropped some of the positions {span.first} to {span.until - 1}, "
            "and the archive does not have them; start at earliest"
        )
    return ranges


def _log_first(conn: Connection, span: StoredRange) -> int:
    first = fetch_value(conn, "select t.dropped_to + 1 from headrace.topic t where t.topic_id = %s", (span.topic_id,))
    return span.until if first is None else int(first)


def _read_log(conn: Connection, span: StoredRange, rows: RowFilter, first: int, limit: int) -> list[StoredEvent]:
    filters = {"types": None if rows.types is None else list(rows.types), "keys": None if rows.keys is None else list(rows.keys)}
    parameters = {"topic_id": span.topic_id, "first": first, "until": span.until, "limit": limit, **filters}
    return fetch_rows(conn, StoredEvent, query("log/archive/events").format(direction="asc"), parameters)


@dataclass(frozen=True)
class ReplayProgress:
    """The number of events published so far, and the position of the last one."""

    events: int
    position: int


def replay(
    conn: Connection,
    span: StoredRange,
    *,
    into: str,
    name: UUID,
    same_ids: bool = False,
    rate: float | None = None,
    rows: RowFilter | None = None,
    folder: str | None = None,
    namespace: str | None = None,
) -> Iterator[ReplayProgress]:
    """Publishes a range of stored events into a topic, in order, and yields its progress. A batch is one transaction.

    New ids are derived from the old ones and the replay's `name`: an interrupted replay that runs again under the same name
    publishes nothing twice. With `same_ids` the events keep their ids, and the log drops those that the topic already has.
    `rate` is the maximum of events per second. Type, key, payload, producer and the events' own time stay the same."""
    published = 0
    started_at = time.monotonic()
    size = REPLAY_BATCH if rate is None else max(1, min(REPLAY_BATCH, int(rate / 10)))
    for stored in read_stored_events(conn, span, rows=rows, folder=folder):
        for start in range(0, len(stored), size):
            batch = stored[start : start + size]
            if rate is not None:
                time.sleep(max(0.0, started_at + published / rate - time.monotonic()))
            events = [
                _replayed_event(event, span.topic, into, event.event_id if same_ids else uuid5(name, event.event_id.hex))
                for event in batch
            ]
            with conn.transaction():
                publish_many(conn, events, namespace=namespace)
            published += len(batch)
            yield ReplayProgress(published, batch[-1].position)


def _replayed_event(stored: StoredEvent, topic: str, into: str, event_id: UUID) -> Event:
    headers = {**msgspec.json.decode(stored.headers), REPLAY_HEADER: f"{topic}/{stored.position}"}
    return Event(
        topic=into,
        type=stored.type,
        payload=RawJSON(stored.payload.encode()),
        key=stored.key,
        headers=headers,
        id=event_id,
        emitted_at=stored.emitted_at,
        producer=stored.producer,
    )
