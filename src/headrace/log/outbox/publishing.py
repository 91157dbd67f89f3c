"""Publish in the caller's own connection and transaction; and capture: changes of the user's own tables become events, in the transaction
that makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, LiteralString, TypeAlias
from uuid import UUID

from uuid_utils.compat import uuid7

from headrace.core import JSON, Event, Payload, ValidatedEvent, validate_event, validate_fields
from headrace.drivers import (
    AsyncConnection,
    Block,
    Copy,
    Fetch,
    Insert,
    Rows,
    Steps,
    SyncConnection,
    fetch,
    run_steps,
    run_steps_async,
)
from headrace.log.outbox.statements import (
    COPY_COLUMNS,
    COPY_ROUTE,
    PUBLISH,
    PUBLISH_MANY,
    PUBLISH_MANY_STRICT,
    PUBLISH_STRICT,
    binary_rows,
    copy_table,
    insert_statement,
    json_array,
    publish_parameters,
)
from headrace.observe.tracing import TracedEvents, is_untraced, switch

if TYPE_CHECKING:
    from headrace.definitions.schemas import PayloadChecker


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
    fields = (topic, type, payload, key, headers, id or uuid7(), emitted_at, producer)
    return run_steps(conn, _publish(fields, namespace, schemas))


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
    fields = (topic, type, payload, key, headers, id or uuid7(), emitted_at, producer)
    return await run_steps_async(conn, _publish(fields, namespace, schemas))


_Fields: TypeAlias = tuple[str, str, Payload, str | None, Mapping[str, JSON] | None, UUID, datetime | None, str | None]
"""The arguments of validate_fields."""


def _publish(fields: _Fields, namespace: str | None, schemas: PayloadChecker | None) -> Steps[UUID]:
    headers = fields[4]
    if switch.tracer is not None and is_untraced(headers):
        with switch.tracer.publish(fields[0], headers, event_id=fields[5]) as headers:
            return (yield from _publish((*fields[:4], headers, *fields[5:]), namespace, schemas))
    event = validate_fields(*fields)
    if schemas is not None:
        event = schemas.check_event(event)
    if not (yield Insert(*insert_statement(event, namespace))):
        yield from _publish_by_function(event, namespace)
    return event.id


def _publish_by_function(event: ValidatedEvent, namespace: str | None) -> Steps[None]:
    parameters = publish_parameters(event, namespace)
    [(event_id,)] = yield Fetch(PUBLISH, parameters)
    if event_id is None:
        yield Block(fetch(PUBLISH_STRICT, parameters), savepoint=True)


def publish_many(
    conn: SyncConnection, events: Iterable[Event], *, namespace: str | None = None, schemas: PayloadChecker | None = None
) -> list[UUID]:
    """Publishes events in the caller's transaction, in their order, and returns their ids. All or none are written.

    They go by COPY where possible, and all are held in memory: publish a long stream in batches of some ten thousand."""
    return run_steps(conn, _publish_many(events, namespace, schemas))


async def publish_many_async(
    conn: AsyncConnection, events: Iterable[Event], *, namespace: str | None = None, schemas: PayloadChecker | None = None
) -> list[UUID]:
    """As `publish_many`, on an asynchronous connection."""
    return await run_steps_async(conn, _publish_many(events, namespace, schemas))


def _publish_many(events: Iterable[Event], namespace: str | None, schemas: PayloadChecker | None) -> Steps[list[UUID]]:
    if switch.tracer is not None and not isinstance(events, TracedEvents):
        with switch.tracer.publish_many(events) as traced:
            return (yield from _publish_many(traced, namespace, schemas))
    # All events are checked before the first is sent: an invalid one leaves nothing behind and the caller's transaction usable,
    # and a generator may read from the same connection, which is impossible during a COPY.
    batch = [validate_event(event) for event in events]
    if schemas is not None:
        batch = [schemas.check_event(event) for event in batch]
    if batch and not (yield Block(_send(batch, namespace))):
        yield Block(fetch(PUBLISH_MANY_STRICT, (json_array(batch), namespace)), savepoint=True)
    return [event.id for event in batch]


def _send(batch: Sequence[ValidatedEvent], namespace: str | None) -> Steps[bool]:
    """False, and nothing is sent, if a topic is unknown."""
    topics = list(dict.fromkeys(event.topic for event in batch))
    route: Rows = yield Fetch(COPY_ROUTE, (topics, namespace, _common_digest(batch)))
    if route and (yield Copy("headrace_internal", copy_table(route), COPY_COLUMNS, binary_rows(batch, topics, route))):
        return True
    rows: Rows = yield Fetch(PUBLISH_MANY, (json_array(batch), namespace))
    return rows != [(0,)]


def _common_digest(batch: Sequence[ValidatedEvent]) -> str | None:
    """By which schemas all events of a batch were checked; None if one was not."""
    digests = {event.schemas_digest for event in batch}
    return digests.pop() if len(digests) == 1 else None


Operation: TypeAlias = Literal["insert", "update", "delete"]

_CAPTURE: LiteralString = """select headrace.capture(
    p_table => cast(cast(%s as text) as regclass),
    p_topic => cast(%s as text),
    p_key_column => cast(%s as text),
    p_type_column => cast(%s as text),
    p_insert_type => cast(%s as text),
    p_update_type => cast(%s as text),
    p_delete_type => cast(%s as text),
    p_columns => cast(%s as text[]),
    p_operations => cast(%s as text[]),
    p_namespace => cast(%s as text))"""
_RELEASE_CAPTURE: LiteralString = """select headrace.release_capture(
    p_table => cast(cast(%s as text) as regclass), p_topic => cast(%s as text), p_namespace => cast(%s as text))"""


def capture(
    conn: SyncConnection,
    table: str,
    topic: str,
    *,
    key_column: str | None = None,
    type_column: str | None = None,
    insert_type: str | None = None,
    update_type: str | None = None,
    delete_type: str | None = None,
    columns: Sequence[str] | None = None,
    operations: Sequence[Operation] = ("insert", "update", "delete"),
    namespace: str | None = None,
) -> None:
    """Publishes the changes of a table from now on. The event type comes from a column, or is given per operation.

    The key is the value of a column, by default the primary key. A second call for the same table and topic replaces the first."""
    types = (insert_type, update_type, delete_type)
    column_names = None if columns is None else list(columns)
    operation_names: list[str] = list(operations)
    parameters = (table, topic, key_column, type_column, *types, column_names, operation_names, namespace)
    run_steps(conn, fetch(_CAPTURE, parameters))


def release_capture(conn: SyncConnection, table: str, topic: str | None = None, *, namespace: str | None = None) -> None:
    """Stops capturing a table into a topic, or into every topic."""
    run_steps(conn, fetch(_RELEASE_CAPTURE, (table, topic, namespace)))
