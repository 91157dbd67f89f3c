"""Results: how actions ended, their failed attempts, and the state of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from headrace.db import Connection, fetch_rows, query


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
