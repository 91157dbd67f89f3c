"""Results: how actions ended, which attempts failed, how full the queue is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from psycopg.rows import class_row

from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class Result:
    """How an action ended. One that was redriven has one for each end. `attempts` 0: handed over directly."""

    action_id: UUID
    action: str
    outcome: Literal["done", "dead"]
    attempts: int
    duration_s: float | None
    node_id: UUID | None
    ended_at: datetime


@dataclass(frozen=True)
class Attempt:
    """An attempt that failed, and what followed."""

    action_id: UUID
    action: str
    attempt: int
    error: str
    traceback: str | None
    follows: Literal["retry", "dead"]
    retry_at: datetime | None
    duration_s: float | None
    node_id: UUID | None
    failed_at: datetime


@dataclass(frozen=True)
class QueueState:
    """How full a namespace's queue is."""

    due: int
    in_flight: int
    delayed: int
    dead: int
    oldest_due_s: float


def list_results(conn: Connection, action_ids: Sequence[UUID]) -> list[Result]:
    """How these actions ended, in the order of time; none for those that have not yet."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Result)) as cursor:
        return cursor.execute(query("actions/results"), {"action_ids": list(action_ids)}).fetchall()


def list_attempts(conn: Connection, action_ids: Sequence[UUID]) -> list[Attempt]:
    """The failed attempts of these actions, in the order of time."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Attempt)) as cursor:
        return cursor.execute(query("actions/attempts"), {"action_ids": list(action_ids)}).fetchall()


def queue_state(conn: Connection, *, namespace: str | None = None) -> QueueState:
    """How full the queue is."""
    with map_database_errors(), conn.cursor(row_factory=class_row(QueueState)) as cursor:
        found = cursor.execute(query("actions/queue_state"), {"namespace": namespace}).fetchone()
    assert found is not None
    return found
