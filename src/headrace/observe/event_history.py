"""Story: what became of an event, to the end of its actions. Joins what the rooms below know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from headrace.actions import Attempt, DeadLetter, Result, list_attempts, list_dead_letters, list_results
from headrace.db import Connection
from headrace.observe.lineage import Firing, Trace, trace


@dataclass(frozen=True)
class ActionHistory:
    """An action that a rule asked for: the attempts that failed, how it ended each time, and the dead letter it is."""

    firing: Firing
    attempts: tuple[Attempt, ...]
    results: tuple[Result, ...]
    dead_letter_id: int | None
    redriven: bool
    """Its newest dead letter was sent to the queue again, and it has not ended since."""

    @property
    def state(self) -> Literal["waiting", "retrying", "done", "dead", "redriven", "purged"]:
        """`purged`: it was a dead letter that is no longer there."""
        if self.redriven:
            return "redriven"
        if not self.results:
            return "retrying" if self.attempts else "waiting"
        if self.results[-1].outcome == "done":
            return "done"
        return "purged" if self.dead_letter_id is None else "dead"


@dataclass(frozen=True)
class EventHistory:
    """An event in one topic: its trace, and the actions that followed."""

    trace: Trace
    actions: tuple[ActionHistory, ...]


def event_history(conn: Connection, event_id: UUID, *, namespace: str | None = None) -> list[EventHistory]:
    """The story of an event, one per topic it was published to. Raises UnknownEvent."""
    return [EventHistory(one, _actions(conn, one)) for one in trace(conn, event_id, namespace=namespace)]


def _actions(conn: Connection, told: Trace) -> tuple[ActionHistory, ...]:
    ids = [firing.action_id for firing in told.firings]
    if not ids:
        return ()
    attempts, results = list_attempts(conn, ids), list_results(conn, ids)
    dead = {one.action for one in results if one.outcome == "dead"}
    letters = [letter for action in dead for letter in _letters(conn, action, told.namespace)]
    return tuple(_action(firing, attempts, results, letters) for firing in told.firings)


def _letters(conn: Connection, action: str, namespace: str) -> list[DeadLetter]:
    kept = list_dead_letters(conn, action=action, redriven=True, limit=None, namespace=namespace)
    return kept + list_dead_letters(conn, action=action, limit=None, namespace=namespace)


def _action(firing: Firing, attempts: list[Attempt], results: list[Result], letters: list[DeadLetter]) -> ActionHistory:
    own = [one for one in results if one.action_id == firing.action_id]
    letter = max((one for one in letters if one.action_id == firing.action_id), key=lambda one: one.buried_at, default=None)
    open_letter = letter is not None and letter.redriven_at is None
    redriven = letter is not None and letter.redriven_at is not None and own[-1].ended_at < letter.redriven_at
    return ActionHistory(
        firing=firing,
        attempts=tuple(one for one in attempts if one.action_id == firing.action_id),
        results=tuple(own),
        dead_letter_id=letter.dead_letter_id if letter is not None and open_letter else None,
        redriven=redriven,
    )
