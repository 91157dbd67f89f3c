"""Databases of the console: connections that act as the role of a person.

Owns: one pool per shard, opened at the first use, because a mounted application gets no start event. Promises: a connection leaves
its transaction with the role and the limits it had before; a transaction for reading cannot write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from time import monotonic

import psycopg
from psycopg.types.json import set_json_loads
from psycopg_pool import ConnectionPool, PoolTimeout

from headrace.core import DatabaseUnavailable, HeadraceError, NotFound, decode, map_database_errors, redact
from headrace.db import Connection, Target, connection_string

STATEMENT_TIMEOUT = "10s"
"""A page that takes longer is an error: it must not hold a connection that others wait for."""
CHANGE_TIMEOUT = "60s"
WAIT_S = 5.0
DOWN_S = 5.0
"""A shard that could not be reached is not tried again for this time: a page reads from it several times."""

# The role comes last: it may not be allowed to do the rest.
_BEGIN = """
select set_config('transaction_read_only', %(read_only)s, true), set_config('statement_timeout', %(limit)s, true),
    set_config('search_path', 'pg_catalog, pg_temp', true), set_config('role', %(role)s, true)"""


class Databases:
    """The shards, by name."""

    def __init__(self, targets: Sequence[Target], *, pool_size: int) -> None:
        self.targets = {target.name: target for target in targets}
        self._size = pool_size
        self._pools: dict[str, ConnectionPool[Connection]] = {}
        self._down_until: dict[str, float] = {}
        self._lock = Lock()

    def target(self, name: str) -> Target:
        if name not in self.targets:
            raise NotFound(f"there is no shard {name!r}; there are: {', '.join(self.targets)}")
        return self.targets[name]

    @contextmanager
    def transaction(self, target: Target, role: str | None, *, read_only: bool) -> Iterator[Connection]:
        """A transaction as a role. Raises DatabaseUnavailable if the shard is unreachable."""
        pool = self._pool(target)
        try:
            if monotonic() < self._down_until.get(target.name, 0):
                raise PoolTimeout
            with pool.connection(timeout=WAIT_S) as conn, map_database_errors(), conn.transaction():
                limit = STATEMENT_TIMEOUT if read_only else CHANGE_TIMEOUT
                conn.execute(_BEGIN, {"read_only": "on" if read_only else "off", "limit": limit, "role": role or "none"})
                yield conn
        except PoolTimeout as error:
            # Without any connection the server is away; otherwise others use them all.
            if not pool.get_stats().get("pool_size") and self._down_until.get(target.name, 0) <= monotonic():
                self._down_until[target.name] = monotonic() + DOWN_S
            raise DatabaseUnavailable(
                f"database {target}: no connection within {WAIT_S:.0f} s; check that PostgreSQL runs there"
            ) from error
        except psycopg.errors.QueryCanceled as error:
            limit = STATEMENT_TIMEOUT if read_only else CHANGE_TIMEOUT
            raise HeadraceError(f"database {target}: a statement took longer than {limit}; select less, or try again") from error
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(f"database {target}: {' '.join(str(error).split())}") from error
        except psycopg.Error as error:
            raise HeadraceError(f"PostgreSQL reports: {redact(str(error).strip())}") from error

    def close(self) -> None:
        with self._lock:
            for pool in self._pools.values():
                pool.close()
            self._pools.clear()

    def _pool(self, target: Target) -> ConnectionPool[Connection]:
        with self._lock:
            if target.name not in self._pools:
                self._pools[target.name] = ConnectionPool(
                    connection_string(target, application_name="headrace console"),
                    min_size=0,
                    max_size=self._size,
                    configure=lambda conn: set_json_loads(decode, conn),
                    kwargs={"autocommit": True, "prepare_threshold": None},
                    reconnect_timeout=WAIT_S,
                    open=True,
                )
            return self._pools[target.name]
