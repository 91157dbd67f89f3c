"""The addresses of the databases, and connections to them.

Owns: HEADRACE_DSN, DATABASE_URL and the folder of the embedded server. If no database is configured, the embedded PostgreSQL is
started in a data folder and keeps running, so that several commands share it. Errors about an address never repeat any part of it:
libpq's own quote a piece of the password that it took for something else, so none of them is passed on."""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads

from headrace.core import DatabaseUnavailable, Invalid, ShardUnavailable, decode
from headrace.db.pooler import is_pooled
from headrace.db.server import Server

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection as ArrowConnection

logger = logging.getLogger(__name__)

_SCHEME = re.compile(r"([a-z][a-z0-9]*)(\+[a-z0-9_]+)?://", re.IGNORECASE)
_ENCODE = "in user and password write %25 for %, %40 for @, %2F for /, %3F for ? and %20 for a space"
_FORM = "write postgresql://user@host:5432/database"


def strip_driver(dsn: str) -> str:
    """The address as libpq reads it: SQLAlchemy's `postgresql+driver://` and `postgres://` become `postgresql://`."""
    match = _SCHEME.match(dsn.strip())
    if match is None or match[1].lower() not in ("postgres", "postgresql"):
        return dsn.strip()
    return "postgresql://" + dsn.strip()[match.end() :]


def to_url(dsn: str) -> str:
    """The address as a URL, which every driver and ORM takes. A socket's folder and all other options are parameters of the URL."""
    parts = read_dsn(dsn, "the URL")
    user, password = (quote(parts.pop(part, ""), safe="") for part in ("user", "password"))
    host = "" if parts.get("host", "").startswith("/") else parts.pop("host", "")
    port, database = parts.pop("port", ""), quote(parts.pop("dbname", ""), safe="")
    if "," in host or "," in port:
        raise Invalid("an address with several hosts has no form that every driver reads; name one host")
    account = (f"{user}:{password}" if password else user) + ("@" if user else "")
    address = f"[{host}]" if ":" in host else host
    options = f"?{urlencode(parts, quote_via=quote)}" if parts else ""
    return f"postgresql://{account}{address}{f':{port}' if port else ''}/{database}{options}"


def read_dsn(dsn: str, name: str) -> dict[str, str]:
    """The parts of an address. Raises Invalid, without any part of it: a misread password could be among them."""
    parts: dict[str, str] | None = None
    # The error is raised below, outside this block: otherwise its context would keep the text.
    with suppress(psycopg.Error, UnicodeError):
        parts = {key: str(value) for key, value in conninfo_to_dict(strip_driver(dsn)).items() if value is not None}
    problem = _problem(strip_driver(dsn), parts)
    if parts is None or problem is not None:
        raise Invalid(f"the address of database {name!r} is invalid: {problem}")
    return parts


def _problem(dsn: str, parts: dict[str, str] | None) -> str | None:
    scheme = _SCHEME.match(dsn)
    if scheme and scheme[1].lower() != "postgresql":
        return f"it is not one of PostgreSQL; {_FORM}"
    if scheme is None:
        # In key=value form nothing can be mistaken for something else.
        return None if parts is not None else f"it is neither a URL nor key=value pairs; {_FORM}"
    if re.search(r"\s", dsn):
        return f"it contains white space; {_ENCODE}"
    if re.search(r"%(?![0-9a-f]{2})|%00", dsn, re.IGNORECASE):
        return f"it contains a % that is not followed by two hexadecimal digits; {_ENCODE}"
    if parts is None:
        return f"it is not a URL that PostgreSQL's client reads; check its parameters after the ?; {_ENCODE}"
    host, port, database = (parts.get(part, "") for part in ("host", "port", "dbname"))
    if "@" in host + database or not re.fullmatch(r"[\d,]*", port):
        return f"its host, port or database name cannot be told from its password; {_ENCODE}"
    return None


