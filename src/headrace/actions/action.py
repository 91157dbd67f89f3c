"""Actions: commands that wait in a namespace's queue, and the way into it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from headrace.core import Event, RawJSON, seal
from headrace.db import AsyncConnection, Connection, map_database_errors, query

if TYPE_CHECKING:
    from headrace.core import JSON
else:
    # A decoder is made of Action, and msgspec does not follow a recursive alias.
    JSON = Any


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A command to do, as a handler gets it."""

    id: UUID
    action: str
    payload: JSON = None
    key: str | None = None
    priority: int = 0
    namespace: str | None = None
    event_type: str | None = None
    emitted_at: datetime | None = None
    producer: str | None = None
    scheduled_task_id: str | int | None = None
    cause: Mapping[str, JSON] | None = None
    """What it came from: the event, the rule and its version, the firing."""
    redriven_from: int | None = None
    """The dead letter it was."""
    attempt: int = 1
    """1 for the first time it is handed out; every redelivery counts."""


class Claim(msgspec.Struct, frozen=True):
    """An action that this node holds: `attempt` is the fence, for another node's claim raises it."""

    msg_id: int
    attempt: int
    action: Action


def send_action(
    conn: Connection,
    action: str,
    payload: JSON | RawJSON = None,
    *,
    key: str | None = None,
    priority: int = 0,
    delay: timedelta | None = None,
    id: UUID | None = None,
    event_type: str | None = None,
    producer: str | None = None,
    namespace: str | None = None,
) -> UUID:
    """Sends an action with the caller's transaction and returns its id. Higher priorities are handed out first."""
    given = _parameters(action, payload, key, priority, delay, id, event_type, producer, namespace)
    with map_database_errors():
        row = conn.execute(query("actions/send_action"), given).fetchone()
    assert row is not None
    return UUID(str(row[0]))


async def send_action_async(
    conn: AsyncConnection,
    action: str,
    payload: JSON | RawJSON = None,
    *,
    key: str | None = None,
    priority: int = 0,
    delay: timedelta | None = None,
    id: UUID | None = None,
    event_type: str | None = None,
    producer: str | None = None,
    namespace: str | None = None,
) -> UUID:
    """As `send_action`, on an asynchronous connection."""
    given = _parameters(action, payload, key, priority, delay, id, event_type, producer, namespace)
    with map_database_errors():
        row = await (await conn.execute(query("actions/send_action"), given)).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def _parameters(
    action: str,
    payload: JSON | RawJSON,
    key: str | None,
    priority: int,
    delay: timedelta | None,
    id: UUID | None,
    event_type: str | None,
    producer: str | None,
    namespace: str | None,
) -> dict[str, object]:
    # An action's name, key and payload have the limits of an event's type, key and payload.
    sealed = seal(Event(topic="", type=action, payload=payload, key=key))
    return {
        "action": action,
        "payload": sealed.payload,
        "key": key,
        "priority": priority,
        "delay": delay,
        "id": id,
        "event_type": event_type,
        "producer": producer,
        "namespace": namespace,
    }
