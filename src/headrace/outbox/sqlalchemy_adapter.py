"""SQLAlchemy: Session and Connection, AsyncSession and AsyncConnection, on any driver for PostgreSQL.

Statements go through SQLAlchemy, so that it begins its transaction as ever; the COPY goes to the driver's connection below."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from headrace.outbox.statements import Answer, Copy, Step

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session


class SQLAlchemyAdapter:
    """Performs steps on a Session or a Connection."""

    def __init__(self, conn: Session | Connection) -> None:
        self._given = conn

    @contextmanager
    def together(self) -> Iterator[None]:
        """SQLAlchemy begins by itself."""
        yield

    def perform(self, step: Step) -> Answer:
        from sqlalchemy import text
        from sqlalchemy.orm import Session, scoped_session

        given = self._given
        conn = given.connection() if isinstance(given, Session | scoped_session) else given
        if not isinstance(step, Copy):
            return [tuple(row) for row in conn.execute(text(step.named), step.parameters)]
        raw = conn.connection.driver_connection
        # On another driver, and below `run_sync` on an asynchronous one, there is no COPY to use.
        if raw is None or _driver(raw) != "psycopg.Connection" or raw.autocommit:
            return False
        from headrace.outbox.psycopg_adapter import PsycopgAdapter

        return PsycopgAdapter(raw).perform(step)


class AsyncSQLAlchemyAdapter:
    """Performs steps on an AsyncSession or an AsyncConnection."""

    def __init__(self, conn: AsyncSession | AsyncConnection) -> None:
        self._given = conn

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """SQLAlchemy begins by itself."""
        yield

    async def perform(self, step: Step) -> Answer:
        from sqlalchemy import text
        from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session

        given = self._given
        conn = await given.connection() if isinstance(given, AsyncSession | async_scoped_session) else given
        if not isinstance(step, Copy):
            return [tuple(row) for row in await conn.execute(text(step.named), step.parameters)]
        raw = (await conn.get_raw_connection()).driver_connection
        # In SQLAlchemy's autocommit mode rows and wake-up would commit apart; the one statement instead is atomic.
        if raw is not None and _driver(raw) == "psycopg.AsyncConnection" and not raw.autocommit:
            from headrace.outbox.psycopg_adapter import AsyncPsycopgAdapter

            return await AsyncPsycopgAdapter(raw).perform(step)
        if raw is not None and _driver(raw) == "asyncpg.Connection" and raw.is_in_transaction():
            from headrace.outbox.asyncpg_adapter import copy

            await copy(raw, step)
            return True
        return False


def _driver(raw: object) -> str:
    """Package and class of a driver's connection: psycopg.Connection."""
    return f"{type(raw).__module__.partition('.')[0]}.{type(raw).__name__}"
