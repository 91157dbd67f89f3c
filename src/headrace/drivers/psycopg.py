"""psycopg 3, sync and async: the caller's connection, and the node's own connection for handlers. Sessions of SQLAlchemy and Django are
built on the latter, by views of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString
from weakref import WeakKeyDictionary

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader, Transformer
from psycopg.pq import Format, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row
from psycopg.types.json import set_json_loads

from headrace.core import JSON, Conflict, LoggedEvent, RawJSON, decode
from headrace.db import (
    AsyncConnection,
    AsyncView,
    Command,
    Parameter,
    Pool,
    SyncView,
    View,
    connection_lost_error,
    create_view,
    enter_transaction,
    exchange,
    leave_transaction,
)
from headrace.drivers import sessions
from headrace.drivers.registry import load
from headrace.drivers.sessions import (
    ADVICE,
    ASYNC_PSYCOPG,
    ASYNC_SESSION,
    DJANGO,
    PSYCOPG,
    SAVEPOINT,
    SESSION,
    SESSION_KINDS,
    EventRows,
    HandlerConnection,
    SessionStep,
    reject,
)
from headrace.drivers.steps import AsyncDriver, Copy, Parameters, Rows, SyncDriver


def _is_in_pipeline(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Then there is no COPY, and the number of inserted rows is not known at once."""
    return bool(conn.pgconn.pipeline_status)


