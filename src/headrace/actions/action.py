"""Actions: commands that wait in a namespace's queue, and how to send them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, LiteralString
from uuid import UUID

import msgspec

from headrace.core import Event, Payload, validate_event
from headrace.drivers import AsyncConnection, Fetch, Steps, SyncConnection, run_steps, run_steps_async
from headrace.log.outbox import ascii_json
from headrace.observe.tracing import trace_sending

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


_SEND_ACTION: LiteralString = """select cast(headrace.send_action(
    p_action => cast(%s as text),
    p_payload => cast(cast(%s as text) as jsonb),
    p_key => cast(%s as text),
    p_priority => cast(cast(%s as text) as integer),
    p_delay => cast(cast(%s as text) as interval),
    p_namespace => cast(%s as text),
    p_id => cast(cast(%s as text) as uuid),
    p_event_type => cast(%s as text),
    p_producer => cast(%s as text),
    p_unique_key => cast(%s as text),
    p_unique_for => cast(cast(%s as text) as interval),
    p_headers => cast(cast(%s as text) as jsonb)) as text)"""


def send_action(
    conn: SyncConnection,
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
    options = (key, priority, delay, id, event_type, producer, unique_key, unique_for, namespace)
    return run_steps(conn, send_steps(action, payload, *options))


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
    """As `send_action`, on an asynchronous connection."""
    options = (key, priority, delay, id, event_type, producer, unique_key, unique_for, namespace)
    return await run_steps_async(conn, send_steps(action, payload, *options))


def send_steps(
    action: str,
    payload: Payload,
    key: str | None = None,
    priority: int = 0,
    delay: timedelta | None = None,
    id: UUID | None = None,
    event_type: str | None = None,
    producer: str | None = None,
    unique_key: str | None = None,
    unique_for: timedelta | None = None,
    namespace: str | None = None,
) -> Steps[UUID]:
    """Sends an action, on any connection."""
    # An action's name, key and payload have the same limits as an event's type, key and payload.
    event = validate_event(Event(topic="", type=action, payload=payload, key=key))
    with trace_sending(action) as headers:
        parameters = (
            action,
            ascii_json(event.payload),
            key,
            str(priority),
            _interval(delay),
            namespace,
            None if id is None else str(id),
            event_type,
            producer,
            unique_key,
            _interval(unique_for),
            headers,
        )
        [(action_id,)] = yield Fetch(_SEND_ACTION, parameters)
    return UUID(action_id)


def _interval(time: timedelta | None) -> str | None:
    return None if time is None else f"{time.days} days {time.seconds} seconds {time.microseconds} microseconds"
