"""Sessions for handlers that write SQL: rows are dictionaries, in the handler's own transaction.

A handler asks for a session by the annotation of its second parameter, `Records` in an async function. headrace finds `KIND` by the entry
point, which is named after that class."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import dict_row

Row = dict[str, Any]


class Records:
    """A session. Statements name their parameters: `%(id)s`."""

    def __init__(self, conn: AsyncConnection[Any]) -> None:
        self._conn = conn
        self._waiting: list[tuple[LiteralString, Mapping[str, object]]] = []

    async def all(self, statement: LiteralString, **parameters: object) -> list[Row]:
        """All rows of a query."""
        await self.flush()
        async with self._conn.cursor(row_factory=dict_row) as cursor:
            return await (await cursor.execute(statement, parameters)).fetchall()

    async def one(self, statement: LiteralString, **parameters: object) -> Row | None:
        """The first row of a query; None if there is none."""
        return next(iter(await self.all(statement, **parameters)), None)

    def later(self, statement: LiteralString, **parameters: object) -> None:
        """Runs a statement before the next query, or at the end of the handler."""
        self._waiting.append((statement, parameters))

    async def flush(self) -> None:
        """Runs what waits."""
        waiting, self._waiting = self._waiting, []
        for statement, parameters in waiting:
            await self._conn.execute(statement, parameters)


class RecordsKind:
    """How headrace opens such a session."""

    is_async = True

    @asynccontextmanager
    async def open(self, conn: AsyncConnection[Any], session_class: type[Records] | None) -> AsyncIterator[Records]:
        """A session in the transaction that is open on the connection. It is not ended here: that is headrace's."""
        session = (session_class or Records)(conn)
        yield session
        await session.flush()


KIND = RecordsKind()
