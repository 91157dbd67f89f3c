"""Replay: publishes stored events again, in order and marked with a header."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID, uuid5

import msgspec

from headrace.core import Event, RawJSON, StoredEvent
from headrace.db import Connection
from headrace.log.archive.reading import RowFilter, StoredRange
from headrace.log.archive.stored_events import read_stored_events
from headrace.log.outbox import publish_many

REPLAY_HEADER = "headrace-replay"
"""The header that says from which topic and position an event was replayed."""
BATCH = 1000


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
    size = BATCH if rate is None else max(1, min(BATCH, int(rate / 10)))
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
