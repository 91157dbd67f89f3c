"""The application's own SQLAlchemy engine on asyncpg: apart, because it needs both libraries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, LiteralString

from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.db import Parameter
from headrace.drivers.asyncpg import AsyncpgConnection, number_parameters
from headrace.drivers.sessions import ASYNCPG, Parameters, Rows, SessionStep
from headrace.drivers.sqlalchemy import EndGuard, async_session_in, check_in_transaction, driver_errors


class AsyncEngineAsyncpg(AsyncpgConnection):
    """A connection of an async engine on asyncpg."""

    def __init__(self, connection: AsyncConnection, driver: Any) -> None:
        super().__init__(driver)
        self._connection = connection
        self.ends = EndGuard(connection.sync_connection)  # type: ignore[arg-type]

    async def begin(self, statement: LiteralString | None = None, parameters: Parameters = ()) -> Rows:
        # Through SQLAlchemy, which begins the transaction of asyncpg with its first statement.
        text, values = number_parameters(statement or "select 1", parameters)
        with driver_errors():
            await self._connection.begin()
            rows = [tuple(row) for row in await self._connection.exec_driver_sql(text, tuple(values))]
        check_in_transaction(self)
        return rows

    async def commit(self, statement: LiteralString | None = None, parameters: Sequence[Parameter] = ()) -> None:
        if statement:
            await self.execute(statement, parameters)
        with self.ends.ending():
            await self._connection.commit()

    async def rollback(self) -> None:
        if self.is_open:
            with self.ends.ending():
                await self._connection.rollback()

    @asynccontextmanager
    async def session(self, step: SessionStep) -> AsyncIterator[Any]:
        if step.request.kind == ASYNCPG:
            yield self.conn
        else:
            async with async_session_in(self._connection, step) as session:
                yield session
        self.check()
