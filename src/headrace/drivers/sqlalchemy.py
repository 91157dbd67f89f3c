"""SQLAlchemy, on any driver for PostgreSQL: the caller's Session and Connection, AsyncSession and AsyncConnection; and sessions for handlers.

The caller's statements go through SQLAlchemy, which begins its transaction as usual; a COPY goes to the driver's own connection. In
SQLAlchemy's autocommit mode there is no COPY: its rows and the wake-up would commit separately, and one statement is atomic.

A handler's session works in a savepoint of its transaction. After the handler it is flushed and the savepoint released; after an error
it is rolled back to the savepoint. The handler can end neither. The transaction lives on the node's own psycopg connection, which
SQLAlchemy gets as a view; or on a connection of the application's own engine, where headrace's statements run on the driver's connection
inside it: psycopg, sync and async, and asyncpg."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, LiteralString, NoReturn
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, CursorResult, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from headrace.core import Conflict, Invalid, map_database_errors
from headrace.db import AsyncConnection as NodeConnection, AsyncView, Parameter, View, create_view
from headrace.drivers import sessions
from headrace.drivers.psycopg import GuardedAsyncView, GuardedSyncView, PsycopgConnection, TransactionGuard
from headrace.drivers.registry import find_kind, load
from headrace.drivers.sessions import ASYNC_SESSION, HandlerConnection, SessionStep, reject
from headrace.drivers.steps import Copy, Driver, Parameters, Result, Rows, Steps, SyncDriver, number_parameters


class _SyncDriver(SyncDriver):
    """Takes steps on the connection of a session."""

    def run(self, conn: Connection | Session | scoped_session[Session], steps: Steps[Result]) -> Result:
        if isinstance(conn, Connection):
            return super().run(conn, steps)
        with map_database_errors():
            connection = conn.connection()
        return super().run(connection, steps)


class _AsyncDriver(Driver):
    """Takes steps on the synchronous side of an asynchronous connection: one switch to it instead of one per statement."""

    async def run(
        self, conn: AsyncConnection | AsyncSession | async_scoped_session[AsyncSession], steps: Steps[Result]
    ) -> Result:
        session_or_connection: Any = conn() if isinstance(conn, async_scoped_session) else conn
        result: Result = await session_or_connection.run_sync(SYNC.run, steps)
        return result


def _is_autocommit(conn: Connection) -> bool:
    """Is every statement a transaction of its own? SQLAlchemy's adapters of asynchronous drivers have the attribute too."""
    return bool(getattr(conn.connection.dbapi_connection, "autocommit", False))


def _block(conn: Connection) -> AbstractContextManager[object]:
    return nullcontext() if _is_autocommit(conn) else conn.begin_nested()


def _execute(conn: Connection, statement: LiteralString, parameters: Parameters) -> CursorResult[Any]:
    is_numbered = conn.dialect.paramstyle == "numeric_dollar"
    return conn.exec_driver_sql(number_parameters(statement) if is_numbered else statement, tuple(parameters))


def _fetch(conn: Connection, statement: LiteralString, parameters: Parameters) -> Rows:
    return [tuple(row) for row in _execute(conn, statement, parameters)]


def _insert(conn: Connection, statement: LiteralString, parameters: Parameters) -> bool:
    return _execute(conn, statement, parameters).rowcount > 0


def _copy(conn: Connection, step: Copy) -> bool:
    fairy: Any = conn.connection
    inner = find_kind(type(fairy.driver_connection))
    # Another driver has no COPY that fits here.
    if inner is None or not inner.driver.has_transaction(fairy.driver_connection):
        return False
    if inner.is_async:
        return bool(fairy.dbapi_connection.run_async(lambda driver_conn: inner.driver.copy(driver_conn, step)))
    return bool(inner.driver.copy(fairy.driver_connection, step))


SYNC = _SyncDriver(
    has_transaction=lambda conn: not _is_autocommit(conn),
    block=_block,
    fetch=_fetch,
    insert=_insert,
    copy=_copy,
)
ASYNC = _AsyncDriver()


JOIN = "create_savepoint"
"""A failed flush rolls the session back to its own savepoint, and not the transaction of the other events of the batch."""
_URL = "postgresql+psycopg://"

_view: ContextVar[Any] = ContextVar("headrace_view")
"""The view that the engine's next connection is made of."""
_sync_bridges: WeakKeyDictionary[NodeConnection, tuple[Connection, View]] = WeakKeyDictionary()
_async_bridges: WeakKeyDictionary[NodeConnection, tuple[AsyncConnection, View]] = WeakKeyDictionary()


@cache
def _sync_engine() -> Engine:
    return create_engine(_URL, creator=_view.get, poolclass=NullPool)


@cache
def _async_engine() -> AsyncEngine:
    async def creator() -> GuardedAsyncView:
        view: GuardedAsyncView = _view.get()
        return view

    return create_async_engine(_URL, async_creator=creator, poolclass=NullPool)


def _sync_bridge(conn: NodeConnection) -> tuple[Connection, View]:
    """SQLAlchemy's connection on a node's connection, always in a transaction as SQLAlchemy sees it; and the view it uses."""
    bridge, view = _sync_bridges.get(conn, (None, None))
    if bridge is None or view is None or bridge.closed or not bridge.in_transaction():
        view = create_view(GuardedSyncView, conn)
        with _opening(view):
            bridge = _sync_engine().connect()
            bridge.detach()  # From the engine's pool, which would warn when the node closes the connection.
            bridge.begin()
        _sync_bridges[conn] = bridge, view
    return bridge, view


