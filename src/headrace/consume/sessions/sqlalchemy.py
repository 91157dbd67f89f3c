"""SQLAlchemy sessions in the handler's transaction.

The session works in a savepoint of the transaction. After the handler it is flushed and the savepoint released; after an error
it is rolled back to the savepoint. The handler can end neither.

Two places the transaction may live: on the node's own psycopg connection, which SQLAlchemy gets as a view; or on a connection of
the application's own engine, where headrace's statements run on the driver's connection inside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from headrace.consume.sessions.guard import TransactionGuard
from headrace.consume.sessions.kinds import SessionStep
from headrace.consume.sessions.views import AsyncView, SyncView, create_async_view, create_sync_view
from headrace.core import Conflict
from headrace.db import AsyncConnection as NodeConnection

JOIN = "create_savepoint"
"""A failed flush rolls the session back to its own savepoint, and not the transaction of the other events of the batch."""
_URL = "postgresql+psycopg://"

_view: ContextVar[Any] = ContextVar("headrace_view")
"""The view that the engine's next connection is made of."""
_sync_bridges: WeakKeyDictionary[NodeConnection, Connection] = WeakKeyDictionary()
_async_bridges: WeakKeyDictionary[NodeConnection, AsyncConnection] = WeakKeyDictionary()


@cache
def _sync_engine() -> Engine:
    return create_engine(_URL, creator=_view.get, poolclass=NullPool)


@cache
def _async_engine() -> AsyncEngine:
    async def creator() -> AsyncView:
        view: AsyncView = _view.get()
        return view

    return create_async_engine(_URL, async_creator=creator, poolclass=NullPool)


def _sync_bridge(conn: NodeConnection) -> Connection:
    """SQLAlchemy's connection on a node's connection, always in a transaction as SQLAlchemy sees it."""
    bridge = _sync_bridges.get(conn)
    if bridge is None or bridge.closed or not bridge.in_transaction():
        view = create_sync_view(conn.pgconn)
        with _opening(view):
            bridge = _sync_engine().connect()
            bridge.detach()  # From the engine's pool, which would warn when the node closes the connection.
            bridge.begin()
        _sync_bridges[conn] = bridge
    return bridge


async def _async_bridge(conn: NodeConnection) -> AsyncConnection:
    bridge = _async_bridges.get(conn)
    if bridge is None or bridge.closed or not bridge.in_transaction():
        view = create_async_view(conn.pgconn)
        with _opening(view):
            bridge = await _async_engine().connect()
            await bridge.run_sync(Connection.detach)
            await bridge.begin()
        _async_bridges[conn] = bridge
    return bridge


@contextmanager
def _opening(view: SyncView | AsyncView) -> Iterator[None]:
    """While SQLAlchemy opens the view. It asks the server for its version and then rolls back, which must do nothing here."""
    token = _view.set(view)
    view.is_guarded = False
    try:
        yield
    finally:
        view.is_guarded = True
        _view.reset(token)


@contextmanager
def session_on(conn: NodeConnection, step: SessionStep, guard: TransactionGuard) -> Iterator[Session]:
    """A Session on the node's connection."""
    with session_in(_sync_bridge(conn), step) as session, guard.around(session):
        yield session


@asynccontextmanager
async def async_session_on(conn: NodeConnection, step: SessionStep, guard: TransactionGuard) -> AsyncIterator[AsyncSession]:
    """An AsyncSession on the node's connection."""
    async with async_session_in(await _async_bridge(conn), step) as session:
        with guard.around(session):
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
