"""psycopg 3, sync and async."""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from headrace.drivers.steps import AsyncDriver, Copy, Parameters, Rows, SyncDriver


def _is_in_pipeline(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Then there is no COPY, and the number of inserted rows is not known at once."""
    return bool(conn.pgconn.pipeline_status)


def _session(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> object:
    return None if _is_in_pipeline(conn) else conn


def _has_transaction(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return not conn.autocommit or conn.info.transaction_status != TransactionStatus.IDLE


# The caller may have set other row and cursor factories, so none of these calls conn.cursor().


def _fetch(conn: psycopg.Connection[Any], statement: LiteralString, parameters: Parameters) -> Rows:
    with psycopg.Cursor(conn, row_factory=tuple_row) as cursor:
        return cursor.execute(statement, parameters).fetchall()


def _insert(conn: psycopg.Connection[Any], statement: LiteralString, parameters: Parameters) -> bool:
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
    return (await psycopg.AsyncCursor(conn, row_factory=tuple_row).execute(statement, parameters)).rowcount > 0


async def _copy_async(conn: psycopg.AsyncConnection[Any], step: Copy) -> bool:
    if _is_in_pipeline(conn):
        return False
    async with psycopg.AsyncCursor(conn) as cursor, cursor.copy(step.statement) as copy:
        for chunk in step.chunks:
            await copy.write(chunk)
    return True


SYNC = SyncDriver(
    session=_session,
    has_transaction=_has_transaction,
    block=psycopg.Connection.transaction,
    fetch=_fetch,
    insert=_insert,
    copy=_copy,
)
ASYNC = AsyncDriver(
    session=_session,
    has_transaction=_has_transaction,
    block=psycopg.AsyncConnection.transaction,
    fetch=_fetch_async,
    insert=_insert_async,
    copy=_copy_async,
)