async def _async_bridge(conn: NodeConnection) -> tuple[AsyncConnection, View]:
    bridge, view = _async_bridges.get(conn, (None, None))
    if bridge is None or view is None or bridge.closed or not bridge.in_transaction():
        view = create_view(GuardedAsyncView, conn)
        with _opening(view):
            bridge = await _async_engine().connect()
            await bridge.run_sync(Connection.detach)
            await bridge.begin()
        _async_bridges[conn] = bridge, view
    return bridge, view


@contextmanager
def _opening(view: GuardedSyncView | GuardedAsyncView) -> Iterator[None]:
    token = _view.set(view)
    view.is_guarded = False
    try:
        yield
    finally:
        view.is_guarded = True
        _view.reset(token)


@contextmanager
def session_on(connection: PsycopgConnection, step: SessionStep, guard: TransactionGuard) -> Iterator[Session]:
    """A Session on the node's connection."""
    bridge, view = _sync_bridge(connection.conn)
    with session_in(bridge, step) as session, guard.around(session, view):
        yield session


@asynccontextmanager
async def async_session_on(
    connection: PsycopgConnection, step: SessionStep, guard: TransactionGuard
) -> AsyncIterator[AsyncSession]:
    """An AsyncSession on the node's connection."""
    bridge, view = await _async_bridge(connection.conn)
    async with async_session_in(bridge, step) as session:
        with guard.around(session, view):
            yield session


@contextmanager
def session_in(connection: Connection, step: SessionStep) -> Iterator[Session]:
    """A Session in the transaction that is open on SQLAlchemy's connection."""
    session: Session = _factory(step, Session, sessionmaker)(bind=connection, join_transaction_mode=JOIN)
    release = _hold(session, step)
    try:
        yield session
        release()
        session.commit()
    except BaseException:
        release()
        # What the handler raised says more than a rollback that fails, for example on a lost connection.
        with suppress(Exception):
            session.close()
        raise
    session.close()


@asynccontextmanager
async def async_session_in(connection: AsyncConnection, step: SessionStep) -> AsyncIterator[AsyncSession]:
    """An AsyncSession in the transaction that is open on SQLAlchemy's connection."""
    session: AsyncSession = _factory(step, AsyncSession, async_sessionmaker)(bind=connection, join_transaction_mode=JOIN)
    release_sync = _hold(session.sync_session, step)
    release = _hold_methods(session, step)
    try:
        yield session
        release(), release_sync()
        await session.commit()
    except BaseException:
        release(), release_sync()
        with suppress(Exception):
            await session.close()
        raise
    await session.close()


def _factory(step: SessionStep, base: type, maker: type) -> Callable[..., Any]:
    """What makes the session: the application's sessionmaker, the class of the annotation, or SQLAlchemy's own class."""
    option = step.request.option
    if isinstance(option, maker) or (isinstance(option, type) and issubclass(option, base)):
        return option  # type: ignore[return-value]
    return base


_ENDS = ("commit", "rollback", "close", "reset", "invalidate")


def _hold(session: Session, step: SessionStep) -> Callable[[], None]:
    """Keeps a handler from ending its session's transaction; returns what lets headrace end it."""

    def before_commit(session: Session) -> None:
        # Also for `with session.begin()`, which calls no method of the session. The end of a begin_nested is a commit too.
        if not session.in_nested_transaction():
            _reject(step, "commit")

    event.listen(session, "before_commit", before_commit)
    release_methods = _hold_methods(session, step)
    # Also where the application's class chooses engines itself: what it did elsewhere would not commit with the cursor.
    bind = session.bind
    session.get_bind = lambda *_arguments, **_options: bind  # type: ignore[method-assign, assignment]

    def release() -> None:
        if event.contains(session, "before_commit", before_commit):
            event.remove(session, "before_commit", before_commit)
        release_methods()

    return release


def _hold_methods(session: Session | AsyncSession, step: SessionStep) -> Callable[[], None]:
    methods = [method for method in _ENDS if hasattr(session, method)]
    for method in methods:
        setattr(session, method, partial(_reject, step, method))

    def release() -> None:
        for method in methods:
            session.__dict__.pop(method, None)

    return release


def _reject(step: SessionStep, method: str, *_arguments: object, **_options: object) -> NoReturn:
    advice = {
        "commit": "remove the call: headrace commits after the handler, together with the cursor or the ack",
        "rollback": "raise an error to undo everything, or put session.begin_nested() around what may fail",
    }.get(method, "remove the call: headrace closes the session after the handler")
    raise Conflict(f"handler {step.name} called {method} on its session; {advice}")


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

    async def begin(self, statement: LiteralString | None = None, parameters: sessions.Parameters = ()) -> sessions.Rows:
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
        super().__init__(create_view(AsyncView, driver, autocommit=driver.autocommit))
        self._connection = connection
        self.ends = EndGuard(connection)

    async def begin(self, statement: LiteralString | None = None, parameters: sessions.Parameters = ()) -> sessions.Rows:
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


def _async_connection(connection: AsyncConnection, driver: Any) -> Any:
    if type(driver).__module__.startswith("asyncpg"):
        return load("headrace.drivers.sqlalchemy_asyncpg:AsyncEngineAsyncpg")(connection, driver)
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
