"""Every kind of connection a caller may have, with the same operations."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any
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
from headrace.log.outbox import publish, publish_async, publish_many, publish_many_async

os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
if not settings.configured:
    settings.configure(DATABASES={})
    django_package.setup()


class RolledBack(Exception):
    """Ends a block that rolls back."""


@dataclass(frozen=True)
class Caller:
    """A connection of a caller; `finish` ends its transaction, if it has one."""

    conn: object
    finish: Callable[[bool], Awaitable[None]]
    asynchronous: bool

    async def call(self, function: Callable[..., Any], function_async: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls the form of a function that fits the connection."""
        if self.asynchronous:
            return await function_async(self.conn, *args, **options)
        return function(self.conn, *args, **options)

    async def one(self, event: Event) -> UUID:
        fields = {name: getattr(event, name) for name in ("key", "headers", "id", "emitted_at", "producer")}
        return await self.call(publish, publish_async, event.topic, event.type, event.payload, **fields)

    async def many(self, events: Iterable[Event], namespace: str | None = None) -> list[UUID]:
        return await self.call(publish_many, publish_many_async, events, namespace=namespace)


def _sync_finish(conn: object) -> Callable[[bool], Awaitable[None]]:
    async def finish(keep: bool) -> None:
        conn.commit() if keep else conn.rollback()

    return finish


def _async_finish(conn: object) -> Callable[[bool], Awaitable[None]]:
    async def finish(keep: bool) -> None:
        await (conn.commit() if keep else conn.rollback())

    return finish


Opening = Callable[..., AbstractAsyncContextManager[Caller]]
"""Opens a connection to an address: in a transaction, or with `autocommit=True` outside of one."""


@asynccontextmanager
async def psycopg_sync(dsn: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    with psycopg.connect(dsn, autocommit=autocommit) as conn:
        yield Caller(conn, _sync_finish(conn), False)


@asynccontextmanager
async def psycopg_dict_rows(dsn: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    factories = {"row_factory": psycopg.rows.dict_row, "cursor_factory": psycopg.RawCursor}
    with psycopg.connect(dsn, autocommit=autocommit, **factories) as conn:
        yield Caller(conn, _sync_finish(conn), False)


@asynccontextmanager
async def psycopg_pipeline(dsn: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    with psycopg.connect(dsn, autocommit=autocommit) as conn, conn.pipeline():
        yield Caller(conn, _sync_finish(conn), False)


@asynccontextmanager
async def psycopg_async(dsn: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=autocommit) as conn:
        yield Caller(conn, _async_finish(conn), True)


def _engine(create: Callable[..., Any], driver: str, dsn: str, autocommit: bool) -> Any:
    isolation = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
    return create(dsn.replace("postgresql://", f"postgresql+{driver}://"), **isolation)


def _sqlalchemy(connect: Callable[[Any], Any]) -> Opening:
    @asynccontextmanager
    async def open_caller(dsn: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
        engine = _engine(sqlalchemy.create_engine, "psycopg", dsn, autocommit)
        with connect(engine) as conn:
            yield Caller(conn, _sync_finish(conn), False)
        engine.dispose()

    return open_caller


def _sqlalchemy_async(driver: str, connect: Callable[[Any], Any]) -> Opening:
    @asynccontextmanager
    async def open_caller(dsn: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
        engine = _engine(create_async_engine, driver, dsn, autocommit)
        async with connect(engine) as conn:
            yield Caller(conn, _async_finish(conn), True)
        await engine.dispose()

    return open_caller


async def _asyncpg_caller(conn: Any, *, autocommit: bool) -> Caller:
    transaction_block = conn.transaction()
    if not autocommit:
        await transaction_block.start()
    return Caller(conn, _async_finish(transaction_block), True)


@asynccontextmanager
async def asyncpg_connection(dsn: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    conn = await asyncpg.connect(dsn)
    yield await _asyncpg_caller(conn, autocommit=autocommit)
    await conn.close()


@asynccontextmanager
async def asyncpg_pool(dsn: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool, pool.acquire() as conn:
        yield await _asyncpg_caller(conn, autocommit=autocommit)


@asynccontextmanager
async def django(dsn: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    names = {"NAME": "dbname", "USER": "user", "HOST": "host", "PORT": "port"}
    database = {"ENGINE": "django.db.backends.postgresql", **{ours: str(parts[theirs]) for ours, theirs in names.items()}}
    connections.settings = connections.configure_settings({"default": database})
    conn = connections["default"]
    block = transaction.atomic()
    if not autocommit:
        block.__enter__()

    async def finish(keep: bool) -> None:
        block.__exit__(None, None, None) if keep else block.__exit__(RolledBack, RolledBack(), None)

    yield Caller(conn, finish, False)
    conn.close()
    del connections["default"]


CALLERS: dict[str, Opening] = {
    "psycopg": psycopg_sync,
    "psycopg with its own rows and cursors": psycopg_dict_rows,
    "psycopg pipeline": psycopg_pipeline,
    "psycopg async": psycopg_async,
    "sqlalchemy connection": _sqlalchemy(lambda engine: engine.connect()),
    "sqlalchemy session": _sqlalchemy(Session),
    "sqlalchemy async session on psycopg": _sqlalchemy_async("psycopg", AsyncSession),
    "sqlalchemy async session on asyncpg": _sqlalchemy_async("asyncpg", AsyncSession),
    "sqlalchemy async connection on asyncpg": _sqlalchemy_async("asyncpg", lambda engine: engine.connect()),
    "asyncpg": asyncpg_connection,
    "asyncpg pool": asyncpg_pool,
    "django": django,
}
