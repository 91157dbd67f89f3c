"""Alembic: headrace's schema in the revisions of an application.

Import it in `env.py`: then a revision can call `op.headrace_upgrade()` and `op.headrace_downgrade()`, and
`context.configure(include_name=include_name, …)` keeps headrace's schemas out of --autogenerate."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeAlias

import psycopg
from alembic.operations import MigrateOperation, Operations

from headrace.core import Invalid
from headrace.db import Connection, SyncView, create_view, migrate, uninstall
from headrace.drivers import driver_connection

IncludeName: TypeAlias = Callable[[str | None, Any, MutableMapping[Any, str | None]], bool]

SCHEMAS = frozenset({"headrace", "headrace_internal", "pgmq"})
"""The schemas that are not the application's. pgmq holds the action queues."""


def include_name(name: str | None, type_: str, parent_names: MutableMapping[Any, str | None]) -> bool:
    """For `context.configure(include_name=…)`: False for headrace's schemas and what is in them."""
    schema = name if type_ == "schema" else parent_names.get("schema_name")
    return schema not in SCHEMAS


def also_exclude_headrace(other: IncludeName) -> IncludeName:
    """An `include_name` of your own, and headrace's."""
    return lambda name, type_, parents: include_name(name, type_, parents) and other(name, type_, parents)


@Operations.register_operation("headrace_upgrade")
class UpgradeHeadrace(MigrateOperation):
    """Brings headrace's schema to the release that is installed, in the revision's transaction. Call it in a revision for the first
    installation, and in a new one after every upgrade of the package."""

    @classmethod
    def headrace_upgrade(cls, operations: Operations) -> None:
        """Creates or updates headrace's schema."""
        operations.invoke(cls())

    def reverse(self) -> MigrateOperation:
        return DowngradeHeadrace()


@Operations.register_operation("headrace_downgrade")
class DowngradeHeadrace(MigrateOperation):
    """Drops headrace from the database, in the revision's transaction; it reverses the first installation. It refuses
    while there are topics, waiting actions or dead letters."""

    @classmethod
    def headrace_downgrade(cls, operations: Operations) -> None:
        """Drops headrace's schemas and queues."""
        operations.invoke(cls())

    def reverse(self) -> MigrateOperation:
        return UpgradeHeadrace()


@Operations.implementation_for(UpgradeHeadrace)
def _upgrade(operations: Operations, _operation: UpgradeHeadrace) -> None:
    migrate(_psycopg_connection(operations))


@Operations.implementation_for(DowngradeHeadrace)
def _downgrade(operations: Operations, _operation: DowngradeHeadrace) -> None:
    uninstall(_psycopg_connection(operations))


def _psycopg_connection(operations: Operations) -> Connection:
    if operations.get_context().as_sql:
        raise Invalid("headrace's schema depends on what the database has; print its SQL with: headrace migrate --sql")
    bind = operations.get_bind()
    connection = driver_connection(bind)
    if isinstance(connection, psycopg.AsyncConnection):
        # An async engine runs revisions in `run_sync`, while its event loop waits: the same connection, without the event loop.
        return create_view(SyncView, connection, autocommit=False)
    if not isinstance(connection, psycopg.Connection):
        driver = f"{bind.dialect.name}+{bind.dialect.driver}"
        raise Invalid(
            f"headrace's revision needs psycopg 3, and Alembic runs on {driver}; in env.py use a URL postgresql+psycopg://…"
        )
    return connection
