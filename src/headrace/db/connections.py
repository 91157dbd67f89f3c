"""The addresses of the databases, and connections to them.

Owns: HEADRACE_DSN, DATABASE_URL and the folder of the embedded server. If no database is configured, the embedded PostgreSQL is
started in a data folder and keeps running, so that several commands share it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads

from headrace.core import DatabaseUnavailable, Invalid, decode, encode
from headrace.db.budget import WAIT_S, PoolShare
from headrace.db.dsn import read_dsn, strip_driver
from headrace.db.pooler import is_pooled
from headrace.db.server import Server
from headrace.db.sql_files import query

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection as ArrowConnection
    from psycopg_pool import AsyncConnectionPool

Connection: TypeAlias = psycopg.Connection[TupleRow]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[TupleRow]
OwnPool: TypeAlias = "AsyncConnectionPool[AsyncConnection]"
Pool: TypeAlias = "OwnPool | PoolShare"

APPLICATION_NAME = "headrace"

_PARAMETERS: Mapping[str, str | int] = {
    "fallback_application_name": APPLICATION_NAME,
    "connect_timeout": 10,
    # A peer that vanishes without closing the connection is noticed after 25 s; by default it takes two hours.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
# Keepalives pause while data waits to be sent, and the system retries that for 15 minutes. Only for nodes, which can start again:
# the timeout also ends a connection whose live peer reads nothing for this long, as a server may during a command's large COPY.
_NODE_PARAMETERS = {**_PARAMETERS, "tcp_user_timeout": 30_000}
# The same on the server, where the transactions of a vanished node hold their locks.
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
# The address may change the limits, but not these: another search_path can replace our functions by those of a stranger,
# another isolation level shows the sequencer an old outbox, and compiling a query takes longer than any query of an idle loop.
_LOOP_SESSION = {
    "search_path": "pg_catalog, pg_temp",
    "default_transaction_isolation": "read committed",
    "jit": "off",
}


@dataclass(frozen=True)
class Target:
    """One database: the only one, or one of several shards."""

    name: str
    dsn: str = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dsn", strip_driver(self.dsn))

    def __str__(self) -> str:
        """Without the password, for messages."""
        parts = read_dsn(self.dsn, self.name)
        return f"{self.name} ({parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')})"


PROJECT_FOLDER = ".headrace"
SERVER_FOLDER = "pg18"
"""In the data folder; beside it are the demo and other things of the project."""


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The data folder of the embedded server: HEADRACE_DATA, else the project's, `.headrace` in the current folder or in the
    nearest one above that has it."""
    if data := environ.get("HEADRACE_DATA"):
        return Path(data)
    here = Path.cwd()
    folders = [_project_data(project) for project in (here, *here.parents)]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def _project_data(project: Path) -> Path:
    if os.geteuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in (project, *project.parents)):
        # The server runs as another user, who cannot enter a private folder of root's.
        return Path("/var/lib/headrace") / sha256(str(project).encode()).hexdigest()[:12]
    return project / PROJECT_FOLDER


def embedded_server(environ: Mapping[str, str] = os.environ) -> Server:
    """The embedded PostgreSQL, which is used if no database is configured. Not started."""
    return Server(data_folder(environ) / SERVER_FOLDER)


def configured_targets(environ: Mapping[str, str] = os.environ) -> list[Target]:
    """The configured databases; without configuration the embedded one, which is started.

    HEADRACE_DSN (or DATABASE_URL) holds one address, or several shards as `name=address`, separated by white space."""
    configured = environ.get("HEADRACE_DSN") or environ.get("DATABASE_URL")
    if configured:
        return parse_targets(configured)
    server = embedded_server(environ)
    if server.pid is None:
        # Not only in a log that somebody has configured: whoever runs a command in another folder gets another database.
        logger.warning("starting the embedded PostgreSQL of this project; its data is in %s", server.folder.parent)
    server.start()
    return [Target("embedded", server.dsn())]


def _only_target() -> Target:
    targets = configured_targets()
    if len(targets) > 1:
        names = ", ".join(target.name for target in targets)
        raise Invalid(f"HEADRACE_DSN names {len(targets)} shards ({names}); pass the one to connect to, or use headrace.Shards")
    return targets[0]


