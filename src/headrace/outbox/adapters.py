"""From a connection to its adapter, by the type of what the caller holds: no driver is imported that is not there.

Promises: a connection of the wrong kind is refused with what to do, before anything is sent."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from headrace.core import Invalid
from headrace.db import map_database_errors
from headrace.outbox.statements import Answer, Plan, Step

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

T = TypeVar("T")

_SYNC = {
    "psycopg.Connection": ("psycopg_adapter", "PsycopgAdapter"),
    "sqlalchemy.Connection": ("sqlalchemy_adapter", "SQLAlchemyAdapter"),
    "sqlalchemy.Session": ("sqlalchemy_adapter", "SQLAlchemyAdapter"),
    "sqlalchemy.scoped_session": ("sqlalchemy_adapter", "SQLAlchemyAdapter"),
    "django.BaseDatabaseWrapper": ("django_adapter", "DjangoAdapter"),
    "django.ConnectionProxy": ("django_adapter", "DjangoAdapter"),
}
_ASYNC = {
    "psycopg.AsyncConnection": ("psycopg_adapter", "AsyncPsycopgAdapter"),
    "asyncpg.Connection": ("asyncpg_adapter", "AsyncpgAdapter"),
    "asyncpg.PoolConnectionProxy": ("asyncpg_adapter", "AsyncpgAdapter"),
    "sqlalchemy.AsyncConnection": ("sqlalchemy_adapter", "AsyncSQLAlchemyAdapter"),
    "sqlalchemy.AsyncSession": ("sqlalchemy_adapter", "AsyncSQLAlchemyAdapter"),
    "sqlalchemy.async_scoped_session": ("sqlalchemy_adapter", "AsyncSQLAlchemyAdapter"),
}
_SUPPORTED = (
    "psycopg Connection and AsyncConnection, SQLAlchemy Session, Connection, AsyncSession and AsyncConnection, "
    "asyncpg Connection, and Django's django.db.connection"
)


class Adapter(Protocol):
    """Performs steps on one connection."""

    def together(self) -> AbstractContextManager[None]: ...
    def perform(self, step: Step) -> Answer: ...


class AsyncAdapter(Protocol):
    """Performs steps on one asynchronous connection."""

    def together(self) -> AbstractAsyncContextManager[None]: ...
    async def perform(self, step: Step) -> Answer: ...


def run(conn: SyncConnection, plan: Plan[T], *, together: bool = False) -> T:
    """Performs a plan on the caller's connection, in the caller's transaction. `together` asks for one transaction also
    where the connection is in autocommit mode; a plan of one statement does not need it."""
    adapter: Adapter = _made(conn, _SYNC, _ASYNC, "is asynchronous; await the function whose name ends in _async")
    with map_database_errors(), adapter.together() if together else nullcontext():
        try:
            step = next(plan)
            while True:
                step = plan.send(adapter.perform(step))
        except StopIteration as end:
            result: T = end.value
            return result


async def run_async(conn: AsyncConnection, plan: Plan[T], *, together: bool = False) -> T:
    """As `run`, on an asynchronous connection."""
    adapter: AsyncAdapter = _made(conn, _ASYNC, _SYNC, "is not asynchronous; use the function without _async")
    with map_database_errors():
        async with adapter.together() if together else nullcontext():
            try:
                step = next(plan)
                while True:
                    step = plan.send(await adapter.perform(step))
            except StopIteration as end:
                result: T = end.value
                return result


def _made(conn: object, wanted: dict[str, tuple[str, str]], other: dict[str, tuple[str, str]], advice: str) -> Any:
    # A subclass of the caller's counts as what it inherits from.
    for base in type(conn).__mro__:
        name = f"{base.__module__.partition('.')[0]}.{base.__name__}"
        if name in wanted:
            module, adapter = wanted[name]
            return getattr(import_module(f"headrace.outbox.{module}"), adapter)(conn)
        if name in other:
            raise Invalid(f"the connection ({name}) {advice}")
    raise Invalid(f"{type(conn).__module__}.{type(conn).__qualname__} is not a connection to publish on; give {_SUPPORTED}")
