"""Handlers of every kind of session, with the same effect, for consumers and actions that tests step by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from headrace.actions import ActionWorker, LeaseExtender, Queue, build_worker_pools
from headrace.consume import ConsumerRunner
from headrace.db import Connection, StopSignal, Subscription, Target, create_loop_pool, create_pool
from headrace.drivers import Sources
from headrace.node import Headrace
from tests.integrations.models import CREATE, Effect, django_effect

INSERT = "insert into effect (n) values ({})"


@dataclass
class Sessions:
    """For one kind of session: the application's `session`, and a handler that writes the payload as its effect."""

    option: object
    handler: Callable[..., object]
    close: Callable[[], Awaitable[None]] | None = None


async def with_async_session(item: object, session: AsyncSession) -> None:
    session.add(Effect(n=item.payload))  # type: ignore[attr-defined]
    # Written by hand too: a session that is only flushed at the end could hide a statement outside the transaction.
    await session.execute(text("update effect set writer = 'sqlalchemy' where n = :n"), {"n": item.payload})  # type: ignore[attr-defined]


def with_session(item: object, session: Session) -> None:
    session.add(Effect(n=item.payload))  # type: ignore[attr-defined]


async def by_app(item: object, session) -> None:  # type: ignore[no-untyped-def]
    await with_async_session(item, session)


def by_app_sync(item: object, session) -> None:  # type: ignore[no-untyped-def]
    with_session(item, session)


async def with_asyncpg(item: object, conn: asyncpg.Connection) -> None:
    await conn.execute(INSERT.format("$1"), item.payload)  # type: ignore[attr-defined]


async def with_psycopg(item: object, conn: psycopg.AsyncConnection) -> None:
    await conn.execute(INSERT.format("%s"), (item.payload,))  # type: ignore[attr-defined]


def with_django(item: object, _connection: BaseDatabaseWrapper) -> None:
    django_effect("").objects.create(n=item.payload)  # type: ignore[attr-defined]


async def with_async_django(item: object, _connection: BaseDatabaseWrapper) -> None:
    await django_effect("").objects.acreate(n=item.payload)  # type: ignore[attr-defined]


def _async_maker(driver: str, handler: Callable[..., object]) -> Callable[[str], Sessions]:
    def build(dsn: str) -> Sessions:
        engine = create_async_engine(dsn.replace("postgresql://", f"postgresql+{driver}://"))
        return Sessions(async_sessionmaker(engine, expire_on_commit=False), handler, engine.dispose)

    return build


def _sync_maker(dsn: str) -> Sessions:
    engine = create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))

    async def close() -> None:
        engine.dispose()

    return Sessions(sessionmaker(engine), by_app_sync, close)


def _django(handler: Callable[..., object]) -> Callable[[str], Sessions]:
    def build(dsn: str) -> Sessions:
        django_effect(dsn)
        return Sessions(None, handler)

    return build


def _asyncpg_pool(dsn: str) -> Sessions:
    pool = asyncpg.create_pool(dsn, min_size=0, max_size=4)

    async def handler(item: object, conn) -> None:  # type: ignore[no-untyped-def]
        await with_asyncpg(item, conn)

    return Sessions(pool, handler, pool.close)


KINDS: dict[str, Callable[[str], Sessions]] = {
    "AsyncSession": lambda _dsn: Sessions(None, with_async_session),
    "AsyncSession-for-all": lambda _dsn: Sessions(AsyncSession, by_app),
    "Session": lambda _dsn: Sessions(None, with_session),
    "Session-for-all": lambda _dsn: Sessions(Session, by_app_sync),
    "async_sessionmaker-psycopg": _async_maker("psycopg", by_app),
    "async_sessionmaker-asyncpg": _async_maker("asyncpg", by_app),
    "sessionmaker": _sync_maker,
    "asyncpg": lambda _dsn: Sessions(None, with_asyncpg),
    "asyncpg-pool": _asyncpg_pool,
    "psycopg": lambda _dsn: Sessions(None, with_psycopg),
    "django": _django(with_django),
    "django-async": _django(with_async_django),
}


@dataclass
class Bench:
    """Runs the consumers and handlers of an application step by step on one database."""

    database: Target
    conn: Connection
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(self) -> None:
        self.pool, self.leases = create_pool(self.database, size=4), create_loop_pool(self.database, size=3)
        await self.stack.enter_async_context(self.pool)
        await self.stack.enter_async_context(self.leases)
        self.sources = Sources(self.pool, self.database)
        self.stack.push_async_callback(self.sources.close)

    def sessions(self, kind: str) -> Sessions:
        sessions = KINDS[kind](self.database.dsn)
        if sessions.close:
            self.stack.push_async_callback(sessions.close)
        return sessions

    async def runner(self, app: Headrace) -> ConsumerRunner:
        (consumer,) = app.consumers
        runner = ConsumerRunner(consumer, self.pool, Subscription("headrace_log"), StopSignal(), sources=self.sources)
        await runner.register()
        return runner

    def worker(self, app: Headrace) -> ActionWorker:
        queue = Queue(self.leases, namespace=None, node_id=uuid4())
        (pool,) = build_worker_pools(app.action_handlers.values())
        subscription = Subscription("headrace_action")
        return ActionWorker(pool, queue, self.pool, LeaseExtender(queue), subscription, StopSignal(), sources=self.sources)

    def effects(self) -> list[int]:
        return [row[0] for row in self.conn.execute("select n from effect order by n").fetchall()]


@pytest.fixture
async def bench(database: Target, conn: Connection) -> AsyncIterator[Bench]:
    conn.execute(CREATE)
    bench = Bench(database, conn)
    async with bench.stack:
        await bench.start()
        yield bench