def parse_targets(text: str) -> list[Target]:
    """One address, or several named ones. A key=value connection string is one address."""
    shards = [word.partition("=") for word in text.split()]
    if not all("://" in dsn and "://" not in name for name, _, dsn in shards):
        return [_check_dsn(Target("main", text.strip()))]
    names = [name for name, _, _ in shards]
    if len(set(names)) < len(names):
        raise Invalid(f"HEADRACE_DSN names a shard twice: {', '.join(names)}; give every shard its own name")
    return [_check_dsn(Target(name, dsn)) for name, _, dsn in shards]


def _check_dsn(target: Target) -> Target:
    read_dsn(target.dsn, target.name)
    return target


def _conninfo(target: Target, parameters: Mapping[str, str | int]) -> str:
    """The address with those of the parameters that it does not set itself."""
    return make_conninfo("", **{**parameters, **read_dsn(target.dsn, target.name)})


def connection_string(target: Target, *, application_name: str = APPLICATION_NAME) -> str:
    """The address with our connection parameters, for drivers that connect by themselves. The address's own values win."""
    return _conninfo(target, {**_PARAMETERS, "fallback_application_name": application_name})


@contextmanager
def connect(target: Target | None = None) -> Iterator[Connection]:
    """A connection in autocommit mode; use `conn.transaction()` for transactions. Without a target to the configured database, else to
    the embedded one, which is started; raises Invalid if several shards are configured."""
    target = target or _only_target()
    with map_connection_errors(target):
        conn = psycopg.connect(connection_string(target), autocommit=True)
    set_json_loads(decode, conn)
    with conn:
        if is_pooled(conn):
            # The next transaction may run on another backend, which does not know our prepared statements.
            conn.prepare_threshold = None
        yield conn


def connect_arrow(target: Target, *, application_name: str) -> ArrowConnection:
    """A connection of the Arrow driver, in a transaction; the caller closes it. Raises ImportError if it is not installed."""
    from adbc_driver_postgresql import dbapi  # type: ignore[import-untyped]

    with map_connection_errors(target):
        conn: ArrowConnection = dbapi.connect(connection_string(target, application_name=application_name))
    return conn


@contextmanager
def map_connection_errors(database: Target | str) -> Iterator[None]:
    """Raises DatabaseUnavailable for a connection error without a SQLSTATE, that is, without an answer of the server."""
    try:
        yield
    except _operational_errors() as error:
        if error.sqlstate:
            raise
        # libpq's message names host and port, never the password.
        raise DatabaseUnavailable(
            f"cannot reach database {database}: {' '.join(str(error).split())}; check that PostgreSQL runs there, and the address "
            "in --dsn, HEADRACE_DSN or DATABASE_URL"
        ) from error


def _operational_errors() -> tuple[type[psycopg.OperationalError], ...]:
    """Those of the drivers in use: a driver that was never imported raises nothing."""
    arrow = sys.modules.get("adbc_driver_manager.dbapi")
    return (psycopg.OperationalError, *([arrow.OperationalError] if arrow else []))


async def connect_async(target: Target) -> AsyncConnection:
    """An asynchronous connection in autocommit mode; the caller closes it."""
    conn = await psycopg.AsyncConnection.connect(_conninfo(target, _NODE_PARAMETERS), autocommit=True)
    set_json_loads(decode, conn)
    return conn


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
    """By a statement and not by startup options, which PgBouncer does not pass on."""
    parameters = {"settings": encode(settings), "limits": encode(limits), "defaults": encode(_NODE_SETTINGS)}
    await conn.execute(query("db/configure"), parameters)


def _create_pool(target: Target, size: int, settings: Mapping[str, str], limits: Mapping[str, str]) -> OwnPool:
    from psycopg_pool import AsyncConnectionPool

    async def configure(conn: AsyncConnection) -> None:
        set_json_loads(decode, conn)
        await _configure(conn, settings, limits)

    return AsyncConnectionPool(
        _conninfo(target, _NODE_PARAMETERS),
        min_size=1,
        max_size=size,
        open=False,
        configure=configure,
        kwargs={"autocommit": True},
        # The loops retry by themselves; a pool that waited longer would hide an outage from them.
        reconnect_timeout=5,
        timeout=WAIT_S,
    )
