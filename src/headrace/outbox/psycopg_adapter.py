"""psycopg 3, sync and async."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from headrace.outbox.statements import Answer, Copy, Step


class PsycopgAdapter:
    """Performs steps on a psycopg Connection."""

    def __init__(self, conn: psycopg.Connection[object]) -> None:
        self._conn = conn

    @contextmanager
    def together(self) -> Iterator[None]:
        """All steps in one transaction: the caller's, or one of their own in autocommit mode."""
        if _stands_alone(self._conn):
            with self._conn.transaction():
                yield
        else:
            yield

    def perform(self, step: Step) -> Answer:
        # Not conn.cursor(): the caller may have set other row and cursor factories.
        with psycopg.Cursor(self._conn, row_factory=tuple_row) as cursor:
            if not isinstance(step, Copy):
                return cursor.execute(step.pyformat, step.parameters).fetchall()
            if _in_pipeline(self._conn):
                return False
            with cursor.copy(step.text) as copy:
                for chunk in step.chunks():
                    copy.write(chunk)
            return True


class AsyncPsycopgAdapter:
    """Performs steps on a psycopg AsyncConnection."""

    def __init__(self, conn: psycopg.AsyncConnection[object]) -> None:
        self._conn = conn

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """All steps in one transaction: the caller's, or one of their own in autocommit mode."""
        if _stands_alone(self._conn):
            async with self._conn.transaction():
                yield
        else:
            yield

    async def perform(self, step: Step) -> Answer:
        async with psycopg.AsyncCursor(self._conn, row_factory=tuple_row) as cursor:
            if not isinstance(step, Copy):
                return await (await cursor.execute(step.pyformat, step.parameters)).fetchall()
            if _in_pipeline(self._conn):
                return False
            async with cursor.copy(step.text) as copy:
                for chunk in step.chunks():
                    await copy.write(chunk)
            return True


def _stands_alone(conn: psycopg.Connection[object] | psycopg.AsyncConnection[object]) -> bool:
    return conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE


def _in_pipeline(conn: psycopg.Connection[object] | psycopg.AsyncConnection[object]) -> bool:
    """PostgreSQL knows no COPY in pipeline mode."""
    return conn.pgconn.pipeline_status != PipelineStatus.OFF
