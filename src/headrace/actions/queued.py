"""The queue as an operator sees it: what waits and why, how actions ended, and what may be done about it.

A pause stops consumers, rules, correlators, relays, schedules, actions or a queue for a while. Promises: what runs finishes, and nodes
start nothing new within a second; nothing is lost meanwhile, and after `resume` everything goes on exactly once. Only a schedule skips
its ticks."""

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
    """Lists actions in the queue, oldest first. Filters: name, key, state, and `older_than`: sent longer ago than this interval."""
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


@dataclass(frozen=True)
class Result:
    """How an action ended. A redriven action has several results. `attempts` 0: delivered directly."""

    action_id: UUID
    action: str
    outcome: Literal["done", "dead", "discarded", "cancelled"]
    attempts: int
    duration_s: float | None
    node_id: UUID | None
    ended_at: datetime
    event_id: UUID | None = None
    """The event that caused the action."""


@dataclass(frozen=True)
class Attempt:
    """A failed attempt, and what followed."""

    action_id: UUID
    action: str
    attempt: int
    error: str
    traceback: str | None
    follows: Literal["retry", "dead", "discarded"]
    retry_at: datetime | None
    duration_s: float | None
    node_id: UUID | None
    failed_at: datetime
    attempts_max: int | None = None
    """How many attempts the handler's policy allows."""


@dataclass(frozen=True)
class QueueState:
    """How many actions of a namespace's queue are due, in flight, delayed, retrying, held by a pause, and dead."""

    due: int
    in_flight: int
    delayed: int
    dead: int
    oldest_due_s: float
    retrying: int = 0
    """Failed, and waiting for the next attempt."""
    held: int = 0
    """Held by the pause of a rule or of an action's name."""
    paused: bool = False
    """The whole queue is paused."""

    @property
    def queued(self) -> int:
        """How many actions are in the queue, whatever their state."""
        return self.due + self.in_flight + self.delayed + self.retrying + self.held


def list_results(conn: Connection, action_ids: Sequence[UUID], *, namespace: str | None = None) -> list[Result]:
    """How these actions ended, oldest result first; an action that has not ended has none. None: the session's namespace."""
    return fetch_rows(conn, Result, query("actions/results"), {"action_ids": list(action_ids), "namespace": namespace})


def list_attempts(conn: Connection, action_ids: Sequence[UUID], *, namespace: str | None = None) -> list[Attempt]:
    """The failed attempts of these actions, oldest first. None: the session's namespace."""
    return fetch_rows(conn, Attempt, query("actions/attempts"), {"action_ids": list(action_ids), "namespace": namespace})


def queue_state(conn: Connection, *, namespace: str | None = None) -> QueueState:
    """The state of a namespace's queue."""
    statement = "select due, in_flight, delayed, dead, oldest_due_s, retrying, held, paused from headrace.queue_state(%s)"
    [state] = fetch_rows(conn, QueueState, statement, (namespace,))
    return state


PauseKind: TypeAlias = Literal["consumer", "rule", "correlator", "relay", "schedule", "action", "queue"]


@dataclass(frozen=True)
class Pause:
    """What is paused. A consumer is named topic/consumer; a queue has no name. Of a schedule only the name is known."""

    namespace: str
    kind: PauseKind
    name: str
    reason: str | None
    paused_at: datetime | None
    paused_by: str | None


def pause(conn: Connection, kind: PauseKind, name: str = "", *, reason: str | None = None, namespace: str | None = None) -> bool:
    """Pauses something until `resume`; returns False if it was paused already.

    A paused rule is still evaluated and recorded, and its actions are held in the queue."""
    return bool(fetch_value(conn, "select headrace.pause(%s, %s, %s, %s)", (kind, name, reason, namespace)))


def resume(conn: Connection, kind: PauseKind, name: str = "", *, namespace: str | None = None) -> int:
    """Lets something go on. Returns how many partitions of a consumer or held actions of a rule or action, else 1; 0 if nothing was
    paused or stopped."""
    return int(fetch_value(conn, "select headrace.resume(%s, %s, %s)", (kind, name, namespace)))


def list_pauses(conn: Connection, *, namespace: str | None = None) -> list[Pause]:
    """What is paused in a namespace."""
    return fetch_rows(conn, Pause, query("actions/pauses"), {"namespace": namespace})
