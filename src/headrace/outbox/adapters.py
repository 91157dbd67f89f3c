"""Finds the adapter for a connection by the connection's class, so that no driver is imported that the caller does not use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, LiteralString, Protocol, TypeAlias

from headrace.core import Invalid, ValidatedEvent
from headrace.outbox.statements import Parameters, Rows

if TYPE_CHECKING:
    import asyncpg
    import psycopg
    import sqlalchemy
    from asyncpg.pool import PoolConnectionProxy
    from django.db.backends.base.base import BaseDatabaseWrapper
    from sqlalchemy import orm
    from sqlalchemy.ext import asyncio as sqlalchemy_async

    SyncConnection: TypeAlias = (
        psycopg.Connection[object] | sqlalchemy.Connection | orm.Session | orm.scoped_session[orm.Session] | BaseDatabaseWrapper
    )
    AsyncConnection: TypeAlias = (
        psycopg.AsyncConnection[object]
        | asyncpg.Connection
        | PoolConnectionProxy
        | sqlalchemy_async.AsyncConnection
        | sqlalchemy_async.AsyncSession
        | sqlalchemy_async.async_scoped_session[sqlalchemy_async.AsyncSession]
    )

_SYNC = {
    "psycopg.Connection": "psycopg_adapter.PsycopgAdapter",
    "sqlalchemy.Connection": "sqlalchemy_adapter.SQLAlchemyAdapter",
    "sqlalchemy.Session": "sqlalchemy_adapter.SQLAlchemyAdapter",
    "sqlalchemy.scoped_session": "sqlalchemy_adapter.SQLAlchemyAdapter",
    "django.BaseDatabaseWrapper": "django_adapter.DjangoAdapter",
    "django.ConnectionProxy": "django_adapter.DjangoAdapter",
}
_ASYNC = {
    "psycopg.AsyncConnection": "psycopg_adapter.AsyncPsycopgAdapter",
    "asyncpg.Connection": "asyncpg_adapter.AsyncpgAdapter",
    "asyncpg.PoolConnectionProxy": "asyncpg_adapter.AsyncpgAdapter",
    "sqlalchemy.AsyncConnection": "sqlalchemy_adapter.AsyncSQLAlchemyAdapter",
    "sqlalchemy.AsyncSession": "sqlalchemy_adapter.AsyncSQLAlchemyAdapter",
    "sqlalchemy.async_scoped_session": "sqlalchemy_adapter.AsyncSQLAlchemyAdapter",
}
_SUPPORTED = (
    "psycopg Connection and AsyncConnection, SQLAlchemy Session, Connection, AsyncSession and AsyncConnection, "
    "asyncpg Connection, and Django's django.db.connection"
)

# Adapter classes by class of connection: a search through its base classes takes microseconds.
_sync_classes: dict[type, Any] = {}
_async_classes: dict[type, Any] = {}


class Adapter(Protocol):
    """Runs statements on one connection of the caller."""

    def transaction(self) -> AbstractContextManager[object]:
        """The caller's transaction, or a new one if the connection is in autocommit mode."""

    def savepoint(self) -> AbstractContextManager[object]:
        """A part of the caller's transaction that an error rolls back on its own; a new transaction in autocommit mode."""

    def execute(self, statement: LiteralString, parameters: Parameters) -> Rows: ...

    def insert(self, event: ValidatedEvent, namespace: str | None) -> bool:
        """Publishes by an INSERT, if that is the way for this session and topic; see headrace.outbox.direct. False if it has
        inserted nothing."""

    def remember_way(self, event: ValidatedEvent, namespace: str | None, *, may_insert: bool) -> None:
        """Remembers what a publish by the function said about this session."""

    def copy(self, chunks: Iterator[bytes]) -> bool:
        """Sends a COPY into the outbox. Returns False, and sends nothing, if this connection cannot COPY now."""


class AsyncAdapter(Protocol):
    """Runs statements on one asynchronous connection of the caller. The methods are those of Adapter."""

    def transaction(self) -> AbstractAsyncContextManager[object]: ...
    def savepoint(self) -> AbstractAsyncContextManager[object]: ...
    async def execute(self, statement: LiteralString, parameters: Parameters) -> Rows: ...
    async def insert(self, event: ValidatedEvent, namespace: str | None) -> bool: ...
    async def remember_way(self, event: ValidatedEvent, namespace: str | None, *, may_insert: bool) -> None: ...
    async def copy(self, chunks: Iterator[bytes]) -> bool: ...


def sync_adapter(conn: SyncConnection) -> Adapter:
    """Raises Invalid for anything that is not a synchronous connection."""
    adapter_class = _sync_classes.get(type(conn)) or _sync_classes.setdefault(type(conn), _find_adapter_class(type(conn), False))
    adapter: Adapter = adapter_class(conn)
    return adapter


def async_adapter(conn: AsyncConnection) -> AsyncAdapter:
    """Raises Invalid for anything that is not an asynchronous connection."""
    adapter_class = _async_classes.get(type(conn)) or _async_classes.setdefault(type(conn), _find_adapter_class(type(conn), True))
    adapter: AsyncAdapter = adapter_class(conn)
    return adapter


def is_async_connection(conn: SyncConnection | AsyncConnection) -> bool:
    """Is it one of the asynchronous connections that we know?"""
    return any(f"{base.__module__.partition('.')[0]}.{base.__name__}" in _ASYNC for base in type(conn).__mro__)


def _find_adapter_class(connection_class: type, is_async: bool) -> Any:
    # A subclass of the caller's counts as the class it inherits from.
    for base in connection_class.__mro__:
        name = f"{base.__module__.partition('.')[0]}.{base.__name__}"
        if path := (_ASYNC if is_async else _SYNC).get(name):
            module, _, class_name = path.partition(".")
            return getattr(import_module(f"headrace.outbox.{module}"), class_name)
        if name in _ASYNC:
            raise Invalid(f"the connection ({name}) is asynchronous; await the function whose name ends in _async")
        if name in _SYNC:
            raise Invalid(f"the connection ({name}) is not asynchronous; use the function without _async")
    name = f"{connection_class.__module__}.{connection_class.__qualname__}"
    raise Invalid(f"{name} is not a connection to publish on; give {_SUPPORTED}")
