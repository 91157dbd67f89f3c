"""Publish in the caller's own connection and transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from uuid_utils.compat import uuid7

from headrace.core import JSON, Event, Payload, ValidatedEvent, map_database_errors, validate_event, validate_fields
from headrace.outbox.adapters import async_adapter, sync_adapter
from headrace.outbox.binary_copy import binary_rows
from headrace.outbox.statements import (
    COPY_ROUTE,
    PUBLISH,
    PUBLISH_MANY,
    PUBLISH_MANY_STRICT,
    PUBLISH_STRICT,
    json_array,
    publish_parameters,
)
from headrace.tracing import TracedEvents, is_untraced, switch

if TYPE_CHECKING:
    from headrace.outbox.adapters import Adapter, AsyncAdapter, AsyncConnection, SyncConnection
    from headrace.schemas import PayloadChecker


def publish(
    conn: SyncConnection,
    topic: str,
    type: str,
    payload: Payload = None,
    *,
    key: str | None = None,
    headers: Mapping[str, JSON] | None = None,
    id: UUID | None = None,
    emitted_at: datetime | None = None,
    producer: str | None = None,
    namespace: str | None = None,
    schemas: PayloadChecker | None = None,
) -> UUID:
    """Publishes one event in the caller's transaction and returns its id. The same id twice is one event.

    `schemas` checks every rule of the type's schema here; the database checks those that it has an exact form for, unless it sees that
    they were checked here by its own schemas.
    Without an open transaction, on a connection in autocommit mode, the event is committed at once, whatever becomes of your other
    statements: open a transaction around them and this call. Without a commit there is no event."""
    id = id or uuid7()
    if switch.tracer is not None and is_untraced(headers):
        with switch.tracer.publish(topic, headers, event_id=id) as headers:
            return publish(
                conn, topic, type, payload, key=key, headers=headers, id=id, emitted_at=emitted_at, producer=producer,
                namespace=namespace, schemas=schemas,
            )  # fmt: skip
    event = validate_fields(topic, type, payload, key, headers, id, emitted_at, producer)
    if schemas is not None:
        event = schemas.check_event(event)
    adapter = sync_adapter(conn)
    with map_database_errors():
        if not adapter.insert(event, namespace):
            _publish_by_function(adapter, event, namespace)
    return event.id


def _publish_by_function(adapter: Adapter, event: ValidatedEvent, namespace: str | None) -> None:
    parameters = publish_parameters(event, namespace)
    event_id, may_insert = adapter.execute(PUBLISH, parameters)[0]
    if event_id is not None:
        adapter.remember_way(event, namespace, may_insert=may_insert)
    else:
        with adapter.savepoint():
            adapter.execute(PUBLISH_STRICT, parameters)


async def publish_async(
    conn: AsyncConnection,
    topic: str,
    type: str,
    payload: Payload = None,
    *,
    key: str | None = None,
    headers: Mapping[str, JSON] | None = None,
    id: UUID | None = None,
    emitted_at: datetime | None = None,
    producer: str | None = None,
    namespace: str | None = None,
    schemas: PayloadChecker | None = None,
) -> UUID:
    """As `publish`, on an asynchronous connection."""
    id = id or uuid7()
    if switch.tracer is not None and is_untraced(headers):
        with switch.tracer.publish(topic, headers, event_id=id) as headers:
            return await publish_async(
                conn, topic, type, payload, key=key, headers=headers, id=id, emitted_at=emitted_at, producer=producer,
                namespace=namespace, schemas=schemas,
            )  # fmt: skip
    event = validate_fields(topic, type, payload, key, headers, id, emitted_at, producer)
    if schemas is not None:
        event = schemas.check_event(event)
    adapter = async_adapter(conn)
    with map_database_errors():
        if not await adapter.insert(event, namespace):
            await _publish_by_function_async(adapter, event, namespace)
    return event.id


async def _publish_by_function_async(adapter: AsyncAdapter, event: ValidatedEvent, namespace: str | None) -> None:
    parameters = publish_parameters(event, namespace)
    event_id, may_insert = (await adapter.execute(PUBLISH, parameters))[0]
    if event_id is not None:
        await adapter.remember_way(event, namespace, may_insert=may_insert)
    else:
        async with adapter.savepoint():
            await adapter.execute(PUBLISH_STRICT, parameters)


def publish_many(
    conn: SyncConnection, events: Iterable[Event], *, namespace: str | None = None, schemas: PayloadChecker | None = None
) -> list[UUID]:
    """Publishes events in the caller's transaction, in their order, and returns their ids. All or none are written.

    They go by COPY where possible, and all are held in memory: publish a long stream in batches of some ten thousand."""
    if switch.tracer is not None and not isinstance(events, TracedEvents):
        with switch.tracer.publish_many(events) as traced:
            return publish_many(conn, traced, namespace=namespace, schemas=schemas)
    # All events are checked before the first is sent: an invalid one leaves nothing behind and the caller's transaction usable,
    # and a generator may read from the same connection, which is impossible during a COPY.
    batch = [_check(validate_event(event), schemas) for event in events]
    adapter = sync_adapter(conn)
    with map_database_errors():
        if batch and not _send(adapter, batch, namespace):
            with adapter.savepoint():
                adapter.execute(PUBLISH_MANY_STRICT, (json_array(batch), namespace))
    return [event.id for event in batch]


def _check(event: ValidatedEvent, schemas: PayloadChecker | None) -> ValidatedEvent:
    """Checks the payload by the schema of its type, where the caller has loaded schemas. Raises PayloadRejected."""
    return event if schemas is None else schemas.check_event(event)


def _common_digest(batch: Sequence[ValidatedEvent]) -> str | None:
    """By which schemas all events of a batch were checked; None if one was not."""
    digests = {event.schemas_digest for event in batch}
    return digests.pop() if len(digests) == 1 else None


def _send(adapter: Adapter, batch: Sequence[ValidatedEvent], namespace: str | None) -> bool:
    """False, and nothing is sent, if a topic is unknown."""
    topics = list(dict.fromkeys(event.topic for event in batch))
    with adapter.transaction():
        route = adapter.execute(COPY_ROUTE, (topics, namespace, _common_digest(batch)))
        if route and adapter.copy(binary_rows(batch, topics, route)):
            return True
        return adapter.execute(PUBLISH_MANY, (json_array(batch), namespace)) != [(0,)]


async def publish_many_async(
    conn: AsyncConnection, events: Iterable[Event], *, namespace: str | None = None, schemas: PayloadChecker | None = None
) -> list[UUID]:
    """As `publish_many`, on an asynchronous connection."""
    if switch.tracer is not None and not isinstance(events, TracedEvents):
        with switch.tracer.publish_many(events) as traced:
            return await publish_many_async(conn, traced, namespace=namespace, schemas=schemas)
    batch = [_check(validate_event(event), schemas) for event in events]
    adapter = async_adapter(conn)
    with map_database_errors():
        if batch and not await _send_async(adapter, batch, namespace):
            async with adapter.savepoint():
                await adapter.execute(PUBLISH_MANY_STRICT, (json_array(batch), namespace))
    return [event.id for event in batch]


async def _send_async(adapter: AsyncAdapter, batch: Sequence[ValidatedEvent], namespace: str | None) -> bool:
    topics = list(dict.fromkeys(event.topic for event in batch))
    async with adapter.transaction():
        route = await adapter.execute(COPY_ROUTE, (topics, namespace, _common_digest(batch)))
        if route and await adapter.copy(binary_rows(batch, topics, route)):
            return True
        return await adapter.execute(PUBLISH_MANY, (json_array(batch), namespace)) != [(0,)]
