"""Site: what all requests share: databases, settings, templates, values that are read once for many, and the numbers of the charts.

Owns: one pool per shard, opened at the first use, because a mounted application gets no start event. Promises: a connection leaves
its transaction with the role and the limits it had before; a transaction for reading cannot write."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from threading import Lock, Thread
from time import monotonic, time
from typing import Any, TypeAlias, TypeVar

import psycopg
from jinja2 import Environment
from psycopg.types.json import set_json_loads
from psycopg_pool import ConnectionPool, PoolTimeout
from starlette.concurrency import run_in_threadpool

from headrace.core import DatabaseUnavailable, HeadraceError, NotFound, decode, map_database_errors, redact
from headrace.db import Connection, Target, connection_string
from headrace.web.console.login import ConsoleSettings

T = TypeVar("T")

CACHE_MAX = 500
JOBS_MAX = 100
"""Jobs that are kept; those that have ended go first."""
SAMPLES_KEEP_S = 1_800
SAMPLES_EVERY_S = 4.0
SERIES_MAX = 5_000
"""The series used least recently is forgotten beyond this."""
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
CHECK_S = 2.0
"""How often a process asks for what others have signed out."""
_log = logging.getLogger(__name__)


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


class EndedSessions:
    """Sessions that were signed out, by the SHA-256 of their random part: a copy of their cookie is worth nothing, in whichever process
    that serves the console.

    Owns: headrace_internal.ended_session, in the first of the console's databases. Promises: this process knows a sign-out at once, others
    within CHECK_S, and a process that is started later from its first request on. Where the database cannot be asked, what was known
    counts: without it there is nothing to see either."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases
        self._home = next(iter(databases.targets.values()))
        self._own: set[str] = set()
        self._known: frozenset[str] = frozenset()
        self._asked_at = float("-inf")

    async def includes(self, session_hash: str) -> bool:
        is_first = self._asked_at == float("-inf")
        if is_first or monotonic() - self._asked_at >= CHECK_S:
            if not is_first:
                # Before the question: requests that come meanwhile do not ask again. Before the first answer each one asks.
                self._asked_at = monotonic()
            try:
                self._known = await run_in_threadpool(self._read)
            except HeadraceError as error:
                if is_first:
                    _log.warning("sessions that were signed out elsewhere still count here: %s", error)
            self._asked_at = monotonic()
        return session_hash in self._own or session_hash in self._known

    def add(self, session_hash: str, ends_at: float) -> None:
        """Ends a session; in this process also if the database cannot be written."""
        self._own.add(session_hash)
        try:
            with self._databases.transaction(self._home, None, read_only=False) as conn:
                conn.execute(
                    "select headrace_internal.end_session(p_session_hash => %s, p_ends_at => %s)",
                    (session_hash, datetime.fromtimestamp(ends_at, UTC)),
                )
        except HeadraceError as error:
            _log.warning("a session was signed out in this process only: %s", error)

    def _read(self) -> frozenset[str]:
        with self._databases.transaction(self._home, None, read_only=True) as conn:
            return frozenset(row[0] for row in conn.execute("select headrace_internal.ended_sessions()"))


class Samples:
    """Numbers over time, by key: shard, role, namespace, and what was counted.

    They are recorded when a page is rendered, also while it is open and live. A console that was just started shows lines that grow
    from then on."""

    def __init__(self) -> None:
        self._series: OrderedDict[tuple[str, ...], deque[tuple[float, float]]] = OrderedDict()
        self._lock = Lock()

    def record(self, key: tuple[str, ...], values: Mapping[str, float], *, at: float | None = None) -> None:
        """Adds a sample of each value, unless the last one is younger than SAMPLES_EVERY_S."""
        at = at or time()
        with self._lock:
            for name, value in values.items():
                series = self._series.setdefault((*key, name), deque(maxlen=int(SAMPLES_KEEP_S / SAMPLES_EVERY_S)))
                self._series.move_to_end((*key, name))
                if not series or at - series[-1][0] >= SAMPLES_EVERY_S:
                    series.append((at, float(value)))
            while len(self._series) > SERIES_MAX:
                self._series.popitem(last=False)

    def values(self, *key: str) -> list[tuple[float, float]]:
        """The samples of a series: time and value."""
        with self._lock:
            return list(self._series.get(key, ()))

    def rates(self, *key: str) -> list[tuple[float, float]]:
        """The growth of a series per second, between samples."""
        samples = self.values(*key)
        return [
            (after[0], max(after[1] - before[1], 0) / (after[0] - before[0]))
            for before, after in pairwise(samples)
            if after[0] > before[0]
        ]


@dataclass
class Job:
    """Work that a page has started and looks at while it goes on: how far it is."""

    total: int = 0
    done: int = 0
    is_running: bool = True
    error: str | None = None

    @property
    def percent(self) -> int:
        return 100 if not self.total else self.done * 100 // self.total

    def run(self) -> None:
        """The work, in a thread of its own; an error of headrace ends it and is kept."""
        raise NotImplementedError

    def run_to_end(self) -> None:
        try:
            self.run()
        except HeadraceError as error:
            self.error = str(error)
        finally:
            self.is_running = False


class Jobs:
    """The jobs of this console, each in a thread of its own and found again by its key. A console that is stopped leaves the rest undone."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[object, ...], Job] = {}
        self._lock = Lock()

    def find(self, key: tuple[object, ...]) -> Job | None:
        """The last job of a key since this console started."""
        with self._lock:
            return self._jobs.get(key)

    def start(self, key: tuple[object, ...], job: Job, *, running_max: int = JOBS_MAX) -> bool:
        """Runs a job in a thread. False if the job of this key runs, or too many of its class."""
        with self._lock:
            ended = [name for name, other in self._jobs.items() if not other.is_running]
            running = sum(other.is_running and isinstance(other, type(job)) for other in self._jobs.values())
            if (key in self._jobs and key not in ended) or running >= running_max:
                return False
            for old in ended[: max(0, len(self._jobs) - JOBS_MAX + 1)]:
                del self._jobs[old]
            self._jobs[key] = job
        Thread(target=job.run_to_end, name="headrace console job", daemon=True).start()
        return True


@dataclass(frozen=True)
class Link:
    """An entry of the sidebar; `key` opens the page after `g`."""

    label: str
    path: str
    key: str


Navigation: TypeAlias = Sequence[tuple[str, Sequence[Link]]]
"""Groups of entries: heading and links."""


@dataclass
class _Cached:
    """A value that requests share. The lock is held while it is built: others wait instead of building it too."""

    lock: Lock = field(default_factory=Lock)
    at: float = float("-inf")
    value: Any = None


class Site:
    def __init__(self, databases: Databases, settings: ConsoleSettings, templates: Environment, navigation: Navigation) -> None:
        self.databases = databases
        self.ended_sessions = EndedSessions(databases)
        self.settings = settings
        self.templates = templates
        self.navigation = navigation
        self.samples = Samples()
        self.jobs = Jobs()
        self._cache: dict[tuple[object, ...], _Cached] = {}
        self._lock = Lock()

    def cached(self, key: tuple[object, ...], seconds: float, build: Callable[[], T]) -> T:
        """A value that is built again when it is older than this number of seconds. Ten open consoles ask the database once."""
        with self._lock:
            if key not in self._cache and len(self._cache) >= CACHE_MAX:
                self._cache.clear()
            entry = self._cache.setdefault(key, _Cached())
        with entry.lock:
            now = monotonic()
            if now - entry.at >= seconds:
                entry.value, entry.at = build(), now
            return entry.value  # type: ignore[no-any-return]
