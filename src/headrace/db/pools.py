"""Pools of connections, and how a node divides its connections to one database.

Promises: a node never has more connections to a database than its budget, however many consumers and handlers it has. Slow handlers
never keep the loops waiting; consumers and actions always leave each other one; long steps of the loops (a large batch of
a correlator) leave some for the short ones: sequencer, leases, heartbeat.

Loops and handlers have a pool each, because their sessions differ: a loop's settings are pinned, a handler finds those of its
database. One pool would have to set them in every transaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from psycopg.types.json import set_json_loads

from headrace.core import Invalid, decode, encode
from headrace.db.connections import (
    NODE_PARAMETERS,
    AsyncConnection,
    CancelSafeConnection,
    Target,
    connect_async,
    conninfo,
)
from headrace.db.sql_files import query

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

OwnPool: TypeAlias = "AsyncConnectionPool[AsyncConnection]"
Pool: TypeAlias = "OwnPool | PoolShare"

CONNECTIONS = 10
"""Connections of a node to each of its databases, unless it is started with another number."""
CONNECTIONS_MIN = 5
RELAY_CONNECTIONS = 10
"""Connections that deliveries of relays may hold beside that, unless a node is started with another number. A delivery holds one for
as long as the target takes, so each relay needs one of its own; they are opened when relays need them."""
LISTENER = 1
SHORT_STEPS = 2
"""Connections that long steps of the loops leave for the short ones, if there are more than two."""
LOOPS_MIN, LOOPS_MAX = 4, 14
"""Sequencer, schedules, maintenance and heartbeat use one each at a time, rules two, correlators three, leases five."""
LEASES_MIN, LEASES_MAX = 2, 6
"""The same for a node that leaves sequencer and rules to others: heartbeat and leases."""
WAIT_S = 15.0

# They do what NODE_PARAMETERS do, but on the server, where the transactions of a vanished node hold their locks.
_NODE_SETTINGS = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
# Loops never inherit these from the database, the role or the server. A loop's statement takes milliseconds, a large batch of
# a correlator seconds: these limits only end what hangs. Except for locks: a role of one namespace may hold those on its rows for as
# long as it likes, and the loop that waits for one serves the other namespaces, too.
_LOOP_LIMITS = {
    "lock_timeout": "500ms",
    "statement_timeout": "10min",
    "idle_in_transaction_session_timeout": "60s",
}
# The address may change the limits, but not these: another search_path can replace our functions by those of other roles, another
# isolation level shows the sequencer an old outbox, and compiling a query takes longer than any query of an idle loop.
_LOOP_SESSION = {
    "search_path": "pg_catalog, pg_temp",
    "default_transaction_isolation": "read committed",
    "jit": "off",
}


@dataclass(frozen=True, kw_only=True)
class ConnectionBudget:
    """The most connections of a node to one database: one that listens, those of the loops, and those of the handlers."""

    loops: int
    handlers: int

    @property
    def total(self) -> int:
        return LISTENER + self.loops + self.handlers

    def share_of_long_steps(self) -> int:
        return max(self.loops - SHORT_STEPS, 1)


def divide_connections(connections: int, *, handlers: int, sequencer: bool = True) -> ConnectionBudget:
    """Divides a budget. `handlers`: how many batches the node would handle at once if it had any number of connections.

    Raises Invalid for a budget that is too small."""
    if connections < CONNECTIONS_MIN:
        raise Invalid(
            f"{connections} connections are too few: a node needs at least {CONNECTIONS_MIN}, one to listen, two for its loops and "
            "two for its handlers; raise --connections"
        )
    rest = connections - LISTENER
    loops_min, loops_max = (LOOPS_MIN, LOOPS_MAX) if sequencer else (LEASES_MIN, LEASES_MAX)
    loops = max(min(loops_min, (rest + 1) // 2), min(loops_max, rest // 3))
    handler_connections = max(1, min(handlers, rest - loops))
    return ConnectionBudget(loops=min(loops_max, rest - handler_connections), handlers=handler_connections)


class PoolShare:
    """Some connections of a pool that others use, too: at most `size_max` of them at a time, first come, first served."""

    def __init__(self, pool: OwnPool, size_max: int, *, name: str, wait_s: float | None = None) -> None:
        """If all have been in use for `wait_s` without a change, who waits gets PoolTimeout; by default nobody does, and only the
        pool's own limit counts."""
        self._pool = pool
        self._size_max = size_max
        self._name = name
        self._wait_s = wait_s
        self._free = asyncio.Semaphore(size_max)
        self._released_at = 0.0

    @property
    def conninfo(self) -> str:
        """The address of the pool."""
        return str(self._pool.conninfo)

    @property
    def max_size(self) -> int:
        """How many connections of the pool may be in use through this share."""
        return self._size_max

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """A connection for the block; what its transaction did is rolled back if the block raises."""
        await self._acquire()
        try:
            async with self._pool.connection() as conn:
                yield conn
        finally:
            self._release()

    async def getconn(self) -> AsyncConnection:
        """A connection to give back with `putconn`."""
        await self._acquire()
        try:
            return await self._pool.getconn()
        except BaseException:
            self._release()
            raise

    async def putconn(self, conn: AsyncConnection) -> None:
        self._release()
        await self._pool.putconn(conn)

    def _release(self) -> None:
        self._released_at = time.monotonic()
        self._free.release()

    async def _acquire(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._wait_s):
                    await self._free.acquire()
                return
            except TimeoutError:
                # A long queue that moves is only a busy node.
                if self._wait_s is not None and time.monotonic() - self._released_at >= self._wait_s:
                    raise self._timeout() from None

    def _timeout(self) -> Exception:
        from psycopg_pool import PoolTimeout

        return PoolTimeout(
            f"{self._name} found no free connection for {self._wait_s:.0f} s: slow handlers hold all {self._size_max}; "
            "raise --connections, or shorten their transactions"
        )


