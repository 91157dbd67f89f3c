"""SQLAlchemy: Session and Connection, AsyncSession and AsyncConnection, on any driver for PostgreSQL.

Statements go through SQLAlchemy, which begins its transaction as usual; a COPY goes to the driver's own connection. In
SQLAlchemy's autocommit mode there is no COPY: its rows and the wake-up would commit separately, and one statement is atomic."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, LiteralString

from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from headrace.core import ValidatedEvent
from headrace.outbox.direct import insert_statement, remember_way
from headrace.outbox.statements import Parameters, Rows, number_parameters

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.engine import Dialect
    from sqlalchemy.ext.asyncio import AsyncConnection


class SQLAlchemyAdapter:
    """Adapter for a Session or a Connection."""

    def __init__(self, conn: Session | scoped_session[Session] | Connection) -> None:
        self._session_or_connection = conn

    def transaction(self) -> AbstractContextManager[object]:
        return nullcontext()

    def savepoint(self) -> AbstractContextManager[object]:
        conn = self._connection()
        return nullcontext() if _is_autocommit(conn) else conn.begin_nested()

    def execute(self, statement: LiteralString, parameters: Parameters) -> Rows:
        conn = self._connection()
        return [tuple(row) for row in conn.exec_driver_sql(_statement_for(conn.dialect, statement), tuple(parameters))]

    def insert(self, event: ValidatedEvent, namespace: str | None) -> bool:
        conn = self._connection()
        statement = insert_statement(conn.connection.driver_connection, event, namespace)
        if statement is None:
            return False
        return conn.exec_driver_sql(_statement_for(conn.dialect, statement[0]), statement[1]).rowcount > 0

    def remember_way(self, event: ValidatedEvent, namespace: str | None, *, may_insert: bool) -> None:
        remember_way(self._connection().connection.driver_connection, event, namespace, may_insert=may_insert)

    def copy(self, chunks: Iterator[bytes]) -> bool:
        driver_conn = self._connection().connection.driver_connection
        # Another driver, or an asynchronous one inside `run_sync`, has no COPY that fits here.
        if driver_conn is None or _class_name(driver_conn) != "psycopg.Connection" or driver_conn.autocommit:
            return False
        from headrace.outbox.psycopg_adapter import PsycopgAdapter

        return PsycopgAdapter(driver_conn).copy(chunks)

    def _connection(self) -> Connection:
        conn = self._session_or_connection
        return conn.connection() if isinstance(conn, Session | scoped_session) else conn


class AsyncSQLAlchemyAdapter:
    """Adapter for an AsyncSession or an AsyncConnection."""

    def __init__(self, conn: AsyncSession | async_scoped_session[AsyncSession] | AsyncConnection) -> None:
        self._session_or_connection = conn

    def transaction(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        conn = await self._connection()
        async with nullcontext() if _is_autocommit(conn.sync_connection) else conn.begin_nested():
            yield

    async def execute(self, statement: LiteralString, parameters: Parameters) -> Rows:
        conn = await self._connection()
        return [tuple(row) for row in await conn.exec_driver_sql(_statement_for(conn.dialect, statement), tuple(parameters))]

    async def insert(self, event: ValidatedEvent, namespace: str | None) -> bool:
        # One switch into SQLAlchemy's synchronous side instead of one per call of it.
        return await self._session().run_sync(lambda conn: SQLAlchemyAdapter(conn).insert(event, namespace))

    async def remember_way(self, event: ValidatedEvent, namespace: str | None, *, may_insert: bool) -> None:
        await self._session().run_sync(lambda conn: SQLAlchemyAdapter(conn).remember_way(event, namespace, may_insert=may_insert))

    async def copy(self, chunks: Iterator[bytes]) -> bool:
        driver_conn = (await (await self._connection()).get_raw_connection()).driver_connection
        if driver_conn is not None and _class_name(driver_conn) == "psycopg.AsyncConnection" and not driver_conn.autocommit:
            from headrace.outbox.psycopg_adapter import AsyncPsycopgAdapter

            return await AsyncPsycopgAdapter(driver_conn).copy(chunks)
        if driver_conn is not None and _class_name(driver_conn) == "asyncpg.Connection" and driver_conn.is_in_transaction():
            from headrace.outbox.asyncpg_adapter import AsyncpgAdapter

            return await AsyncpgAdapter(driver_conn).copy(chunks)
        return False

    def _session(self) -> AsyncSession | AsyncConnection:
        conn = self._session_or_connection
        return conn() if isinstance(conn, async_scoped_session) else conn

    async def _connection(self) -> AsyncConnection:
        conn = self._session_or_connection
        return await conn.connection() if isinstance(conn, AsyncSession | async_scoped_session) else conn


def _statement_for(dialect: Dialect, statement: str) -> str:
    return number_parameters(statement) if dialect.paramstyle == "numeric_dollar" else statement


def _is_autocommit(conn: Connection | None) -> bool:
    """True if every statement is a transaction of its own; SQLAlchemy's adapters of asynchronous drivers have the attribute too."""
    return bool(conn and getattr(conn.connection.dbapi_connection, "autocommit", False))


def _class_name(driver_conn: object) -> str:
    return f"{type(driver_conn).__module__.partition('.')[0]}.{type(driver_conn).__name__}"
