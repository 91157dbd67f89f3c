"""Databases of the web application: pools and listeners, opened at the first use, because a mounted application gets no start event.

Promises: sessions are pinned as those of a node's loops; what hangs ends after STATEMENT_S; a request waits in line for a connection,
the line of each namespace is bounded, and namespaces take turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

import psycopg

from headrace.core import DatabaseUnavailable, Event, HeadraceError, Invalid, NamespaceTurns
from headrace.db import (
    AsyncConnection,
    Listener,
    Shards,
    Subscription,
    Target,
    cancel_tasks,
    check_node_database,
    create_loop_pool,
    error_line,
)
from headrace.web.http.problems import unavailable
from headrace.web.http.settings import IngestSettings

STATEMENT_S, LOCK_S = 15, 5
WAIT_S = 5.0
"""How long a request waits for a connection."""
LOG_CHANNEL = "headrace_log"
NOBODY = ""
"""The namespace of look-ups, before a request has one."""


class NotificationCount(Subscription):
    """Counts notifications. Added first, it has counted one before any other subscriber wakes up."""

    def __init__(self, channel: str) -> None:
        super().__init__(channel)
        self.count = 0

    def notify(self, names: Collection[str] = ()) -> None:
        self.count += 1


class ConnectionLine:
    """A pool, and the bounded lines of requests that wait for a connection of it. Namespaces take turns; one connection more than `size`
    is for those that have none, so that slow requests of one namespace never hold them all."""

    def __init__(self, target: Target, size: int, waiting_max: int) -> None:
        limits = {"statement_timeout": f"{STATEMENT_S}s", "lock_timeout": f"{LOCK_S}s"}
        self.pool = create_loop_pool(target, size=size + 1, settings=limits)
        self._turns = NamespaceTurns(size + 1, reserve=1)
        self._waiting_max = waiting_max
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def connection(self, namespace: str) -> AsyncIterator[AsyncConnection]:
        async with AsyncExitStack() as stack:
            with self._place_in_line(namespace):
                try:
                    async with asyncio.timeout(WAIT_S):
                        await stack.enter_async_context(self._turns.turn(namespace))
                except TimeoutError:
                    raise unavailable(
                        f"no connection to the database was free within {WAIT_S:g} s; nothing was done, try again"
                    ) from None
                conn = await self.pool.getconn(timeout=WAIT_S)
            try:
                yield conn
            finally:
                await self.pool.putconn(conn)

    @contextmanager
    def _place_in_line(self, namespace: str) -> Iterator[None]:
        if self._waiting[namespace] >= self._waiting_max:
            raise unavailable(f"{self._waiting[namespace]} requests wait for the database already; nothing was done, try again")
        self._waiting[namespace] += 1
        try:
            yield
        finally:
            self._waiting[namespace] -= 1
            if not self._waiting[namespace]:
                del self._waiting[namespace]


class Database:
    """One shard. Publishing and reading have connections of their own: neither waits for the other."""

    def __init__(self, target: Target, settings: IngestSettings) -> None:
        self.target = target
        self._publishing = ConnectionLine(target, settings.connections, settings.waiting_max)
        self._reading = ConnectionLine(target, settings.reader_connections, settings.waiting_max)
        self.listener = Listener(target)
        self.notifications = self.listener.add(NotificationCount(LOG_CHANNEL))
        self._lock = asyncio.Lock()
        self._listening: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def connection(self, namespace: str) -> AsyncIterator[AsyncConnection]:
        """A connection in autocommit mode, to publish and to look up. Raises DatabaseUnavailable, or Problem if too many requests of the
        namespace wait."""
        if self._listening is None:
            await self._open()
        async with self._publishing.connection(namespace) as conn:
            yield conn

    @asynccontextmanager
    async def reader_connection(self, namespace: str) -> AsyncIterator[AsyncConnection]:
        """The same, to read logs."""
        if self._listening is None:
            await self._open()
        if self._reading.pool.closed:
            # Only now: many servers are never read from.
            async with self._lock:
                await self._reading.pool.open()
        async with self._reading.connection(namespace) as conn:
            yield conn

    async def _open(self) -> None:
        async with self._lock:
            if self._listening is not None:
                return
            try:
                await check_node_database(self.target)
            except psycopg.OperationalError as error:
                raise DatabaseUnavailable(f"database {self.target}: {error_line(error)}; try again") from error
            await self._publishing.pool.open()
            self._listening = asyncio.create_task(self.listener.run(), name=f"listener of {self.target}")

    async def close(self) -> None:
        if self._listening is not None:
            await cancel_tasks(self._listening)
            self._listening = None
            await self._publishing.pool.close()
            await self._reading.pool.close()


class Databases:
    """The shards, by name."""

    def __init__(self, targets: Sequence[Target], settings: IngestSettings) -> None:
        self._shards = Shards(targets)
        self.all = [Database(target, settings) for target in self._shards.targets]
        self._by_name = {database.target.name: database for database in self.all}

    def named(self, shard: str | None) -> Database:
        """The database to read from. Raises Invalid if there are several and none is named."""
        if shard is None and len(self.all) == 1:
            return self.all[0]
        if shard not in self._by_name:
            raise Invalid(f"there are the shards {', '.join(self._by_name)}, each with its own log; add ?shard=… to read one")
        return self._by_name[shard]

    def of_events(self, events: Sequence[Event]) -> Database:
        """The database that the events of a request belong to: by key, without one by id. Raises Invalid if there are several."""
        if len(self.all) == 1:
            return self.all[0]
        names = {self._shards.shard_of(event.key or str(event.id)).name for event in events}
        if len(names) > 1:
            raise Invalid(
                f"the events of the batch belong to {len(names)} shards ({', '.join(sorted(names))}), and a batch is one transaction; "
                "send one batch per shard, or events of one key"
            )
        return self._by_name[names.pop()]

    async def close(self) -> None:
        for database in self.all:
            with suppress(HeadraceError, psycopg.Error):
                await database.close()
