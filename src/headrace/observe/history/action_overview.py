"""Action overview: everything that is known of one action, by its id: what sent it, its attempts, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from psycopg.rows import dict_row

from headrace.actions import (
    Attempt,
    DeadLetter,
    QueuedAction,
    Result,
    list_attempts,
    list_dead_letters,
    list_queued,
    list_results,
)
from headrace.core import JSON, UnknownAction
from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class ActionOverview:
    """An action, in the queue or ended. `cause`: the rule or correlator that sent it, and the event; empty if a program sent it."""

    action_id: UUID
    action: str
    cause: Mapping[str, JSON]
    queued: QueuedAction | None
    attempts: tuple[Attempt, ...]
    """Its failed attempts."""
    results: tuple[Result, ...]
    """One for each time it ended: a redriven action has several."""
    dead_letter: DeadLetter | None

    @property
    def state(self) -> Literal["due", "in-flight", "retrying", "delayed", "held", "done", "dead", "cancelled", "discarded"]:
        """Its state in the queue, or else how it ended. `discarded`: its dead letter was given up."""
        if self.queued:
            return self.queued.state
        outcome = self.results[-1].outcome
        return "discarded" if outcome == "dead" and self.dead_letter is None else outcome


def action_overview(conn: Connection, action_id: UUID, *, namespace: str | None = None) -> ActionOverview:
    """Everything that is known of an action. Raises UnknownAction."""
    with conn.transaction():
        queued = next(iter(list_queued(conn, ids=[action_id], namespace=namespace)), None)
        attempts = list_attempts(conn, [action_id], namespace=namespace)
        results = list_results(conn, [action_id], namespace=namespace)
        if not (queued or results):
            raise UnknownAction(f"there is no action {action_id}: it is not in the queue, and results are kept for 30 days")
        name = (queued.action if queued else results[-1].action) or ""
        dead_letter = _dead_letter(conn, action_id, namespace) if results and results[-1].outcome == "dead" else None
        cause = _cause(conn, action_id, queued, dead_letter, results[-1] if results else None, namespace)
    return ActionOverview(
        action_id=action_id,
        action=name,
        cause=cause,
        queued=queued,
        attempts=tuple(attempts),
        results=tuple(results),
        dead_letter=dead_letter,
    )


def _dead_letter(conn: Connection, action_id: UUID, namespace: str | None) -> DeadLetter | None:
    letters = list_dead_letters(conn, action_ids=[action_id], limit=None, namespace=namespace)
    return letters[-1] if letters else None


def _cause(
    conn: Connection,
    action_id: UUID,
    queued: QueuedAction | None,
    dead_letter: DeadLetter | None,
    result: Result | None,
    namespace: str | None,
) -> Mapping[str, JSON]:
    if queued:
        return queued.cause or {}
    if dead_letter and isinstance(dead_letter.envelope, dict):
        cause = dead_letter.envelope.get("cause")
        return cause if isinstance(cause, dict) else {}
    if result is None or result.event_id is None:
        return {}
    # The action itself is gone: its firing or output is found by the event.
    with map_database_errors(), conn.cursor(row_factory=dict_row) as cursor:
        parameters = {"action_id": action_id, "event_id": result.event_id, "namespace": namespace}
        row = cursor.execute(query("observe/action_cause"), parameters).fetchone()
    cause_row = {name: value for name, value in row.items() if value is not None} if row else {}
    return cause_row or {"event_id": str(result.event_id)}
