"""Publish in the caller's own connection and transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from uuid_utils.compat import uuid7

from headrace.core import JSON, Event, RawJSON
from headrace.outbox.adapters import run, run_async
from headrace.outbox.plans import publish_all, publish_one

if TYPE_CHECKING:
    from headrace.outbox.adapters import AsyncConnection, SyncConnection


def publish(
    conn: SyncConnection,
    topic: str,
    type: str,
    payload: JSON | RawJSON = None,
    *,
    key: str | None = None,
    headers: Mapping[str, JSON] | None = None,
    id: UUID | None = None,
    emitted_at: datetime | None = None,
    producer: str | None = None,
    namespace: str | None = None,
) -> UUID:
    """Publishes one event with the caller's transaction and returns its id. The same id twice is one event."""
    event = Event(
        topic=topic,
        type=type,
        payload=payload,
        key=key,
        headers=headers or {},
        id=id or uuid7(),
        emitted_at=emitted_at,
        producer=producer,
    )
    return run(conn, publish_one(event, namespace))


def publish_many(conn: SyncConnection, events: Iterable[Event], *, namespace: str | None = None) -> list[UUID]:
    """Publishes events with the caller's transaction, in their order, and returns their ids. All or none are written.

    They go by COPY and are held in memory once; feed a very long stream in batches of some ten thousand."""
    return run(conn, publish_all(events, namespace), together=True)


async def publish_async(
    conn: AsyncConnection,
    topic: str,
    type: str,
    payload: JSON | RawJSON = None,
    *,
    key: str | None = None,
    headers: Mapping[str, JSON] | None = None,
    id: UUID | None = None,
    emitted_at: datetime | None = None,
    producer: str | None = None,
    namespace: str | None = None,
) -> UUID:
    """As `publish`, on an asynchronous connection."""
    event = Event(
        topic=topic,
        type=type,
        payload=payload,
        key=key,
        headers=headers or {},
        id=id or uuid7(),
        emitted_at=emitted_at,
        producer=producer,
    )
    return await run_async(conn, publish_one(event, namespace))


async def publish_many_async(conn: AsyncConnection, events: Iterable[Event], *, namespace: str | None = None) -> list[UUID]:
    """As `publish_many`, on an asynchronous connection."""
    return await run_async(conn, publish_all(events, namespace), together=True)
