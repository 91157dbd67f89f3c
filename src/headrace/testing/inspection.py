"""Inspection: what happened in a test, read from the same tables and views as the command line reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
from psycopg import sql

from headrace.actions import Action, list_dead_letters
from headrace.core import JSON, map_database_errors
from headrace.db import Connection, fetch_rows, fetch_value, query

_decode = msgspec.json.Decoder(Action).decode


@dataclass(frozen=True)
class RuleFiring:
    """A rule that fired on an event, and the action it sent."""

    rule: str
    version: int
    topic: str
    position: int | None
    """None for an inline rule whose event is not sequenced yet."""
    event_id: UUID
    action: str
    action_id: UUID
    fired_at: datetime


@dataclass(frozen=True, kw_only=True)
class SentAction:
    """An action that was sent, and what became of it."""

    id: UUID
    action: str
    key: str | None
    payload: JSON
    """None for an action that was handled outside of the kit, for example by direct delivery: the queue keeps no payloads."""
    state: Literal["queued", "retrying", "done", "dead"]
    """`queued`: it waits, perhaps for its due time or for a handler; `retrying`: an attempt has failed."""
    attempts: int
    """Deliveries so far."""
    due_at: datetime | None = None
    error: str | None = None
    """Of a dead letter: the error it was buried with."""
    cause: Mapping[str, JSON] | None = None


@dataclass(frozen=True)
class _Result:
    action_id: UUID
    action: str
    outcome: str
    attempts: int


def list_firings(conn: Connection, rule: str | None, namespace: str | None) -> list[RuleFiring]:
    return fetch_rows(conn, RuleFiring, query("testing/firings"), {"rule": rule, "namespace": namespace})


def list_sent_actions(conn: Connection, handled: Mapping[UUID, Action], namespace: str | None) -> list[SentAction]:
    """All actions of a namespace, in the order they were sent. `handled`: those whose payloads the kit has seen."""
    actions = [*_queued(conn, namespace), *_dead(conn, namespace)]
    known = {action.id for action in actions}
    for result in fetch_rows(conn, _Result, query("testing/results"), {"namespace": namespace}):
        if result.action_id in known or result.outcome != "done":
            continue
        action = handled.get(result.action_id)
        actions.append(
            SentAction(
                id=result.action_id,
                action=result.action,
                key=action.key if action else None,
                payload=action.payload if action else None,
                state="done",
                attempts=result.attempts,
                cause=action.cause if action else None,
            )
        )
    # By id: a uuid v7 begins with the time.
    return sorted(actions, key=lambda action: action.id)


def _queued(conn: Connection, namespace: str | None) -> Iterator[SentAction]:
    queue = fetch_value(conn, "select 'q_' || headrace.queue_name(headrace.current_namespace(%s))", (namespace,))
    statement = sql.SQL("select q.read_ct, q.vt, q.message::text from pgmq.{} q order by q.msg_id").format(sql.Identifier(queue))
    with map_database_errors():
        rows = conn.execute(statement).fetchall()
    for attempts, due_at, message in rows:
        action = _decode(message)
        yield SentAction(
            id=action.id,
            action=action.action,
            key=action.key,
            payload=action.payload,
            state="retrying" if attempts else "queued",
            attempts=attempts,
            due_at=due_at,
            cause=action.cause,
        )


def _dead(conn: Connection, namespace: str | None) -> Iterator[SentAction]:
    for letter in list_dead_letters(conn, kind="action", limit=None, namespace=namespace):
        if letter.original_id is not None:
            yield SentAction(
                id=letter.original_id,
                action=letter.name or "",
                key=letter.key,
                payload=letter.payload,
                state="dead",
                attempts=letter.attempts,
                error=letter.error,
            )