Connection: TypeAlias = psycopg.Connection[TupleRow]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[TupleRow]
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
NODE_PARAMETERS = {**_PARAMETERS, "tcp_user_timeout": 30_000}


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
    nearest one above that has it. The home folder is a project only for commands that run in it."""
    if data := environ.get("HEADRACE_DATA"):
        return Path(data)
    here, home = Path.cwd(), environ.get("HOME")
    # Otherwise one command in the home folder would join all projects below it.
    above = [project for project in here.parents if not home or project != Path(home)]
    folders = [_project_data(project) for project in (here, *above)]
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
        # Warn not only in a log that somebody has configured: whoever runs a command in another folder gets another database.
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


def conninfo(target: Target, parameters: Mapping[str, str | int]) -> str:
    """The address with those of the parameters that it does not set itself."""
    return make_conninfo("", **{**parameters, **read_dsn(target.dsn, target.name)})


def connection_string(target: Target, *, application_name: str = APPLICATION_NAME) -> str:
    """The address with our connection parameters, for drivers that connect by themselves. The address's own values win."""
    return conninfo(target, {**_PARAMETERS, "fallback_application_name": application_name})


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


class CancelSafeConnection(psycopg.AsyncConnection[TupleRow]):
    """A connection that is closed at once if the attempt to connect fails or is cancelled, or if the end of its block is.

    psycopg leaves a half-made connection to whoever keeps the error: its traceback holds the frame, and the frame the connection. A
    cancelled task keeps its error, and what a node consists of refers to itself, so the session stayed open until Python collected
    its garbage."""

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """As psycopg's, and nothing of a failed attempt stays open."""
        try:
            return await super().connect(conninfo, **options)
        except BaseException as error:
            _clear_frames(error)
            raise

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        try:
            await super().__aexit__(exc_type, exc_val, exc_tb)
        except BaseException:
            # A connection of a pool is given back in any case, and the pool closes it if its transaction is still open.
            if getattr(self, "_pool", None) is None:
                await self.close()
            raise


def _clear_frames(error: BaseException | None) -> None:
    """Drops the local variables of the frames that have raised an error, and of those behind it."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


async def connect_async(target: Target) -> AsyncConnection:
    """An asynchronous connection in autocommit mode; the caller closes it."""
    conn = await CancelSafeConnection.connect(conninfo(target, NODE_PARAMETERS), autocommit=True)
    set_json_loads(decode, conn)
    return conn


class Shards:
    """The shards of a deployment, by name: several databases with the same topics.

    Promises: a key goes to the same shard as long as the set of shards is the same, in whatever order they are listed; a new shard takes
    only its own keys, about one in n; events without a key are spread, and skip a shard that is unreachable. An event with a key never
    goes to another shard: that would silently give up its order, so it is an error."""

    def __init__(self, targets: Sequence[Target]) -> None:
        if not targets:
            raise Invalid("there is no shard; name at least one database")
        self.targets = tuple(sorted(targets, key=lambda target: target.name))
        self._turn = count()

    def shard_of(self, key: str) -> Target:
        """The shard a key belongs to: the one whose name, hashed with the key, gives the highest value."""
        return max(self.targets, key=lambda target: sha256(f"{target.name}\0{key}".encode()).digest())

    @contextmanager
    def connect(self, key: str | None) -> Iterator[Connection]:
        """A connection to the shard of a key; without a key to any reachable shard, in turn."""
        if key is not None:
            candidates: Sequence[Target] = [self.shard_of(key)]
        else:
            first = next(self._turn) % len(self.targets)
            candidates = self.targets[first:] + self.targets[:first]
        with ExitStack() as stack:
            yield _connect_first(candidates, stack)


def _connect_first(candidates: Sequence[Target], stack: ExitStack) -> Connection:
    errors: list[str] = []
    for target in candidates:
        try:
            return stack.enter_context(connect(target))
        except DatabaseUnavailable as error:
            errors.append(str(error))
    raise ShardUnavailable("; ".join(errors) + "; the other shards go on, try again when it is back")
