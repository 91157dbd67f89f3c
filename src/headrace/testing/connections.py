"""Connections of a test: the caller's own one, seen as psycopg's sync and async interfaces, and as a pool of one connection.

All work on the same session of the server, and so in the same transaction. Safe because a test does one thing at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads

from headrace.core import Conflict, Invalid, decode
from headrace.db import AsyncConnection, Connection, Pool

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

_ADVICE = "begin one and publish in it first, or use the fixture headrace_kit, which commits in a database of its own"


class SyncView(psycopg.Connection[TupleRow]):
    """psycopg's sync interface to the session of another connection, without its row factory and adapters."""

    def __del__(self, *_arguments: object) -> None:
        """Not psycopg's warning about an open connection: its owner closes it."""


class AsyncView(psycopg.AsyncConnection[TupleRow]):
    """psycopg's async interface to the session of another connection."""

    def __del__(self, *_arguments: object) -> None:
        """As in SyncView."""


class AsyncTransactionView(AsyncView):
    """As AsyncView, for a transaction that only its owner may end."""

    async def commit(self) -> None:
        self._reject("commit")

    async def rollback(self) -> None:
        self._reject("rollback")

    async def close(self) -> None:
        self._reject("close")

    def _reject(self, method: str) -> NoReturn:
        raise Conflict(f"a handler called {method} on its connection; leave commit and rollback to headrace")


@contextmanager
def sync_view(pgconn: psycopg.pq.abc.PGconn) -> Iterator[Connection]:
    with _handlers_kept(pgconn):
        view = SyncView(pgconn)
        _prepare(view)
        yield view


@contextmanager
def async_view(pgconn: psycopg.pq.abc.PGconn, *, in_transaction: bool) -> Iterator[AsyncConnection]:
    with _handlers_kept(pgconn):
        view = AsyncTransactionView(pgconn) if in_transaction else AsyncView(pgconn)
        _prepare(view)
        yield view


def _prepare(view: Connection | AsyncConnection) -> None:
    # psycopg would else begin a transaction of its own where none is open; it forbids setting the property inside of one.
    view._autocommit = True
    set_json_loads(decode, view)
    # The owner numbers its prepared statements from 0 as well, and the server knows each name once.
    view.prepare_threshold = None


@contextmanager
def _handlers_kept(pgconn: psycopg.pq.abc.PGconn) -> Iterator[None]:
    """A new connection object takes the session's notices and notifications for itself: give them back."""
    notice_handler, notify_handler = pgconn.notice_handler, pgconn.notify_handler
    try:
        yield
    finally:
        pgconn.notice_handler, pgconn.notify_handler = notice_handler, notify_handler


class OneConnectionPool:
    """A pool that always gives the same connection, also while it is in use: steps follow each other."""

    max_size = 1

    def __init__(self, conn: AsyncConnection) -> None:
        self._conn = conn

    @classmethod
    def of(cls, conn: AsyncConnection) -> Pool:
        """The pool, for code that expects psycopg's."""
        return cast(Pool, cls(conn))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        yield self._conn

    async def getconn(self) -> AsyncConnection:
        return self._conn

    async def putconn(self, conn: AsyncConnection) -> None:
        """The connection stays with its owner."""


def open_transaction(conn: CallerConnection) -> psycopg.pq.abc.PGconn:
    """The session of a connection that has a transaction open. Raises Conflict if there is none, Invalid for other drivers."""
    driver = _driver_connection(conn)
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
    return driver.pgconn


def _driver_connection(conn: Any) -> object:
    """The driver's connection inside the objects of SQLAlchemy and Django; None if there is none yet."""
    names = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(conn).__mro__}
    if "sqlalchemy.scoped_session" in names or "sqlalchemy.async_scoped_session" in names:
        return _driver_connection(conn())
    if "sqlalchemy.AsyncSession" in names:
        return _driver_connection(conn.sync_session)
    if "sqlalchemy.AsyncConnection" in names:
        return _driver_connection(conn.sync_connection)
    if "sqlalchemy.Session" in names:
        return _driver_connection(conn.connection()) if conn.in_transaction() else None
    if "sqlalchemy.Connection" in names:
        driver: object = conn.connection.driver_connection
        return driver
    if names & {"django.BaseDatabaseWrapper", "django.ConnectionProxy"}:
        inner: object = conn.connection
        return inner
    return cast(object, conn)
