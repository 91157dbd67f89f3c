"""Replay: events of the past are published again, in order, with a mark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID, uuid5

import msgspec

from headrace.archive.reading import RowFilter
from headrace.archive.stored_events import StoredEvent, StoredRange, read_stored_events
from headrace.core import Event, RawJSON
from headrace.db import Connection
from headrace.outbox import publish_many

REPLAY_HEADER = "headrace-replay"
"""The mark: this header says from which topic and position an event was replayed."""
BATCH = 1000


@dataclass(frozen=True)
class Replayed:
    """How far a replay has come: events published, and the position of the last one."""

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
) -> Iterator[Replayed]:
    """Publishes a range of the past into a topic, in order, and yields how far it has come; a batch is one transaction.

    New ids are made of the old ones and the replay's `name`: a replay that was broken off and is run again under its name
    publishes nothing twice. With `same_ids` the events keep theirs, and those the topic has already are dropped by the log.
    `rate` is events per second at most. Type, key, payload, producer and the events' own time stay."""
    done = 0
    began = time.monotonic()
    for found in read_stored_events(conn, span, rows=rows, folder=folder):
        size = BATCH if rate is None else max(1, min(BATCH, int(rate / 10)))
        for start in range(0, len(found), size):
            some = found[start : start + size]
            if rate is not None:
                time.sleep(max(0.0, began + done / rate - time.monotonic()))
            events = [_again(one, span.topic, into, one.event_id if same_ids else uuid5(name, one.event_id.hex)) for one in some]
            with conn.transaction():
                publish_many(conn, events, namespace=namespace)
            done += len(some)
            yield Replayed(done, some[-1].position)


def _again(past: StoredEvent, topic: str, into: str, event_id: UUID) -> Event:
    headers = {**msgspec.json.decode(past.headers), REPLAY_HEADER: f"{topic}/{past.position}"}
    return Event(
        topic=into,
        type=past.type,
        payload=RawJSON(past.payload.encode()),
        key=past.key,
        headers=headers,
        id=event_id,
        emitted_at=past.emitted_at,
        producer=past.producer,
    )
