"""Queued actions: what waits in a namespace's queue and why, and what an operator may do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias
from uuid import UUID

from headrace.core import JSON
from headrace.db import Connection, fetch_rows, fetch_value, query

ActionState: TypeAlias = Literal["due", "in-flight", "retrying", "delayed", "held"]


@dataclass(frozen=True)
class QueuedAction:
    """An action in the queue.

    `in-flight`: a node holds it; `retrying`: it failed and waits for its next attempt; `held`: its rule or its name is paused."""

    action_id: UUID | None
    """None: the message is not an action of headrace."""
    action: str | None
    key: str | None
    state: ActionState
    priority: int
    attempts: int
    """How often it was delivered, the running delivery included."""
    attempts_max: int | None
    """How many attempts its handler's policy allows; known after the first failure."""
    sent_at: datetime
    due_at: datetime | None
    """When it is delivered next; in flight: when its lease ends; None: when the pause ends."""
    error: str | None
    """The error of the last failed attempt."""
    failed_at: datetime | None
    producer: str | None
    cause: Mapping[str, JSON] | None
    unique_key: str | None
    payload: JSON


def list_queued(
    conn: Connection,
    *,
    action: str | None = None,
    key: str | None = None,
    state: ActionState | None = None,
    older_than: timedelta | None = None,
    ids: Sequence[UUID] | None = None,
    limit: int | None = 100,
    namespace: str | None = None,
) -> list[QueuedAction]:
    """The actions in the queue, oldest first: all, or those of a name, of a key, in a state, sent before a while ago."""
    parameters = {
        "action": action,
        "key": key,
        "state": state,
        "older_than": older_than,
        "ids": list(ids) if ids is not None else None,
        "limit": limit,
        "namespace": namespace,
    }
    return fetch_rows(conn, QueuedAction, query("actions/queued"), parameters)


def cancel_actions(
    conn: Connection,
    ids: Sequence[UUID] | None = None,
    *,
    action: str | None = None,
    key: str | None = None,
    state: ActionState | None = None,
    in_flight: bool = False,
    namespace: str | None = None,
) -> int:
    """Removes actions from the queue and records them as cancelled; returns how many.

    An action in flight stays. With `in_flight` it is removed too: then its handler's ack fails, and its effects are rolled back."""
    statement = "select headrace.cancel_actions(%s, %s, %s, %s, %s, %s)"
    return int(fetch_value(conn, statement, (_array(ids), action, key, state, in_flight, namespace)))


def run_actions_now(
    conn: Connection,
    ids: Sequence[UUID] | None = None,
    *,
    action: str | None = None,
    key: str | None = None,
    state: ActionState | None = None,
    namespace: str | None = None,
) -> int:
    """Makes delayed, retrying and held actions due at once; returns how many."""
    statement = "select headrace.run_actions_now(%s, %s, %s, %s, %s)"
    return int(fetch_value(conn, statement, (_array(ids), action, key, state, namespace)))


def set_action_priority(
    conn: Connection,
    priority: int,
    ids: Sequence[UUID] | None = None,
    *,
    action: str | None = None,
    key: str | None = None,
    state: ActionState | None = None,
    namespace: str | None = None,
) -> int:
    """Changes the priority of actions that are not in flight; returns how many."""
    statement = "select headrace.set_action_priority(%s, %s, %s, %s, %s, %s)"
    return int(fetch_value(conn, statement, (priority, _array(ids), action, key, state, namespace)))


def _array(ids: Sequence[UUID] | None) -> list[UUID] | None:
    return list(ids) if ids is not None else None