def create_loop_pool(target: Target, *, size: int, settings: Mapping[str, str] | None = None) -> OwnPool:
    """A pool for loops: what runs on it depends neither on the settings of database and role nor on what others create there."""
    return _create_pool(target, size, {**(settings or {}), **_LOOP_SESSION}, _LOOP_LIMITS)


async def connect_loop(target: Target) -> AsyncConnection:
    """A connection for a loop, like those of `create_loop_pool`; the caller closes it."""
    conn = await connect_async(target)
    await _configure(conn, _LOOP_SESSION, _LOOP_LIMITS)
    return conn


def create_pool(target: Target, *, size: int, settings: Mapping[str, str] | None = None) -> OwnPool:
    """A pool of asynchronous connections in autocommit mode, not opened yet. Broken connections are replaced.

    For handlers, which expect the search_path and the limits of their database. `settings` are set on every connection."""
    return _create_pool(target, size, settings or {}, {})


async def _configure(conn: AsyncConnection, settings: Mapping[str, str], limits: Mapping[str, str]) -> None:
    """By a statement and not by startup options, which PgBouncer does not pass on. Closes the connection if it fails or is
    cancelled: nobody else has it yet."""
    parameters = {"settings": encode(settings), "limits": encode(limits), "defaults": encode(_NODE_SETTINGS)}
    try:
        await conn.execute(query("db/configure"), parameters)
    except BaseException:
        await conn.close()
        raise


def _create_pool(target: Target, size: int, settings: Mapping[str, str], limits: Mapping[str, str]) -> OwnPool:
    from psycopg_pool import AsyncConnectionPool

    async def configure(conn: AsyncConnection) -> None:
        set_json_loads(decode, conn)
        await _configure(conn, settings, limits)

    return AsyncConnectionPool(
        conninfo(target, NODE_PARAMETERS),
        connection_class=CancelSafeConnection,
        min_size=1,
        max_size=size,
        open=False,
        configure=configure,
        kwargs={"autocommit": True},
        # The loops retry by themselves; a pool that waited longer would hide an outage from them.
        reconnect_timeout=5,
        timeout=WAIT_S,
    )
