"""Names that a namespace knows: event types and actions. What becomes of others is the namespace's setting `unknown_names`."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.core import UnknownName
from headrace.db import Connection, map_database_errors, query


@dataclass(frozen=True)
class EventType:
    """An event type that is registered, or that a rule names."""

    name: str
    registered: bool
    description: str | None
    rules: int


@dataclass(frozen=True)
class ActionName:
    """An action that is registered, that a rule names, or that a node handles; `nodes` are those alive that handle it."""

    name: str
    registered: bool
    description: str | None
    rules: int
    nodes: int


def list_event_types(conn: Connection, *, namespace: str | None = None) -> list[EventType]:
    """The event types of a namespace, by name."""
    with map_database_errors(), conn.cursor(row_factory=class_row(EventType)) as cursor:
        return cursor.execute(query("definitions/event_types"), {"namespace": namespace}).fetchall()


def list_actions(conn: Connection, *, namespace: str | None = None) -> list[ActionName]:
    """The actions of a namespace, by name."""
    with map_database_errors(), conn.cursor(row_factory=class_row(ActionName)) as cursor:
        return cursor.execute(query("definitions/actions"), {"namespace": namespace}).fetchall()


def register_event_type(conn: Connection, name: str, *, description: str | None = None, namespace: str | None = None) -> None:
    """Makes an event type known; one that is known gets the description."""
    with map_database_errors():
        conn.execute(query("definitions/register_event_type"), {"name": name, "description": description, "namespace": namespace})


def register_action(conn: Connection, name: str, *, description: str | None = None, namespace: str | None = None) -> None:
    """Makes an action known; one that is known gets the description."""
    with map_database_errors():
        conn.execute(query("definitions/register_action"), {"name": name, "description": description, "namespace": namespace})


def unregister_event_type(conn: Connection, name: str, *, namespace: str | None = None) -> None:
    """Makes an event type unknown; rules that name it stay. Raises UnknownName."""
    with map_database_errors():
        gone = conn.execute(query("definitions/unregister_event_type"), {"name": name, "namespace": namespace}).rowcount
    if not gone:
        raise UnknownName(f"event type {name!r} is not registered; see: headrace event-type list")


def unregister_action(conn: Connection, name: str, *, namespace: str | None = None) -> None:
    """Makes an action unknown; rules that name it stay. Raises UnknownName."""
    with map_database_errors():
        gone = conn.execute(query("definitions/unregister_action"), {"name": name, "namespace": namespace}).rowcount
    if not gone:
        raise UnknownName(f"action {name!r} is not registered; see: headrace action list")
