"""asyncpg: a connection, or one acquired from its pool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, LiteralString

from headrace.core import ValidatedEvent
from headrace.outbox.binary_copy import COLUMNS
from headrace.outbox.direct import insert_statement, remember_way
from headrace.outbox.statements import Parameters, Rows, number_parameters

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy


class AsyncpgAdapter:
    """Adapter for an asyncpg Connection."""

    def __init__(self, conn: asyncpg.Connection | PoolConnectionProxy) -> None:
        self._conn = conn

    def transaction(self) -> AbstractAsyncContextManager[object]:
        return nullcontext() if self._conn.is_in_transaction() else self._conn.transaction()

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        return self._conn.transaction()

    async def execute(self, statement: LiteralString, parameters: Parameters) -> Rows:
        return [tuple(row) for row in await self._conn.fetch(number_parameters(statement), *parameters)]

    async def insert(self, event: ValidatedEvent, namespace: str | None) -> bool:
        statement = insert_statement(self._session(), event, namespace)
        if statement is None:
            return False
        return await self._conn.execute(number_parameters(statement[0]), *statement[1]) != "INSERT 0 0"

    async def remember_way(self, event: ValidatedEvent, namespace: str | None, *, may_insert: bool) -> None:
        remember_way(self._session(), event, namespace, may_insert=may_insert)

    def _session(self) -> object:
        # A pool hands out a new proxy each time, around the same connection.
        return getattr(self._conn, "_con", self._conn)

    async def copy(self, chunks: Iterator[bytes]) -> bool:
        await self._conn.copy_to_table(
            "outbox", schema_name="headrace_internal", columns=COLUMNS, source=_iterate_async(chunks), format="binary"
        )
        return True


async def _iterate_async(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
