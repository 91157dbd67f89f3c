"""Actions: commands that wait in a namespace's queue, and how to send them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic
from uuid import UUID

import msgspec

from headrace.core import Event, Payload, validate_event
from headrace.db import AsyncConnection, Connection, fetch_value, map_database_errors
from headrace.tracing import trace_sending

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from headrace.core import JSON

    PayloadType = TypeVar("PayloadType", default=JSON)
else:
    from typing import TypeVar

    # msgspec builds a decoder from Action and does not support a recursive alias.
    JSON = Any
    PayloadType = TypeVar("PayloadType")


class Action(msgspec.Struct, Generic[PayloadType], frozen=True, kw_only=True):
    """A command, as a handler gets it. A handler that asks for `Action[Order]` gets the payload as an `Order`."""

    id: UUID
    action: str
    payload: PayloadType = None  # type: ignore[assignment]
    key: str | None = None
    priority: int = 0
    namespace: str | None = None
    event_type: str | None = None
    emitted_at: datetime | None = None
    producer: str | None = None
    scheduled_task_id: str | int | None = None
    cause: Mapping[str, JSON] | None = None
    """What caused it: the event, the rule and its version, the firing."""
    headers: Mapping[str, JSON] | None = None
    """The trace context of what caused it, if that has one."""
    redriven_from: int | None = None
    """The id of the dead letter that was redriven."""
    attempt: int = 1
    """1 for the first delivery; every redelivery counts."""


class Claim(msgspec.Struct, frozen=True):
    """An action that this node holds. `attempt` is the fence: another node's claim raises it."""

    msg_id: int
    attempt: int
    action: Action
    message: str = ""
    """The action's JSON, for handlers that need the payload's digits."""


_SEND_ACTION = """select headrace.send_action(
    %(action)s, %(payload)s::jsonb, p_key => %(key)s, p_priority => %(priority)s, p_delay => %(delay)s, p_namespace => %(namespace)s,
    p_id => %(id)s, p_event_type => %(event_type)s, p_producer => %(producer)s,
    p_unique_key => %(unique_key)s, p_unique_for => %(unique_for)s, p_headers => %(headers)s::jsonb)"""


def send_action(
    conn: Connection,
    action: str,
    payload: Payload = None,
    *,
    key: str | None = None,
    priority: int = 0,
    delay: timedelta | None = None,
    id: UUID | None = None,
    event_type: str | None = None,
    producer: str | None = None,
    unique_key: str | None = None,
    unique_for: timedelta | None = None,
    namespace: str | None = None,
) -> UUID:
    """Sends an action in the caller's transaction and returns its id. Higher priorities are delivered first.

    While an action of this name with the same `unique_key` is in the queue, or was sent less than its `unique_for` ago, nothing is
    sent, and the id of that action is returned. A concurrent sender of the same key waits until the first transaction ends."""
    parameters = _parameters(
        action,
        payload,
        key,
        priority=priority,
        delay=delay,
        id=id,
        event_type=event_type,
        producer=producer,
        unique_key=unique_key,
        unique_for=unique_for,
        namespace=namespace,
    )
    with trace_sending(action) as headers:
        return UUID(str(fetch_value(conn, _SEND_ACTION, parameters | {"headers": headers})))


async def send_action_async(
    conn: AsyncConnection,
    action: str,
    payload: Payload = None,
    *,
    key: str | None = None,
    priority: int = 0,
    delay: timedelta | None = None,
    id: UUID | None = None,
    event_type: str | None = None,
    producer: str | None = None,
    unique_key: str | None = None,
    unique_for: timedelta | None = None,
    namespace: str | None = None,
) -> UUID:
    """Like `send_action`, on an async connection."""
    parameters = _parameters(
        action,
        payload,
        key,
        priority=priority,
        delay=delay,
        id=id,
        event_type=event_type,
        producer=producer,
        unique_key=unique_key,
        unique_for=unique_for,
        namespace=namespace,
    )
    with map_database_errors(), trace_sending(action) as headers:
        [(action_id,)] = await (await conn.execute(_SEND_ACTION, parameters | {"headers": headers})).fetchall()
    return UUID(str(action_id))


def _parameters(action: str, payload: Payload, key: str | None, **options: object) -> dict[str, object]:
    # An action's name, key and payload have the same limits as an event's type, key and payload.
    event = validate_event(Event(topic="", type=action, payload=payload, key=key))
    return {"action": action, "payload": event.payload, "key": key, **options}
