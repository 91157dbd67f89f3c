"""Capture: changes on the user's own tables become events, in the transaction that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.outbox.adapters import run
from headrace.outbox.plans import perform_only

if TYPE_CHECKING:
    from headrace.outbox.adapters import SyncConnection

Operation: TypeAlias = Literal["insert", "update", "delete"]


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
    """Publishes the changes of a table from now on. Its type comes from a column, or is given per operation.

    The key is a column's value, by default the primary key. Again for the same table and topic, it replaces what was set."""
    plan = perform_only(
        "capture",
        table=table,
        topic=topic,
        key_column=key_column,
        type_column=type_column,
        insert_type=insert_type,
        update_type=update_type,
        delete_type=delete_type,
        columns=None if columns is None else list(columns),
        operations=list(operations),
        namespace=namespace,
    )
    run(conn, plan)


def release_capture(conn: SyncConnection, table: str, topic: str | None = None, *, namespace: str | None = None) -> None:
    """Ends the capture of a table into a topic, or into every topic."""
    run(conn, perform_only("release_capture", table=table, topic=topic, namespace=namespace))
