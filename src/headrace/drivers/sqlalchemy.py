"""SQLAlchemy: Session and Connection, AsyncSession and AsyncConnection, on any driver for PostgreSQL.

Statements go through SQLAlchemy, which begins its transaction as usual; a COPY goes to the driver's own connection. In
SQLAlchemy's autocommit mode there is no COPY: its rows and the wake-up would commit separately, and one statement is atomic."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, LiteralString

from sqlalchemy import Connection, CursorResult
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from headrace.core import map_database_errors
from headrace.drivers.registry import find_kind
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
    session=lambda conn: conn.connection.driver_connection,
    has_transaction=lambda conn: not _is_autocommit(conn),
    block=_block,
    fetch=_fetch,
    insert=_insert,
    copy=_copy,
)
ASYNC = _AsyncDriver()
