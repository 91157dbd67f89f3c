"""Factories: events and actions as handlers get them, for tests that call a handler without any database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from headrace.actions import Action
from headrace.core import JSON, LoggedEvent, decode, encode


def make_event(
    type: str = "event",
    payload: JSON = None,
    *,
    topic: str = "topic",
    key: str | None = None,
    headers: Mapping[str, JSON] | None = None,
    position: int = 1,
    partition: int = 0,
    id: UUID | None = None,
    emitted_at: datetime | None = None,
    appended_at: datetime | None = None,
    producer: str | None = None,
) -> LoggedEvent:
    """An event at a position of a topic's log. Its payload is what a handler would get: JSON, so that a tuple becomes a list."""
    emitted_at = emitted_at or datetime.now(UTC)
    return LoggedEvent(
        position=position,
        partition=partition,
        id=id or uuid7(),
        topic=topic,
        type=type,
        key=key,
        payload=decode(encode(payload)),
        headers=headers or {},
        emitted_at=emitted_at,
        appended_at=appended_at or emitted_at,
        producer=producer,
    )


def make_action(
    action: str = "action",
    payload: JSON = None,
    *,
    key: str | None = None,
    priority: int = 0,
    attempt: int = 1,
    id: UUID | None = None,
    namespace: str | None = None,
    event_type: str | None = None,
    emitted_at: datetime | None = None,
    producer: str | None = None,
    cause: Mapping[str, JSON] | None = None,
) -> Action:
    """An action as its handler gets it."""
    return Action(
        id=id or uuid7(),
        action=action,
        payload=decode(encode(payload)),
        key=key,
        priority=priority,
        namespace=namespace or "default",
        event_type=event_type,
        emitted_at=emitted_at or datetime.now(UTC),
        producer=producer,
        cause=cause or {},
        attempt=attempt,
    )
