"""Handler connections: one transaction at a time, in which headrace's own statements and a handler's effects happen.

Promises: the claim, the handler's effects and the move of the cursor (or the ack) commit together or not at all, whatever driver or
ORM the handler uses; a lost connection raises psycopg.OperationalError, whatever the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString, Protocol, TypeAlias

import psycopg
import psycopg.errors
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader, Transformer
from psycopg.pq import Format, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.types.json import set_json_loads

from headrace.consume.sessions.guard import TransactionGuard
from headrace.consume.sessions.kinds import ASYNC_PSYCOPG, ASYNC_SESSION, DJANGO, PSYCOPG, SESSION, SESSION_KINDS, SessionStep
from headrace.consume.sessions.views import sync_view
from headrace.core import JSON, Conflict, LoggedEvent, RawJSON, decode
from headrace.db import AsyncConnection, Command, Parameter, Pool, connection_lost_error, exchange
from headrace.log.topics import logged_event_row

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]
Rows: TypeAlias = list[tuple[Any, ...]]


SAVEPOINT: LiteralString = "savepoint headrace_batch"
ROLLBACK_TO_SAVEPOINT: LiteralString = "rollback to savepoint headrace_batch"


class EventRows(ABC):
    """The rows of a statement whose columns are the fields of LoggedEvent, decoded when they are asked for."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def load(self, start: int, end: int) -> Rows:
        """The rows from `start` up to, not including, `end`; raises what decoding them raises."""

    @abstractmethod
    def position(self, index: int) -> int:
        """The position in a row, even if the row cannot be decoded."""


class HandlerConnection(ABC):
    """A connection for handlers, in one transaction at a time."""

    def __init__(self) -> None:
        self.after_commit: list[Callable[[], object]] = []
        """Plain functions that a handler left to be called after the commit."""

    @abstractmethod
    async def begin(self, statement: LiteralString | None = None, parameters: Parameters = ()) -> Rows:
        """Begins a transaction, and runs its first statement if there is one."""

    @abstractmethod
    async def begin_events(
        self, statement: LiteralString, parameters: Sequence[Parameter], *, raw: bool = False, savepoint: bool = False
    ) -> EventRows:
        """Begins a transaction with a statement that returns events. With `raw`, payload and headers are JSON text, which the handler
        decodes itself; with `savepoint`, `rollback_to_savepoint` leads back to this moment."""

    @abstractmethod
    async def execute(self, statement: LiteralString, parameters: Parameters = (), *, prepare: bool | None = None) -> Rows: ...

    @abstractmethod
    async def fetch_events(
        self, statement: LiteralString, parameters: Mapping[str, object], *, raw: bool = False
    ) -> list[LoggedEvent]:
        """The events of a query; with `raw`, payload and headers are JSON text, which the handler decodes itself."""

    @abstractmethod
    def savepoint(self) -> AbstractAsyncContextManager[object]: ...

    @abstractmethod
    async def commit(self, statement: LiteralString | None = None, parameters: Sequence[Parameter] = ()) -> None:
        """Runs the last statement if there is one, and commits."""

    @abstractmethod
    async def rollback(self) -> None:
        """Rolls back if a transaction is open; a lost connection has no transaction."""

    async def rollback_to_savepoint(self) -> bool:
        """Undoes what happened since `begin_events`, and keeps its locks. False if a handler has ended the transaction; then it is
        rolled back."""
        if self.is_lost or not self.has_transaction:
            return False
        try:
            await self.execute(ROLLBACK_TO_SAVEPOINT)
        except psycopg.errors.InvalidSavepointSpecification:
            await self.rollback()
            return False
        return True

    @property
    @abstractmethod
    def has_transaction(self) -> bool:
        """True while a transaction is open, aborted or not."""

    @property
    @abstractmethod
    def is_lost(self) -> bool:
        """True if the server or the network ended the connection, and not the handler."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """True while the transaction is open and not aborted."""

    @abstractmethod
    def session(self, step: SessionStep) -> AbstractAsyncContextManager[Any]:
        """The session of an async handler. The exit raises if the handler has ended the transaction or left it aborted."""

    def sync_session(self, step: SessionStep) -> AbstractContextManager[Any]:
        """The session of a plain function, for the thread that calls it."""
        raise Conflict(f"handler {step.name} is a plain function, and its connection is asynchronous")


class TransactionSource(Protocol):
    """Where the connections of handlers come from."""

    def connect(self) -> AbstractAsyncContextManager[HandlerConnection]:
        """A connection, returned at the end of the block; an open transaction is rolled back."""


class _EventJson(Loader):
    """jsonb as what its JSON means. Shorter than psycopg's own loader, which is a good part of reading an event."""

    format = Format.BINARY

    def load(self, data: Buffer) -> JSON:
        return decode(bytes(data[1:]))  # After the version of jsonb's binary form.


