"""Databases of the web application: pools and listeners, opened at the first use, because a mounted application gets no start event.

Promises: sessions are pinned as those of a node's loops; what hangs ends after STATEMENT_S; a request waits in line for a connection,
the line of each namespace is bounded, and namespaces take turns. Look-ups come from a short-lived cache: clients that ask for what is not
there neither load the database nor stand in the way of anybody at another address, nor of what is known to exist."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Generic, TypeVar

import psycopg

from headrace.core import DatabaseUnavailable, Event, HeadraceError, Invalid, NamespaceTurns, TokenBucket, TokenBuckets
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
from headrace.web.http.request import too_many, unavailable
from headrace.web.http.settings import IngestSettings

WAIT_S = 5.0
"""How long a request waits for a connection."""
LOG_CHANNEL = "headrace_log"
NOBODY = ""
"""The namespace of look-ups, before a request has one."""
T = TypeVar("T")
V = TypeVar("V")
UNKNOWN_PER_S = 50.0
"""Looks into the database for tokens and hooks that are not known to exist, per second and address of a client."""
ENTRIES_MAX = 10_000
GATHER_S = 0.25
"""How long look-ups beyond that are gathered, to be one statement."""
GATHERED_MAX = 2_000


STATEMENT_S, LOCK_S = 15, 5


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
            with self._waiting_turn(namespace):
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
    def _waiting_turn(self, namespace: str) -> Iterator[None]:
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
            # Open it only now: many servers are never read from.
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

    def for_shard(self, shard: str | None) -> Database:
        """The database to read from. Raises Invalid if there are several and none is named."""
        if shard is None and len(self.all) == 1:
            return self.all[0]
        if shard not in self._by_name:
            raise Invalid(f"there are the shards {', '.join(self._by_name)}, each with its own log; add ?shard=… to read one")
        return self._by_name[shard]

    def for_events(self, events: Sequence[Event]) -> Database:
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


def client_address(host: str | None) -> str:
    """What counts as one address: all of an IPv6 network of 64 bits, which one client usually has for itself."""
    try:
        address = ip_address((host or "").partition("%")[0])
    except ValueError:
        return host or ""
    if isinstance(address, IPv4Address) or address.ipv4_mapped is not None:
        return str(address)
    return str(IPv6Network((int(address), 64), strict=False))


class GatheredLookUps(Generic[T]):
    """Looks many keys up by one statement every GATHER_S, whoever asks: so they cost little, and may come in any number."""

    def __init__(self, look_up_all: Callable[[Sequence[bytes]], Awaitable[Mapping[bytes, T]]]) -> None:
        self._look_up_all = look_up_all
        self._keys: set[bytes] = set()
        self._next: asyncio.Task[Mapping[bytes, T]] | None = None

    async def get(self, key: bytes) -> T | None:
        if len(self._keys) >= GATHERED_MAX:
            return None
        self._keys.add(key)
        if self._next is None:
            self._next = asyncio.create_task(self._gather(), name="gathered look-ups")
        # Shielded: whoever began it may go away, the others want the answer.
        return (await asyncio.shield(self._next)).get(key)

    async def _gather(self) -> Mapping[bytes, T]:
        await asyncio.sleep(GATHER_S)
        keys, self._keys, self._next = list(self._keys), set(), None
        return await self._look_up_all(keys)


class LookupCache(Generic[T]):
    """Rows by key, kept for a few seconds; concurrent look-ups of a key are one. Rows that are not there are kept, too, and looking for
    them is limited by address. They are kept apart: however many there are, they do not displace what exists."""

    def __init__(self, keep_s: float, unknown: TokenBuckets | None = None) -> None:
        """`unknown`: a bucket for each address, which several caches may share. Without it nothing is limited."""
        self._keep_s = keep_s
        self._unknown = unknown
        self._known: OrderedDict[object, tuple[float, T]] = OrderedDict()
        self._missing: OrderedDict[object, float] = OrderedDict()
        self._running: dict[object, asyncio.Task[T | None]] = {}

    async def get(
        self,
        key: object,
        look_up: Callable[[], Awaitable[T | None]],
        *,
        address: str = "",
        gathered: Callable[[], Awaitable[T | None]] | None = None,
    ) -> T | None:
        """The row of a key. If the address asked for too many unknown keys, it comes by `gathered`, which may take a moment; raises
        Problem (429) if it is not there then, or without `gathered`."""
        kept_since = time.monotonic() - self._keep_s
        known = self._known.get(key)
        if known is not None and known[0] > kept_since:
            return known[1]
        if self._missing.get(key, kept_since) > kept_since:
            return None
        task = self._running.get(key)
        if task is None:
            bucket = self._unknown.for_client(address, UNKNOWN_PER_S) if known is None and self._unknown is not None else None
            if bucket is not None and (wait_s := bucket.wait_s()):
                return await self._get_gathered(key, gathered, wait_s)
            if bucket is not None:
                bucket.take(1)
            task = self._running[key] = asyncio.create_task(
                self._look_up(key, look_up, bucket), name="look-up of a token or hook"
            )
            task.add_done_callback(partial(self._end, key))
        # Shielded: whoever began it may go away, the others want the answer.
        return await asyncio.shield(task)

    def _end(self, key: object, task: asyncio.Task[T | None]) -> None:
        del self._running[key]
        # Nobody may be left to see the error.
        _ = task.cancelled() or task.exception()

    async def _get_gathered(self, key: object, gathered: Callable[[], Awaitable[T | None]] | None, wait_s: float) -> T:
        row = await gathered() if gathered else None
        if row is None:
            raise too_many(
                f"more than {UNKNOWN_PER_S:g} unknown access tokens or hooks per second were asked for from this address; "
                f"try again in {wait_s:.1f} s",
                wait_s,
            )
        _keep(self._known, key, (time.monotonic(), row))
        return row

    async def _look_up(self, key: object, look_up: Callable[[], Awaitable[T | None]], bucket: TokenBucket | None) -> T | None:
        is_missing = False
        try:
            row = await look_up()
            is_missing = row is None
        finally:
            if bucket is not None and not is_missing:
                # Only look-ups that find nothing count against the limit: a database that is down is not the client's fault.
                bucket.give_back(1)
        if row is None:
            self._known.pop(key, None)
            _keep(self._missing, key, time.monotonic())
        else:
            _keep(self._known, key, (time.monotonic(), row))
        return row


def _keep(entries: OrderedDict[object, V], key: object, value: V) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > ENTRIES_MAX:
        entries.popitem(last=False)
