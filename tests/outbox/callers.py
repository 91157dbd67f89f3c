"""Every kind of connection a caller may have, with the same three operations: publish one, publish many, end the transaction."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import django as django_package
import psycopg
import sqlalchemy
from django.conf import settings
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from headrace.core import Event
from headrace.outbox import publish, publish_async, publish_many, publish_many_async

os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
if not settings.configured:
    settings.configure(DATABASES={})
    django_package.setup()


class RolledBack(Exception):
    """Ends a block that rolls back."""


@dataclass(frozen=True)
class Caller:
    """A connection in an open transaction of its caller."""

    conn: object
    finish: Callable[[bool], Awaitable[None]]
    asynchronous: bool

    async def one(self, event: Event) -> UUID:
        fields = {name: getattr(event, name) for name in ("key", "headers", "id", "emitted_at", "producer")}
        if self.asynchronous:
            return await publish_async(self.conn, event.topic, event.type, event.payload, **fields)
        return publish(self.conn, event.topic, event.type, event.payload, **fields)

    async def many(self, events: Iterable[Event], namespace: str | None = None) -> list[UUID]:
        if self.asynchronous:
            return await publish_many_async(self.conn, events, namespace=namespace)
        return publish_many(self.conn, events, namespace=namespace)


def _sync_finish(conn: object) -> Callable[[bool], Awaitable[None]]:
    async def finish(keep: bool) -> None:
        conn.commit() if keep else conn.rollback()

    return finish


def _async_finish(conn: object) -> Callable[[bool], Awaitable[None]]:
    async def finish(keep: bool) -> None:
        await (conn.commit() if keep else conn.rollback())

    return finish


@asynccontextmanager
async def psycopg_sync(dsn: str) -> AsyncIterator[Caller]:
    with psycopg.connect(dsn) as conn:
        yield Caller(conn, _sync_finish(conn), False)


@asynccontextmanager
async def psycopg_dict_rows(dsn: str) -> AsyncIterator[Caller]:
    with psycopg.connect(dsn, row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.RawCursor) as conn:
        yield Caller(conn, _sync_finish(conn), False)


@asynccontextmanager
async def psycopg_pipeline(dsn: str) -> AsyncIterator[Caller]:
    with psycopg.connect(dsn) as conn, conn.pipeline():
        yield Caller(conn, _sync_finish(conn), False)


@asynccontextmanager
async def psycopg_async(dsn: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        yield Caller(conn, _async_finish(conn), True)


def _sqlalchemy(driver: str, dsn: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://")


@asynccontextmanager
async def sqlalchemy_connection(dsn: str) -> AsyncIterator[Caller]:
    engine = sqlalchemy.create_engine(_sqlalchemy("psycopg", dsn))
    with engine.connect() as conn:
        yield Caller(conn, _sync_finish(conn), False)
    engine.dispose()


@asynccontextmanager
async def sqlalchemy_session(dsn: str) -> AsyncIterator[Caller]:
    engine = sqlalchemy.create_engine(_sqlalchemy("psycopg", dsn))
    with Session(engine) as conn:
        yield Caller(conn, _sync_finish(conn), False)
    engine.dispose()


def _async_session(driver: str) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def caller(dsn: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(_sqlalchemy(driver, dsn))
        async with AsyncSession(engine) as conn:
            yield Caller(conn, _async_finish(conn), True)
        await engine.dispose()

    return caller


def _async_connection(driver: str) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def caller(dsn: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(_sqlalchemy(driver, dsn))
        async with engine.connect() as conn:
            yield Caller(conn, _async_finish(conn), True)
        await engine.dispose()

    return caller


@asynccontextmanager
async def asyncpg_connection(dsn: str) -> AsyncIterator[Caller]:
    conn = await asyncpg.connect(dsn)
    transaction_block = conn.transaction()
    await transaction_block.start()
    yield Caller(conn, _async_finish(transaction_block), True)
    await conn.close()


@asynccontextmanager
async def asyncpg_pool(dsn: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool, pool.acquire() as conn:
        transaction_block = conn.transaction()
        await transaction_block.start()
        yield Caller(conn, _async_finish(transaction_block), True)


@asynccontextmanager
async def django(dsn: str) -> AsyncIterator[Caller]:
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    names = {"NAME": "dbname", "USER": "user", "HOST": "host", "PORT": "port"}
    database = {"ENGINE": "django.db.backends.postgresql", **{ours: str(parts[theirs]) for ours, theirs in names.items()}}
    connections.settings = connections.configure_settings({"default": database})
    conn = connections["default"]
    block = transaction.atomic()
    block.__enter__()

    async def finish(keep: bool) -> None:
        block.__exit__(None, None, None) if keep else block.__exit__(RolledBack, RolledBack(), None)

    yield Caller(conn, finish, False)
    conn.close()
    del connections["default"]


CALLERS: dict[str, Callable[[str], AbstractAsyncContextManager[Caller]]] = {
    "psycopg": psycopg_sync,
    "psycopg with its own rows and cursors": psycopg_dict_rows,
    "psycopg pipeline": psycopg_pipeline,
    "psycopg async": psycopg_async,
    "sqlalchemy connection": sqlalchemy_connection,
    "sqlalchemy session": sqlalchemy_session,
    "sqlalchemy async session on psycopg": _async_session("psycopg"),
    "sqlalchemy async session on asyncpg": _async_session("asyncpg"),
    "sqlalchemy async connection on asyncpg": _async_connection("asyncpg"),
    "asyncpg": asyncpg_connection,
    "asyncpg pool": asyncpg_pool,
    "django": django,
}
