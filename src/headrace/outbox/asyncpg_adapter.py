"""asyncpg: a connection, or one acquired from its pool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headrace.outbox.statements import Answer, Copy, Step

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy


class AsyncpgAdapter:
    """Performs steps on an asyncpg Connection."""

    def __init__(self, conn: asyncpg.Connection | PoolConnectionProxy) -> None:
        self._conn = conn

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """All steps in one transaction: the caller's, or one of their own when there is none."""
        if self._conn.is_in_transaction():
            yield
        else:
            async with self._conn.transaction():
                yield

    async def perform(self, step: Step) -> Answer:
        if isinstance(step, Copy):
            await copy(self._conn, step)
            return True
        return [tuple(row) for row in await self._conn.fetch(step.numbered, *step.values)]


async def copy(conn: asyncpg.Connection | PoolConnectionProxy, step: Copy) -> None:
    """Sends the COPY. asyncpg writes the statement itself, so it is told the parts of it."""
    schema, table, columns = step.parts
    await conn.copy_to_table(table, schema_name=schema, columns=columns, source=_awaited(step.chunks()), format="binary")


async def _awaited(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