def _has_transaction(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return not conn.autocommit or conn.info.transaction_status != TransactionStatus.IDLE


# The caller may have set other row and cursor factories, so none of these calls conn.cursor().


def _fetch(conn: psycopg.Connection[Any], statement: LiteralString, parameters: Parameters) -> Rows:
    with psycopg.Cursor(conn, row_factory=tuple_row) as cursor:
        return cursor.execute(statement, parameters).fetchall()


def _insert(conn: psycopg.Connection[Any], statement: LiteralString, parameters: Parameters) -> bool:
    if _is_in_pipeline(conn):
        return False
    return psycopg.Cursor(conn, row_factory=tuple_row).execute(statement, parameters).rowcount > 0


def _copy(conn: psycopg.Connection[Any], step: Copy) -> bool:
    if _is_in_pipeline(conn):
        return False
    with psycopg.Cursor(conn) as cursor, cursor.copy(step.statement) as copy:
        for chunk in step.chunks:
            copy.write(chunk)
    return True


async def _fetch_async(conn: psycopg.AsyncConnection[Any], statement: LiteralString, parameters: Parameters) -> Rows:
    async with psycopg.AsyncCursor(conn, row_factory=tuple_row) as cursor:
        return await (await cursor.execute(statement, parameters)).fetchall()


async def _insert_async(conn: psycopg.AsyncConnection[Any], statement: LiteralString, parameters: Parameters) -> bool:
    if _is_in_pipeline(conn):
        return False
    return (await psycopg.AsyncCursor(conn, row_factory=tuple_row).execute(statement, parameters)).rowcount > 0


async def _copy_async(conn: psycopg.AsyncConnection[Any], step: Copy) -> bool:
    if _is_in_pipeline(conn):
        return False
    async with psycopg.AsyncCursor(conn) as cursor, cursor.copy(step.statement) as copy:
        for chunk in step.chunks:
            await copy.write(chunk)
    return True


SYNC = SyncDriver(
    has_transaction=_has_transaction,
    block=psycopg.Connection.transaction,
    fetch=_fetch,
    insert=_insert,
    copy=_copy,
)
ASYNC = AsyncDriver(
    has_transaction=_has_transaction,
    block=psycopg.AsyncConnection.transaction,
    fetch=_fetch_async,
    insert=_insert_async,
    copy=_copy_async,
)


_sync_views: WeakKeyDictionary[AsyncConnection, SyncView] = WeakKeyDictionary()


class GuardedSyncView(SyncView):
    """A view whose handler may not end the transaction."""

    is_guarded = True
    """False while headrace connects a library, which begins with a rollback."""

    def commit(self) -> None:
        self._reject("commit")

    def rollback(self) -> None:
        self._reject("rollback")

    def close(self) -> None:
        self._reject("close")

    def _reject(self, method: str) -> None:
        if self.is_guarded:
            reject(method)


class GuardedAsyncView(AsyncView):
    """The same for a library that wants to commit and roll back by itself."""

    is_guarded = True

    async def commit(self) -> None:
        self._reject("commit")

    async def rollback(self) -> None:
        self._reject("rollback")

    async def close(self) -> None:
        self._reject("close")

    def _reject(self, method: str) -> None:
        if self.is_guarded:
            reject(method)


def sync_view(conn: AsyncConnection) -> SyncView:
    """The same connection, and so the same transaction, with psycopg's sync interface."""
    view = _sync_views.get(conn)
    if view is None:
        view = create_view(GuardedSyncView, conn)
        set_json_loads(decode, view)
        _sync_views[conn] = view
    return view


class TransactionGuard:
    """Around a handler: raises unless the handler leaves the transaction open and not aborted.

    Reusable. Costs no round trip, since the client knows its transaction's status. A class and not a generator, because it is
    entered for every action and a generator would add several microseconds."""

    __slots__ = ("_conn", "_pgconn", "_value", "_view")

    def __init__(self, conn: AsyncConnection) -> None:
        self._conn = conn
        self._pgconn = conn.pgconn
        self._value: Any = None
        self._view: View | None = None

    def around(self, value: object, view: View | None = None) -> TransactionGuard:
        """The guard as a context manager, of either kind, that gives this value. Meanwhile notices are those of the view."""
        self._value, self._view = value, view
        return self

    def __enter__(self) -> Any:
        if self._view is not None:
            self._view.take_handlers()
        return self._value

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._view is not None:
            self._view.give_back_handlers()
        if isinstance(error, psycopg.Rollback):
            # Our own transaction block would take it as a request to roll back silently and go on as if all were done.
            raise Conflict(f"the handler raised psycopg.Rollback; {ADVICE}, raise another error") from error
        if error is None:
            self.check()

    async def __aenter__(self) -> Any:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.__exit__(kind, error, traceback)

    def check(self) -> None:
        """Raises if the transaction has ended or is aborted. A lost connection passes: the next statement fails on it."""
        status = self._pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            raise Conflict(f"the handler ended its transaction; {ADVICE}")
        if status == TransactionStatus.UNKNOWN and self._conn.closed and not self._conn.broken:
            raise Conflict(f"the handler closed its connection; {ADVICE}")
        if status == TransactionStatus.INERROR:
            raise Conflict(
                "the handler caught a database error and went on, but the transaction is aborted; let the error out, "
                "or put tx.transaction() (psycopg), session.begin_nested() (SQLAlchemy) or atomic() (Django) around the "
                "statements that may fail"
            )


class _EventJson(Loader):
    """Decodes jsonb. psycopg's own loader takes a large share of the time to read an event."""

    format = Format.BINARY

    def load(self, data: Buffer) -> JSON:
        return decode(bytes(data[1:]))  # After the version of jsonb's binary form.


class _EventJsonText(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> RawJSON:
        return RawJSON(bytes(data[1:]))


# Of events, by connection: for decoded JSON and for JSON as text. A map costs as much as several events.
_event_adapters: WeakKeyDictionary[AsyncConnection, dict[bool, AdaptersMap]] = WeakKeyDictionary()


def _adapters(conn: AsyncConnection, *, raw: bool) -> AdaptersMap:
    maps = _event_adapters.setdefault(conn, {})
    if raw not in maps:
        maps[raw] = AdaptersMap(conn.adapters)
        maps[raw].register_loader("jsonb", _EventJsonText if raw else _EventJson)
    return maps[raw]


class PsycopgEventRows(EventRows):
    """The rows in a result of psycopg, in binary form."""

    def __init__(self, conn: AsyncConnection, result: PGresult, *, raw: bool) -> None:
        self._result = result
        self._transformer = Transformer(_Context(_adapters(conn, raw=raw), conn))
        self._transformer.set_pgresult(result)

    def __len__(self) -> int:
        return self._result.ntuples

    def load(self, start: int, end: int) -> Rows:
        return self._transformer.load_rows(start, end, tuple)

    def position(self, index: int) -> int:
        return int.from_bytes(self._result.get_value(index, 0) or b"")

    def partition(self, index: int) -> int:
        return int.from_bytes(self._result.get_value(index, 1) or b"", signed=True)


@dataclass(frozen=True, slots=True)
class _Context:
    """What psycopg adapts values by."""

    adapters: AdaptersMap
    connection: AsyncConnection


class PsycopgConnection(HandlerConnection):
    """The node's own connection. Sessions of SQLAlchemy and Django are built on it."""

    owns_transaction = True
    """False if a library begins and ends the transaction."""

    def __init__(self, conn: AsyncConnection) -> None:
        super().__init__()
        self.conn = conn
        self._transaction = AsyncExitStack()
        self._guard = TransactionGuard(conn)
        self._is_nested = False
        self._is_exchanged = False
        """The transaction was begun by an exchange, and not by a block of psycopg."""

    async def begin(self, statement: LiteralString | None = None, parameters: sessions.Parameters = ()) -> Rows:
        self._transaction = AsyncExitStack()
        if self._may_exchange:
            await exchange(self.conn, ("begin", ()))
            self._enter_exchanged()
        else:
            # In a transaction of the caller, as the test kit has it, ours is a savepoint.
            self._is_nested = self.conn.info.transaction_status != TransactionStatus.IDLE
            await self._transaction.enter_async_context(self.conn.transaction())
        return await self.execute(statement, parameters) if statement is not None else []

    @property
    def _may_exchange(self) -> bool:
        """Is there no transaction yet, and would psycopg begin it with a plain BEGIN?"""
        conn = self.conn
        is_plain = conn.isolation_level is None and conn.read_only is None and conn.deferrable is None
        return self.owns_transaction and is_plain and conn.info.transaction_status == TransactionStatus.IDLE

    async def begin_events(
        self, statement: LiteralString, parameters: Sequence[Parameter], *, raw: bool = False, savepoint: bool = False
    ) -> EventRows:
        if not self._may_exchange:
            return await self._begin_events_stepwise(statement, parameters, raw=raw, savepoint=savepoint)
        commands: list[Command] = [("begin", ()), (statement, parameters)]
        if savepoint:
            commands.append((SAVEPOINT, ()))
        _, result, *_ = await exchange(self.conn, *commands)
        self._enter_exchanged()
        return PsycopgEventRows(self.conn, result, raw=raw)

    async def _begin_events_stepwise(
        self, statement: LiteralString, parameters: Sequence[Parameter], *, raw: bool, savepoint: bool
    ) -> EventRows:
        await self.begin()
        async with self.conn.cursor(binary=True) as cursor:
            await cursor.execute(statement, parameters)
            assert cursor.pgresult is not None
            rows = PsycopgEventRows(self.conn, cursor.pgresult, raw=raw)
        if savepoint:
            await self.execute(SAVEPOINT)
        return rows

    async def execute(
        self, statement: LiteralString, parameters: sessions.Parameters = (), *, prepare: bool | None = None
    ) -> Rows:
        cursor = await self.conn.execute(statement, parameters, prepare=prepare)
        return await cursor.fetchall() if cursor.description else []

    async def fetch_events(
        self, statement: LiteralString, parameters: Mapping[str, object], *, raw: bool = False
    ) -> list[LoggedEvent]:
        async with self.conn.cursor(binary=True) as cursor:
            if raw:
                set_json_loads(RawJSON, cursor)
            return [LoggedEvent(*row) async for row in await cursor.execute(statement, parameters)]

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        return self.conn.transaction()

    async def commit(self, statement: LiteralString | None = None, parameters: Sequence[Parameter] = ()) -> None:
        if self._is_exchanged:
            commands: list[Command] = [(statement, parameters)] if statement is not None else []
            await exchange(self.conn, *commands, ("commit", ()))
            self._leave_exchanged()
            return
        if statement is not None:
            await self.execute(statement, parameters)
        await self._transaction.aclose()

    async def rollback(self) -> None:
        transaction = self._transaction.pop_all()
        if self._is_exchanged:
            self._leave_exchanged()
        if self.conn.closed:
            return
        try:
            await transaction.__aexit__(psycopg.Rollback, psycopg.Rollback(), None)
        except psycopg.Rollback as error:
            # psycopg lets it out when the connection broke before the rollback; the server has rolled back by itself.
            raise connection_lost_error(error) from None
        if not self._is_nested and self.conn.info.transaction_status != TransactionStatus.IDLE:
            await self.conn.rollback()

    def _enter_exchanged(self) -> None:
        enter_transaction(self.conn)
        self._is_nested, self._is_exchanged = False, True

    def _leave_exchanged(self) -> None:
        self._is_exchanged = False
        leave_transaction(self.conn)

    @property
    def has_transaction(self) -> bool:
        return self.conn.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    @property
    def is_lost(self) -> bool:
        return self.conn.broken

    @property
    def is_open(self) -> bool:
        return self.conn.info.transaction_status == TransactionStatus.INTRANS

    def session(self, step: SessionStep) -> AbstractAsyncContextManager[Any]:
        if step.request.kind == ASYNC_PSYCOPG:
            return self._guard.around(self.conn)
        if step.request.kind in SESSION_KINDS.names():
            return self._open_async(step)
        session: AbstractAsyncContextManager[Any] = self._library_session(step, _ASYNC_SESSIONS)
        return session

    def sync_session(self, step: SessionStep) -> AbstractContextManager[Any]:
        if step.request.kind == PSYCOPG:
            view = sync_view(self.conn)
            return self._guard.around(view, view)
        if step.request.kind in SESSION_KINDS.names():
            return self._open_sync(step)
        session: AbstractContextManager[Any] = self._library_session(step, _SYNC_SESSIONS)
        return session

    def _library_session(self, step: SessionStep, paths: Mapping[str, str]) -> Any:
        if step.request.kind not in paths:
            raise _other_driver(step)
        return load(paths[step.request.kind])(self, step, self._guard)

    @asynccontextmanager
    async def _open_async(self, step: SessionStep) -> AsyncIterator[Any]:
        """A session of a kind that another package adds. The guard looks after the session has ended."""
        kind: Any = SESSION_KINDS.load(step.request.kind)
        async with self._guard.around(None), kind.open(self.conn, step.request.session_class) as session:
            yield session

    @contextmanager
    def _open_sync(self, step: SessionStep) -> Iterator[Any]:
        kind: Any = SESSION_KINDS.load(step.request.kind)
        view = sync_view(self.conn)
        with self._guard.around(None, view), kind.open(view, step.request.session_class) as session:
            yield session


# Loaded with the first handler that asks for one.
_ASYNC_SESSIONS = {
    ASYNC_SESSION: "headrace.drivers.sqlalchemy:async_session_on",
    DJANGO: "headrace.drivers.django:async_django_on",
}
_SYNC_SESSIONS = {SESSION: "headrace.drivers.sqlalchemy:session_on", DJANGO: "headrace.drivers.django:django_on"}


def _other_driver(step: SessionStep) -> Conflict:
    return Conflict(
        f"handler {step.name} gets {step.request.kind}, which cannot share this transaction; let a node handle it, "
        "or ask for a psycopg connection or a SQLAlchemy session"
    )


class NodeSource:
    """The node's own pool of connections."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[HandlerConnection]:
        async with self._pool.connection() as conn:
            connection = PsycopgConnection(conn)
            try:
                yield connection
            except BaseException:
                await connection.rollback()
                raise
