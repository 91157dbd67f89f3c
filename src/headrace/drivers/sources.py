"""Sources: where the transactions of handlers come from, for one database.

Without an engine or pool of the application, they come from the node's own pool. Promises: a source of the application is used only
if it leads to the same database as the node; otherwise handlers and cursors would not share a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.core import Invalid, NotMigrated
from headrace.db import Pool, Target, map_error
from headrace.drivers.psycopg import NodeSource
from headrace.drivers.registry import load
from headrace.drivers.sessions import ASYNCPG, TransactionSource

IDENTITY = "select current_database()::text, headrace.log_epoch(), extract(epoch from pg_postmaster_start_time())::text"
"""Which database of which server this is. A server that was started from a copy of the disk has the same identifier as the first."""


class Sources:
    """The sources of transactions that the handlers of a node use on one database."""

    def __init__(self, pool: Pool, target: Target | None = None) -> None:
        self._pool = pool
        self._target = target
        self._by_option: dict[int, TransactionSource] = {id(None): NodeSource(pool)}
        self._own_pools: list[Any] = []

    def source(self, option: Any) -> TransactionSource:
        """The source for what a handler's request says; raises Invalid."""
        # Compare by identity: a mapping is not hashable, and two engines are never the same source.
        if id(option) not in self._by_option:
            self._by_option[id(option)] = self._create(self._of_shard(option))
        return self._by_option[id(option)]

    def _of_shard(self, option: Any) -> Any:
        if not isinstance(option, Mapping):
            return option
        name = self._target.name if self._target else ""
        if name not in option:
            raise Invalid(f"session: there is no session for database {name!r}, only for {', '.join(option)}; add one")
        return option[name]

    def _create(self, option: Any) -> TransactionSource:
        path, argument = "headrace.drivers.sqlalchemy:EngineSource", option
        if option == ASYNCPG:
            dsn = self._target.dsn if self._target else str(self._pool.conninfo)
            argument = load("headrace.drivers.asyncpg:own_pool")(dsn, size=self._pool.max_size)
            self._own_pools.append(argument)
        if hasattr(argument, "acquire"):
            path = "headrace.drivers.asyncpg:AsyncpgSource"
        source: TransactionSource = load(path)(argument)
        return source

    async def check(self, options: Iterable[Any]) -> None:
        """Raises Invalid if one of the application's own sources leads to another database than the node's."""
        foreign = [option for option in options if option is not None and not isinstance(option, str)]
        if not foreign:
            return
        async with self._pool.connection() as conn:
            expected = await (await conn.execute(IDENTITY)).fetchone()
        for option in foreign:
            identity = await self._identity(self.source(option))
            if identity != expected:
                where = f"another database ({identity[0]!r})" if identity else "a database without headrace"
                raise Invalid(
                    f"session: the application's engine leads to {where}, but its handlers run on {self._target}; handlers and "
                    "cursors must share a transaction. Give the engine the same address (in a test, bind the sessionmaker to the "
                    "test's database: docs/howto/testing.md), a mapping from the name of each shard to its sessionmaker, or the "
                    "class AsyncSession or Session, whose sessions use the node's own connections"
                )

    async def _identity(self, source: TransactionSource) -> tuple[Any, ...] | None:
        """None if the database has no headrace."""
        try:
            async with source.connect() as conn:
                (row,) = await conn.begin(IDENTITY)
                await conn.rollback()
        except Exception as error:
            if not isinstance(map_error(error), NotMigrated):
                raise
            return None
        return row

    async def close(self) -> None:
        """Closes the pools that are headrace's own."""
        for own in self._own_pools:
            await own.close()
