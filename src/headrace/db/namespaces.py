"""Creates, drops and lists namespaces; grants and revokes levels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from psycopg.rows import class_row

from headrace.core import map_database_errors
from headrace.db.connections import Connection
from headrace.db.sql_files import query

Level: TypeAlias = Literal["publish", "consume", "work", "admin"]
"""What a role may do in a namespace; `admin` includes the others."""
UnknownNames: TypeAlias = Literal["refuse", "warn", "allow"]
"""What happens to a rule that uses an event type or an action that is not registered."""


@dataclass(frozen=True)
class Namespace:
    """A namespace, as the current role may see it."""

    namespace: str
    created_at: datetime
    topics: int
    roles: int
    unknown_names: UnknownNames


@dataclass(frozen=True)
class Grant:
    """A role's level in a namespace."""

    role: str
    namespace: str
    level: Level
    granted_at: datetime


def create_namespace(conn: Connection, namespace: str) -> None:
    """Creates a namespace; raises NamespaceExists."""
    with map_database_errors():
        conn.execute("select headrace.create_namespace(%s)", (namespace,))


def alter_namespace(conn: Connection, namespace: str, *, unknown_names: UnknownNames) -> None:
    """Changes a namespace's settings; raises UnknownNamespace."""
    with map_database_errors():
        conn.execute("select headrace_internal.namespace_exists(%s)", (namespace,))
        conn.execute(query("db/alter_namespace"), {"namespace": namespace, "unknown_names": unknown_names})


def drop_namespace(conn: Connection, namespace: str) -> None:
    """Drops an empty namespace with its grants; raises NamespaceInUse while it has topics or actions."""
    with map_database_errors():
        conn.execute("select headrace.drop_namespace(%s)", (namespace,))


def list_namespaces(conn: Connection) -> list[Namespace]:
    """Lists the namespaces by name."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Namespace)) as cursor:
        return cursor.execute(query("db/namespaces")).fetchall()


def grant_namespace(conn: Connection, role: str, namespace: str, level: Level) -> None:
    """Allows a role to publish, consume or administer in a namespace."""
    with map_database_errors():
        conn.execute("select headrace.grant_namespace(%s, %s, %s)", (role, namespace, level))


def revoke_namespace(conn: Connection, role: str, namespace: str, level: Level | None = None) -> None:
    """Revokes one level or all levels of a role in a namespace."""
    with map_database_errors():
        conn.execute("select headrace.revoke_namespace(%s, %s, %s)", (role, namespace, level))


def grant_node(conn: Connection, role: str) -> None:
    """Allows a role to run the loops of nodes, for every namespace. It need not be superuser or owner."""
    with map_database_errors():
        conn.execute("select headrace.grant_node(%s)", (role,))


def revoke_node(conn: Connection, role: str) -> None:
    """Takes the right to run the loops of nodes from a role."""
    with map_database_errors():
        conn.execute("select headrace.revoke_node(%s)", (role,))


def list_grants(conn: Connection, *, namespace: str | None = None) -> list[Grant]:
    """Lists who may do what, by namespace and role."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Grant)) as cursor:
        return cursor.execute(query("db/grants"), {"namespace": namespace}).fetchall()
