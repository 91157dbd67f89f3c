"""Connections of a test: the caller's own one, seen as psycopg's sync and async interfaces, and as a pool of one connection.

All work on the same session of the server, and so in the same transaction. Safe because a test does one thing at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.types.json import set_json_loads

from headrace.core import Conflict, Invalid, decode
from headrace.db import AsyncConnection, AsyncView, Connection, Pool, SyncView, create_view
from headrace.drivers import GuardedAsyncView, driver_connection

if TYPE_CHECKING:
    import sqlalchemy
    from django.db.backends.base.base import BaseDatabaseWrapper
    from sqlalchemy import orm
    from sqlalchemy.ext import asyncio as sqlalchemy_async

    CallerConnection: TypeAlias = (
        psycopg.Connection[Any]
        | psycopg.AsyncConnection[Any]
        | sqlalchemy.Connection
        | orm.Session
        | orm.scoped_session[orm.Session]
        | sqlalchemy_async.AsyncConnection
        | sqlalchemy_async.AsyncSession
        | BaseDatabaseWrapper
    )

DriverConnection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
ViewType = TypeVar("ViewType", bound=SyncView | AsyncView)
_ADVICE = "begin one and publish in it first, or use the fixture headrace_kit, which commits in a database of its own"


@contextmanager
def sync_view(owner: DriverConnection) -> Iterator[Connection]:
    with _used(create_view(SyncView, owner)) as view:
        yield view


@contextmanager
def async_view(owner: DriverConnection, *, in_transaction: bool) -> Iterator[AsyncConnection]:
    with _used(create_view(GuardedAsyncView if in_transaction else AsyncView, owner)) as view:
        yield view


@contextmanager
def _used(view: ViewType) -> Iterator[ViewType]:
    set_json_loads(decode, view)
    view.take_handlers()
    try:
        yield view
    finally:
        view.give_back_handlers()


class OneConnectionPool:
    """A pool that always gives the same connection, also while it is in use: steps follow each other."""

    max_size = 1

    def __init__(self, conn: AsyncConnection) -> None:
        self._conn = conn

    @classmethod
    def for_connection(cls, conn: AsyncConnection) -> Pool:
        """The pool, for code that expects psycopg's."""
        return cast(Pool, cls(conn))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        yield self._conn

    async def getconn(self) -> AsyncConnection:
        return self._conn

    async def putconn(self, conn: AsyncConnection) -> None:
        """The connection stays with its owner."""


def open_transaction(conn: CallerConnection) -> DriverConnection:
    """The driver's connection below one that has a transaction open. Raises Conflict if there is none, Invalid for other drivers."""
    driver = driver_connection(conn)
    if driver is None:
        raise Conflict(f"no transaction is open on this connection; {_ADVICE}")
    if not isinstance(driver, psycopg.Connection | psycopg.AsyncConnection):
        raise Invalid(
            f"{type(driver).__module__}.{type(driver).__qualname__} is not a connection of psycopg 3, which the test kit shares a "
            "transaction with; give one, or use the fixture headrace_kit, which works with every driver"
        )
    if driver.pgconn.pipeline_status != PipelineStatus.OFF:
        raise Conflict("the connection is in pipeline mode, which cannot be shared; leave the pipeline first")
    status = driver.pgconn.transaction_status
    if status == TransactionStatus.INERROR:
        raise Conflict("the transaction is aborted by an earlier error; roll it back to a savepoint first")
    if status != TransactionStatus.INTRANS:
        raise Conflict(f"no transaction is open on this connection; {_ADVICE}")
    return driver
