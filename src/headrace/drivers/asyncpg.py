"""asyncpg: a connection, or one acquired from its pool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, LiteralString

from headrace.drivers.steps import AsyncDriver, Copy, Parameters, Rows, number_parameters

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy


def _session(conn: asyncpg.Connection | PoolConnectionProxy) -> object:
    # A pool hands out a new proxy each time, around the same connection.
    return getattr(conn, "_con", conn)


async def _fetch(conn: asyncpg.Connection, statement: LiteralString, parameters: Parameters) -> Rows:
    return [tuple(row) for row in await conn.fetch(number_parameters(statement), *parameters)]


async def _insert(conn: asyncpg.Connection, statement: LiteralString, parameters: Parameters) -> bool:
    return await conn.execute(number_parameters(statement), *parameters) != "INSERT 0 0"


async def _copy(conn: asyncpg.Connection, step: Copy) -> bool:
    source = _iterate_async(step.chunks)
    await conn.copy_to_table(step.table, schema_name=step.schema, columns=step.columns, source=source, format="binary")
    return True


async def _iterate_async(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


ASYNC = AsyncDriver(
    session=_session,
    has_transaction=lambda conn: conn.is_in_transaction(),
    block=lambda conn: conn.transaction(),
    fetch=_fetch,
    insert=_insert,
    copy=_copy,
)
