"""Capture: changes of the user's own tables become events, in the transaction that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, LiteralString, TypeAlias

from headrace.drivers import SyncConnection, fetch, run_steps

Operation: TypeAlias = Literal["insert", "update", "delete"]

_CAPTURE: LiteralString = """select headrace.capture(
    p_table => cast(cast(%s as text) as regclass),
    p_topic => cast(%s as text),
    p_key_column => cast(%s as text),
    p_type_column => cast(%s as text),
    p_insert_type => cast(%s as text),
    p_update_type => cast(%s as text),
    p_delete_type => cast(%s as text),
    p_columns => cast(%s as text[]),
    p_operations => cast(%s as text[]),
    p_namespace => cast(%s as text))"""
_RELEASE_CAPTURE: LiteralString = """select headrace.release_capture(
    p_table => cast(cast(%s as text) as regclass), p_topic => cast(%s as text), p_namespace => cast(%s as text))"""


def capture(
    conn: SyncConnection,
    table: str,
    topic: str,
    *,
    key_column: str | None = None,
    type_column: str | None = None,
    insert_type: str | None = None,
    update_type: str | None = None,
    delete_type: str | None = None,
    columns: Sequence[str] | None = None,
    operations: Sequence[Operation] = ("insert", "update", "delete"),
    namespace: str | None = None,
) -> None:
    """Publishes the changes of a table from now on. The event type comes from a column, or is given per operation.

    The key is the value of a column, by default the primary key. A second call for the same table and topic replaces the first."""
    types = (insert_type, update_type, delete_type)
    column_names = None if columns is None else list(columns)
    operation_names: list[str] = list(operations)
    parameters = (table, topic, key_column, type_column, *types, column_names, operation_names, namespace)
    run_steps(conn, fetch(_CAPTURE, parameters))


def release_capture(conn: SyncConnection, table: str, topic: str | None = None, *, namespace: str | None = None) -> None:
    """Stops capturing a table into a topic, or into every topic."""
    run_steps(conn, fetch(_RELEASE_CAPTURE, (table, topic, namespace)))
