"""Where the databases are, and connections to them.

Owns: reading HEADRACE_DSN and DATABASE_URL, the embedded server's place. With nothing configured the embedded PostgreSQL
starts in a data folder and runs on, so that several commands share it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import platformdirs
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool

from headrace.core import DatabaseUnavailable, Invalid, decode, encode
from headrace.db.server import Server
from headrace.db.sql_files import query

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection as ArrowConnection

Connection: TypeAlias = psycopg.Connection[TupleRow]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[TupleRow]
Pool: TypeAlias = AsyncConnectionPool[AsyncConnection]

APPLICATION_NAME = "headrace"

_PARAMETERS: Mapping[str, str | int] = {
    "fallback_application_name": APPLICATION_NAME,
    "connect_timeout": 10,
    # A partner that vanished without a word is noticed after 25 s; left to the system it takes two hours.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
# Keepalives rest while data waits to be sent; the system tries that for a quarter of an hour. For nodes, which can begin again:
# it also ends a connection whose partner lives and reads nothing for so long, as a server may during a command's large COPY.
_NODE_PARAMETERS = {**_PARAMETERS, "tcp_user_timeout": 30_000}
# The same for the server's side, where a vanished node's transactions hold their locks.
_NODE_SETTINGS = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


@dataclass(frozen=True)
class Target:
    """One database: the only one, or one of several shards."""

    name: str
    dsn: str

    def __str__(self) -> str:
        """Without the password, for messages."""
        parts = conninfo_to_dict(self.dsn)
        return f"{self.name} ({parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')})"


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the embedded server keeps its data: HEADRACE_DATA, else the user's data folder (/var/lib for root)."""
    if given := environ.get("HEADRACE_DATA"):
        return Path(given)
    if os.geteuid() == 0:
        # Root's home is closed to the user the server runs as.
        return Path("/var/lib/headrace")
    return platformdirs.user_data_path("headrace")


def embedded_server(environ: Mapping[str, str] = os.environ) -> Server:
    """The embedded PostgreSQL that serves where no database is configured. Not started."""
    return Server(data_folder(environ) / "pg18")


def configured_targets(environ: Mapping[str, str] = os.environ) -> list[Target]:
    """The configured databases; the embedded one, started, when none is configured.

    HEADRACE_DSN (or DATABASE_URL) holds one address, or several as `name=address` separated by white space: the shards."""
    configured = environ.get("HEADRACE_DSN") or environ.get("DATABASE_URL")
    if not configured:
        server = embedded_server(environ)
        server.start()
        return [Target("embedded", server.dsn())]
    return parse_targets(configured)


def parse_targets(text: str) -> list[Target]:
    """One address, or several named ones. A key=value connection string counts as one address."""
    words = text.split()
    named = [word.partition("=") for word in words]
    if not all("://" in address and "://" not in name for name, _, address in named):
        return [_checked(Target("main", text.strip()))]
    names = [name for name, _, _ in named]
    if len(set(names)) < len(names):
        raise Invalid(f"HEADRACE_DSN names a shard twice: {', '.join(names)}; every shard needs a name of its own")
    return [_checked(Target(name, address)) for name, _, address in named]


def _checked(target: Target) -> Target:
    try:
        conninfo_to_dict(target.dsn)
    except psycopg.ProgrammingError as error:
        raise Invalid(
            f"the address of database {target.name!r} cannot be read: {str(error).strip()}; "
            "write postgresql://user@host:5432/database"
        ) from None
    return target


def _conninfo(target: Target, parameters: Mapping[str, str | int]) -> str:
    """The address with parameters it does not have itself."""
    return make_conninfo("", **{**parameters, **conninfo_to_dict(target.dsn)})


def address(target: Target, *, application_name: str = APPLICATION_NAME) -> str:
    """The address with the parameters of our connections where it has none of its own."""
    return _conninfo(target, {**_PARAMETERS, "fallback_application_name": application_name})


@contextmanager
def connect(target: Target) -> Iterator[Connection]:
    """A connection in autocommit mode: transactions are made with `conn.transaction()`."""
    with map_connection_errors(target):
        conn = psycopg.connect(address(target), autocommit=True)
    set_json_loads(decode, conn)
    with conn:
        yield conn


def connect_arrow(target: Target, *, application_name: str) -> ArrowConnection:
    """A connection of the Arrow driver, in a transaction; the caller closes it. Raises ImportError where it is not installed."""
    from adbc_driver_postgresql import dbapi  # type: ignore[import-untyped]

    with map_connection_errors(target):
        conn: ArrowConnection = dbapi.connect(address(target, application_name=application_name))
    return conn


@contextmanager
def map_connection_errors(database: Target | str) -> Iterator[None]:
    """A connection that breaks without a word of the server, so without an SQLSTATE, is a database that cannot be reached."""
    try:
        yield
    except _operational_errors() as error:
        if error.sqlstate:
            raise
        # libpq's message names host and port, never the password.
        raise DatabaseUnavailable(f"cannot reach database {database}: {' '.join(str(error).split())}") from error


def _operational_errors() -> tuple[type[psycopg.OperationalError], ...]:
    """Those of the drivers that are in use: one that was never imported raises nothing."""
    arrow = sys.modules.get("adbc_driver_manager.dbapi")
    return (psycopg.OperationalError, *([arrow.OperationalError] if arrow else []))


async def connect_async(target: Target) -> AsyncConnection:
    """An asynchronous connection in autocommit mode; the caller closes it."""
    conn = await psycopg.AsyncConnection.connect(_conninfo(target, _NODE_PARAMETERS), autocommit=True)
    set_json_loads(decode, conn)
    return conn


def create_pool(target: Target, *, size: int, settings: Mapping[str, str] | None = None) -> Pool:
    """A pool of asynchronous connections in autocommit mode, not opened yet. Broken connections are replaced.

    `settings` are set on every connection."""

    async def configure(conn: AsyncConnection) -> None:
        set_json_loads(decode, conn)
        await conn.execute(query("db/configure"), {"settings": encode(settings or {}), "defaults": encode(_NODE_SETTINGS)})

    return AsyncConnectionPool(
        _conninfo(target, _NODE_PARAMETERS),
        min_size=1,
        max_size=size,
        open=False,
        configure=configure,
        kwargs={"autocommit": True},
        # The loops retry by themselves; a pool that waited long would only hide an outage from them.
        reconnect_timeout=5,
        timeout=15,
    )