class _EventJsonText(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> RawJSON:
        return RawJSON(bytes(data[1:]))


class PsycopgEventRows(EventRows):
    """The rows in a result of psycopg, in binary form."""

    def __init__(self, conn: AsyncConnection, result: PGresult, *, raw: bool) -> None:
        self._result = result
        adapters = AdaptersMap(conn.adapters)
        adapters.register_loader("jsonb", _EventJsonText if raw else _EventJson)
        self._transformer = Transformer(_Context(adapters, conn))
        self._transformer.set_pgresult(result)

    def __len__(self) -> int:
        return self._result.ntuples

    def load(self, start: int, end: int) -> Rows:
        return self._transformer.load_rows(start, end, tuple)

    def position(self, index: int) -> int:
        return int.from_bytes(self._result.get_value(index, 0) or b"")


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

    async def begin(self, statement: LiteralString | None = None, parameters: Parameters = ()) -> Rows:
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

    async def execute(self, statement: LiteralString, parameters: Parameters = (), *, prepare: bool | None = None) -> Rows:
        cursor = await self.conn.execute(statement, parameters, prepare=prepare)
        return await cursor.fetchall() if cursor.description else []

    async def fetch_events(
        self, statement: LiteralString, parameters: Mapping[str, object], *, raw: bool = False
    ) -> list[LoggedEvent]:
        async with self.conn.cursor(row_factory=logged_event_row, binary=True) as cursor:
            if raw:
                set_json_loads(RawJSON, cursor)
            return await (await cursor.execute(statement, parameters)).fetchall()

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
        # As psycopg's own block does: a handler that calls commit() or rollback() gets an error from psycopg.
        self.conn._num_transactions += 1
        self._is_nested, self._is_exchanged = False, True

    def _leave_exchanged(self) -> None:
        self._is_exchanged = False
        self.conn._num_transactions -= 1

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
        if step.request.kind == ASYNC_SESSION:
            from headrace.consume.sessions.sqlalchemy import async_session_on

            return async_session_on(self.conn, step, self._guard)
        if step.request.kind == DJANGO:
            from headrace.consume.sessions.django import async_django_on

            return async_django_on(self.conn, step, self._guard, self.after_commit)
        if step.request.kind in SESSION_KINDS.names():
            return self._open_async(step)
        raise _other_driver(step)

    def sync_session(self, step: SessionStep) -> AbstractContextManager[Any]:
        if step.request.kind == PSYCOPG:
            return self._guard.around(sync_view(self.conn))
        if step.request.kind == SESSION:
            from headrace.consume.sessions.sqlalchemy import session_on

            return session_on(self.conn, step, self._guard)
        if step.request.kind == DJANGO:
            from headrace.consume.sessions.django import django_on

            return django_on(self.conn, step, self._guard, self.after_commit)
        if step.request.kind in SESSION_KINDS.names():
            return self._open_sync(step)
        raise _other_driver(step)

    @asynccontextmanager
    async def _open_async(self, step: SessionStep) -> AsyncIterator[Any]:
        """A session of a kind that another package adds. The guard looks after the session has ended."""
        kind: Any = SESSION_KINDS.load(step.request.kind)
        async with self._guard.around(None), kind.open(self.conn, step.request.session_class) as session:
            yield session

    @contextmanager
    def _open_sync(self, step: SessionStep) -> Iterator[Any]:
        kind: Any = SESSION_KINDS.load(step.request.kind)
        with self._guard.around(None), kind.open(sync_view(self.conn), step.request.session_class) as session:
            yield session


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


def concurrency_error(error: BaseException) -> psycopg.Error | None:
    """psycopg's error if a deadlock or a serialization failure caused this one, whatever library raised it; else None."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure):
            return cause
        sqlstate = getattr(cause, "sqlstate", None)
        if sqlstate in ("40P01", "40001"):
            return psycopg.errors.lookup(sqlstate)(str(cause))
        cause = getattr(cause, "orig", None) or (cause.__cause__ if _is_wrapper(cause) else None)
    return None


def _is_wrapper(error: BaseException) -> bool:
    """True for an error by which a library repeats one of its driver. Anything else was raised by the handler on purpose."""
    return type(error).__module__.partition(".")[0] in ("django", "sqlalchemy")
