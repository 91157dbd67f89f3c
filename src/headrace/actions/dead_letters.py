"""Dead letters of actions: what could not be handled, and what becomes of it. Redriving keeps the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from headrace.core import JSON, RawJSON, UnknownDeadLetter, encode
from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class DeadLetter:
    """An action that was buried. `payload` is what a redrive sends; the `envelope` is the action as it was."""

    dead_letter_id: int
    action_id: UUID | None
    action: str | None
    key: str | None
    payload: JSON
    edited: bool
    reason: str
    error: str | None
    error_group: str | None
    traceback: str | None
    attempts: int
    buried_at: datetime
    redriven_at: datetime | None
    envelope: JSON


@dataclass(frozen=True)
class DeadGroup:
    """Dead letters of one action with one kind of error."""

    action: str | None
    reason: str
    error_group: str | None
    dead: int
    first_at: datetime
    last_at: datetime
    example_id: int


def list_dead_letters(
    conn: Connection,
    *,
    ids: Sequence[int] | None = None,
    action: str | None = None,
    error: str | None = None,
    redriven: bool = False,
    limit: int | None = 100,
    namespace: str | None = None,
) -> list[DeadLetter]:
    """Dead letters, oldest first: of one action, of one kind of error; with `redriven` those that were redriven."""
    given = {**_chosen(ids, action, error, namespace), "redriven": redriven, "limit": limit}
    with map_database_errors(), conn.cursor(row_factory=class_row(DeadLetter)) as cursor:
        return cursor.execute(query("actions/dead_letters"), given).fetchall()


def group_dead_letters(conn: Connection, *, namespace: str | None = None) -> list[DeadGroup]:
    """Dead letters counted by action, reason and kind of error, the most frequent first."""
    with map_database_errors(), conn.cursor(row_factory=class_row(DeadGroup)) as cursor:
        return cursor.execute(query("actions/dead_groups"), {"namespace": namespace}).fetchall()


def show_dead_letter(conn: Connection, dead_letter_id: int, *, namespace: str | None = None) -> DeadLetter:
    """One dead letter, also a redriven one; raises UnknownDeadLetter."""
    for redriven in (False, True):
        found = list_dead_letters(conn, ids=[dead_letter_id], redriven=redriven, namespace=namespace)
        if found:
            return found[0]
    raise UnknownDeadLetter(f"there is no dead letter {dead_letter_id}; list them first")


def edit_dead_letter(conn: Connection, dead_letter_id: int, payload: JSON | RawJSON, *, namespace: str | None = None) -> None:
    """Changes what a redrive will send. The original payload is kept."""
    with map_database_errors():
        given = (dead_letter_id, encode(payload), namespace)
        conn.execute("select headrace.edit_dead_letter(%s, %s::jsonb, %s)", given)


def redrive(
    conn: Connection,
    *,
    ids: Sequence[int] | None = None,
    action: str | None = None,
    error: str | None = None,
    namespace: str | None = None,
) -> int:
    """Sends dead letters to the queue again: those named, of one action, of one kind of error, or all. Returns how many."""
    with map_database_errors():
        row = conn.execute(query("actions/redrive"), _chosen(ids, action, error, namespace)).fetchone()
    assert row is not None
    return int(row[0])


def purge(
    conn: Connection,
    *,
    ids: Sequence[int] | None = None,
    action: str | None = None,
    error: str | None = None,
    redriven: bool = False,
    namespace: str | None = None,
) -> int:
    """Deletes dead letters for good; with `redriven` the originals kept after a redrive. Returns how many."""
    with map_database_errors():
        row = conn.execute(query("actions/purge"), {**_chosen(ids, action, error, namespace), "redriven": redriven}).fetchone()
    assert row is not None
    return int(row[0])


def _chosen(ids: Sequence[int] | None, action: str | None, error: str | None, namespace: str | None) -> dict[str, object]:
    return {"ids": None if ids is None else list(ids), "action": action, "error": error, "namespace": namespace}
