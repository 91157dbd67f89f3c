"""psycopg 3, sync and async."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import LiteralString

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from headrace.core import ValidatedEvent
from headrace.outbox.binary_copy import COPY
from headrace.outbox.direct import insert_statement, remember_way
from headrace.outbox.statements import Parameters, Rows


class PsycopgAdapter:
    """Adapter for a psycopg Connection."""

    def __init__(self, conn: psycopg.Connection[object]) -> None:
        self._conn = conn

    def transaction(self) -> AbstractContextManager[object]:
        return self._conn.transaction() if _is_outside_transaction(self._conn) else nullcontext()

    def savepoint(self) -> AbstractContextManager[object]:
        return self._conn.transaction()

    def execute(self, statement: LiteralString, parameters: Parameters) -> Rows:
        # Not conn.cursor(): the caller may have set other row and cursor factories.
        with psycopg.Cursor(self._conn, row_factory=tuple_row) as cursor:
            return cursor.execute(statement, parameters).fetchall()

    def insert(self, event: ValidatedEvent, namespace: str | None) -> bool:
        conn = self._conn
        statement = insert_statement(conn, event, namespace)
        # In pipeline mode the number of rows is not known yet.
        if statement is None or _is_in_pipeline(conn):
            return False
        return psycopg.Cursor(conn, row_factory=tuple_row).execute(*statement).rowcount > 0

    def remember_way(self, event: ValidatedEvent, namespace: str | None, *, may_insert: bool) -> None:
        if not _is_in_pipeline(self._conn):
            remember_way(self._conn, event, namespace, may_insert=may_insert)

    def copy(self, chunks: Iterator[bytes]) -> bool:
        if _is_in_pipeline(self._conn):
            return False
        with psycopg.Cursor(self._conn) as cursor, cursor.copy(COPY) as copy:
            for chunk in chunks:
                copy.write(chunk)
        return True


class AsyncPsycopgAdapter:
    """Adapter for a psycopg AsyncConnection."""

    def __init__(self, conn: psycopg.AsyncConnection[object]) -> None:
        self._conn = conn

    def transaction(self) -> AbstractAsyncContextManager[object]:
        return self._conn.transaction() if _is_outside_transaction(self._conn) else nullcontext()

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        return self._conn.transaction()

    async def execute(self, statement: LiteralString, parameters: Parameters) -> Rows:
        async with psycopg.AsyncCursor(self._conn, row_factory=tuple_row) as cursor:
            return await (await cursor.execute(statement, parameters)).fetchall()

    async def insert(self, event: ValidatedEvent, namespace: str | None) -> bool:
        conn = self._conn
        statement = insert_statement(conn, event, namespace)
        # In pipeline mode the number of rows is not known yet.
        if statement is None or _is_in_pipeline(conn):
            return False
        return (await psycopg.AsyncCursor(conn, row_factory=tuple_row).execute(*statement)).rowcount > 0

    async def remember_way(self, event: ValidatedEvent, namespace: str | None, *, may_insert: bool) -> None:
        if not _is_in_pipeline(self._conn):
            remember_way(self._conn, event, namespace, may_insert=may_insert)

    async def copy(self, chunks: Iterator[bytes]) -> bool:
        if _is_in_pipeline(self._conn):
            return False
        async with psycopg.AsyncCursor(self._conn) as cursor, cursor.copy(COPY) as copy:
            for chunk in chunks:
                await copy.write(chunk)
        return True


def _is_outside_transaction(conn: psycopg.Connection[object] | psycopg.AsyncConnection[object]) -> bool:
    return conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE


def _is_in_pipeline(conn: psycopg.Connection[object] | psycopg.AsyncConnection[object]) -> bool:
    """PostgreSQL has no COPY in pipeline mode."""
    return bool(conn.pgconn.pipeline_status)
