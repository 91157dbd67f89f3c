"""The application's own SQLAlchemy engine as the source of handlers' transactions.

SQLAlchemy holds the connection and its transaction; headrace's statements run on the driver's connection inside it. Drivers:
psycopg (sync and async) and asyncpg."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from headrace.consume.connections import HandlerConnection, Parameters, PsycopgConnection, Rows
from headrace.consume.sessions.kinds import ASYNC_SESSION, SessionStep
from headrace.consume.sessions.sqlalchemy import async_session_in, session_in
from headrace.consume.sessions.views import reject
from headrace.core import Invalid
from headrace.db import Parameter

if TYPE_CHECKING:
    from headrace.consume.sessions.asyncpg_engine import AsyncEngineAsyncpg

DRIVERS = {"psycopg", "psycopg_async", "asyncpg"}


class EndGuard:
    """Keeps a handler from ending the transaction on the connection below its session."""

    def __init__(self, connection: Connection) -> None:
        self._is_allowed = False
        for method in ("commit", "rollback"):
            event.listen(connection, method, self._listener(method))

    def _listener(self, method: str) -> Any:
        def check(_connection: Connection) -> None:
            if not self._is_allowed:
                reject(method)

        return check

    @contextmanager
    def ending(self) -> Iterator[None]:
        self._is_allowed = True
        try:
            with driver_errors():
                yield
        finally:
            self._is_allowed = False


@contextmanager
def driver_errors() -> Iterator[None]:
    """Raises the driver's own error in place of SQLAlchemy's; one of asyncpg as psycopg's of the same SQLSTATE."""
    try:
        yield
    except (PoolTimeout, OSError) as error:
        raise psycopg.OperationalError(f"the engine gave no connection: {error}") from error
    except DBAPIError as error:
        origin = error.orig
        if isinstance(origin, psycopg.Error):
            raise origin from error
        sqlstate = getattr(origin, "sqlstate", None) or ("08006" if error.connection_invalidated else "")
        try:
            error_class = psycopg.errors.lookup(sqlstate)
        except KeyError:
            raise error from None
        raise error_class(str(origin)) from error


class AsyncEnginePsycopg(PsycopgConnection):
    """A connection of an async engine on psycopg."""

    owns_transaction = False

    def __init__(self, connection: AsyncConnection, driver: Any) -> None:
        super().__init__(driver)
        self._connection = connection
        self.ends = EndGuard(connection.sync_connection)  # type: ignore[arg-type]

    async def begin(self, statement: LiteralString | None = None, parameters: Parameters = ()) -> Rows:
        await self._connection.begin()
        rows = await self.execute(statement or "select 1", parameters)
        check_in_transaction(self)
        return rows

    async def commit(self, statement: LiteralString | None = None, parameters: Sequence[Parameter] = ()) -> None:
        if statement:
            await self.execute(statement, parameters)
        with self.ends.ending():
            await self._connection.commit()

    async def rollback(self) -> None:
        if not self.conn.closed:
            with self.ends.ending():
                await self._connection.rollback()
                if self.conn.info.transaction_status != TransactionStatus.IDLE:
                    await self.conn.rollback()

    def session(self, step: SessionStep) -> AbstractAsyncContextManager[Any]:
        return self._session(step) if step.request.kind == ASYNC_SESSION else super().session(step)

    @asynccontextmanager
    async def _session(self, step: SessionStep) -> AsyncIterator[Any]:
        async with async_session_in(self._connection, step) as session:
            with self._guard.around(session):
                yield session


class SyncEnginePsycopg(PsycopgConnection):
    """A connection of a sync engine on psycopg. headrace's statements run on an async view of it."""

    owns_transaction = False

    def __init__(self, connection: Connection, driver: Any) -> None:
        view = psycopg.AsyncConnection(driver.pgconn)
        view.prepare_threshold = None
        view._autocommit = driver.autocommit
        view._pool = None
        super().__init__(view)
        self._connection = connection
        self.ends = EndGuard(connection)

    async def begin(self, statement: LiteralString | None = None, parameters: Parameters = ()) -> Rows:
        self._connection.begin()
        rows = await self.execute(statement or "select 1", parameters)
        check_in_transaction(self)
        return rows

    async def commit(self, statement: LiteralString | None = None, parameters: Sequence[Parameter] = ()) -> None:
        if statement:
            await self.execute(statement, parameters)
        with self.ends.ending():
            await asyncio.to_thread(self._connection.commit)

    async def rollback(self) -> None:
        if not self.conn.closed:
            with self.ends.ending():
                await asyncio.to_thread(self._connection.rollback)
                if self.conn.info.transaction_status != TransactionStatus.IDLE:
                    await self.conn.rollback()

    @contextmanager
    def sync_session(self, step: SessionStep) -> Iterator[Any]:
        with session_in(self._connection, step) as session, self._guard.around(session):
            yield session


class EngineSource:
    """Connections of a sessionmaker's engine."""

    def __init__(self, maker: Any) -> None:
        engine = maker.kw.get("bind")
        if not isinstance(engine, Engine | AsyncEngine) or maker.kw.get("binds"):
            raise Invalid(
                "session: the sessionmaker has no engine of its own (bind=…), or several (binds=…); give it one engine, or give "
                "the class AsyncSession or Session, whose sessions use the node's own connections"
            )
        if engine.dialect.driver not in DRIVERS:
            raise Invalid(
                f"session: the engine uses the driver {engine.dialect.driver}, which headrace does not support; write "
                "postgresql+psycopg:// or postgresql+asyncpg://, or give the class AsyncSession or Session, whose sessions use "
                "the node's own connections"
            )
        self._engine = engine

    def connect(self) -> AbstractAsyncContextManager[HandlerConnection]:
        return self._connect_async(self._engine) if isinstance(self._engine, AsyncEngine) else self._connect_sync(self._engine)

    @asynccontextmanager
    async def _connect_async(self, engine: AsyncEngine) -> AsyncIterator[HandlerConnection]:
        with driver_errors():
            connection = await engine.connect()
            driver: Any = (await connection.get_raw_connection()).driver_connection
        handler_connection = _async_connection(connection, driver)
        try:
            async with _rolled_back_on_error(handler_connection):
                yield handler_connection
        finally:
            with handler_connection.ends.ending():
                await connection.close()

    @asynccontextmanager
    async def _connect_sync(self, engine: Engine) -> AsyncIterator[HandlerConnection]:
        with driver_errors():
            connection = await asyncio.to_thread(engine.connect)
        handler_connection = SyncEnginePsycopg(connection, connection.connection.driver_connection)
        try:
            async with _rolled_back_on_error(handler_connection):
                yield handler_connection
        finally:
            with handler_connection.ends.ending():
                await asyncio.to_thread(connection.close)


def _async_connection(connection: AsyncConnection, driver: Any) -> AsyncEnginePsycopg | AsyncEngineAsyncpg:
    if type(driver).__module__.startswith("asyncpg"):
        from headrace.consume.sessions.asyncpg_engine import AsyncEngineAsyncpg

        return AsyncEngineAsyncpg(connection, driver)
    return AsyncEnginePsycopg(connection, driver)


@asynccontextmanager
async def _rolled_back_on_error(connection: HandlerConnection) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        await connection.rollback()
        raise


def check_in_transaction(connection: HandlerConnection) -> None:
    """Raises Invalid if the first statement began no transaction."""
    if not connection.is_open:
        raise Invalid("session: the engine is in AUTOCOMMIT mode, so a handler would have no transaction; give another engine")
