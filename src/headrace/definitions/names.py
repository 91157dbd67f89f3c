"""Registries of a namespace: its event types and actions. Its setting `unknown_names` says how other names are treated."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from headrace.core import UnregisteredName
from headrace.db import Connection, fetch_rows, map_database_errors, query


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
    return fetch_rows(conn, EventType, query("definitions/event_types"), {"namespace": namespace})


def list_actions(conn: Connection, *, namespace: str | None = None) -> list[ActionName]:
    """The actions of a namespace, by name."""
    return fetch_rows(conn, ActionName, query("definitions/actions"), {"namespace": namespace})


def register_event_type(conn: Connection, name: str, *, description: str | None = None, namespace: str | None = None) -> None:
    """Registers an event type; one that is registered gets the description."""
    _register(conn, "event_type", name, description, namespace)


def register_action(conn: Connection, name: str, *, description: str | None = None, namespace: str | None = None) -> None:
    """Registers an action; one that is registered gets the description."""
    _register(conn, "action", name, description, namespace)


def unregister_event_type(conn: Connection, name: str, *, namespace: str | None = None) -> None:
    """Removes an event type from the registry; rules that name it stay. Raises UnregisteredName."""
    _unregister(conn, "event_type", name, namespace)


def unregister_action(conn: Connection, name: str, *, namespace: str | None = None) -> None:
    """Removes an action from the registry; rules that name it stay. Raises UnregisteredName."""
    _unregister(conn, "action", name, namespace)


def _register(conn: Connection, registry: str, name: str, description: str | None, namespace: str | None) -> None:
    _write(conn, "register", registry, name=name, description=description, namespace=namespace)


def _unregister(conn: Connection, registry: str, name: str, namespace: str | None) -> None:
    if not _write(conn, "unregister", registry, name=name, namespace=namespace):
        noun, group = registry.replace("_", " "), registry.replace("_", "-")
        raise UnregisteredName(f"{noun} {name!r} is not registered; see: headrace {group} list")


def _write(conn: Connection, statement: str, registry: str, **parameters: str | None) -> int:
    """Runs a statement on the view of a registry; returns the number of rows."""
    text = sql.SQL(query(f"definitions/{statement}")).format(registry=sql.Identifier(registry))
    with map_database_errors():
        return conn.execute(text, parameters).rowcount
