"""PostgreSQL: rows of a table in another database, or events that another headrace publishes.

Promises: exactly once. Into a table: the rows and the position in the ledger, a small table beside them, commit together. Into another
headrace: by the event's id, the same id twice is one event. The connection uses nothing that the node itself could: no socket, no
password file, no service, no variable of libpq."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, LiteralString, TypeAlias

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.core import JSON, DeliveryError, RawJSON, TargetRefused, encode, is_reference
from headrace.db import CancelSafeConnection, query
from headrace.relays.targets.options import Option, Options, find_mistakes
from headrace.relays.targets.target import Message

CONNECT_S: Final = 10
STATEMENT_S: Final = 30

_ADDRESS: Final = ("host", "port", "dbname", "user", "sslmode", "sslrootcert")
_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
OPTIONS: Final[Mapping[str, Option]] = {
    "host": Option("text"),
    "port": Option("integer", at_least=1, at_most=65535),
    "dbname": Option("text"),
    "user": Option("text"),
    "password": Option("text"),
    "sslmode": Option("text", choices=_SSL_MODES),
    "sslrootcert": Option("text"),
    "dsn": Option("text"),
    "table": Option("text"),
    "columns": Option("texts"),
    "ledger": Option("text", default="headrace_relay"),
    "topic": Option("text"),
    "namespace": Option("text"),
}
"""`columns`: those that the fields of the body go into."""
# Set here, so that neither a variable nor a file nor a service of the node fills them in. An empty sslcert means the default file, so
# sslcertmode must be off; and a server that asks for a Kerberos ticket would get the node's.
_PARAMETERS: Final[Mapping[str, str | int]] = {
    "password": "", "passfile": "/nonexistent", "options": "", "sslmode": "prefer", "sslcert": "", "sslkey": "",
    "sslcertmode": "disable", "gssencmode": "disable", "require_auth": "password,md5,scram-sha-256,none", "hostaddr": "",
    "connect_timeout": CONNECT_S, "application_name": "headrace relay", "keepalives_idle": 30, "tcp_user_timeout": 15_000,
}  # fmt: skip
Connection: TypeAlias = psycopg.AsyncConnection[Any]


def check_options(options: Mapping[str, JSON]) -> list[str]:
    if problems := find_mistakes(OPTIONS, options):
        return problems
    if ("table" in options) == ("topic" in options):
        problems.append("give table, to insert rows, or topic, to publish events of another headrace; one of them")
    if "table" in options and "columns" not in options:
        problems.append("option 'columns' is missing; it has the columns that the fields of the body go into")
    if not is_reference(options.get("dsn")):
        problems += _address_problems(_address(options, {}))
    return problems


def _address(options: Mapping[str, JSON], secrets: Mapping[str, str]) -> dict[str, str]:
    """The parameters of the connection."""
    dsn = secrets.get("dsn", str(options.get("dsn", "")))
    try:
        address = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    except psycopg.ProgrammingError:
        return {"dsn": "invalid"}
    address |= {name: str(options[name]) for name in _ADDRESS if name in options}
    if "password" in secrets:
        address["password"] = secrets["password"]
    return address


def _address_problems(address: Mapping[str, str]) -> list[str]:
    if address.get("dsn") == "invalid":
        return ["dsn is not an address of a database"]
    problems = [f"{name} is missing" for name in ("host", "dbname", "user") if not address.get(name)]
    if unknown := sorted(address.keys() - {*_ADDRESS, "password"}):
        problems.append(f"dsn has {', '.join(unknown)}; only {', '.join(_ADDRESS)} are allowed")
    if any(host.startswith(("/", "@")) for host in address.get("host", "").split(",")):
        problems.append("host is a socket; give a host name or an address")
    if address.get("sslmode", "prefer") not in _SSL_MODES:
        problems.append(f"sslmode is not one of {', '.join(_SSL_MODES)}")
    return problems


def open_target(relay_name: str, options: Mapping[str, JSON], secrets: Mapping[str, str]) -> PostgresTarget:
    """The table or topic of a relay."""
    address = _address(options, secrets)
    if problems := _address_problems(address):
        raise DeliveryError(f"relay {relay_name}: {'; '.join(problems)}")
    values = Options(OPTIONS, options)
    if "topic" in options:
        return PostgresTarget(address, Publishing(values.text("topic"), values.optional_text("namespace")))
    return PostgresTarget(address, Inserting(values.text("table"), values.texts("columns"), values.text("ledger")))


class Publishing:
    """Publishes events in another headrace, with their ids."""

    def __init__(self, topic: str, namespace: str | None) -> None:
        self._topic = topic
        self._namespace = namespace

    async def prepare(self, conn: Connection) -> None:
        """Needs nothing."""

    async def write(self, conn: Connection, messages: Sequence[Message]) -> None:
        events = [
            {
                "topic": self._topic,
                "id": str(message.event_id),
                "type": message.event_type,
                "key": message.key,
                "payload": RawJSON(message.body),
                "headers": dict(message.headers),
                "emitted_at": message.emitted_at.isoformat(),
            }
            for message in messages
        ]
        parameters = {"events": encode(events), "namespace": self._namespace}
        await conn.execute("select count(*) from headrace.publish_many(%(events)s::jsonb, %(namespace)s)", parameters)


class Inserting:
    """Inserts rows into a table: the fields of the body are its columns. The ledger says up to which position."""

    def __init__(self, table: str, columns: Sequence[str], ledger: str) -> None:
        self._table = _identifier(table)
        self._ledger = _identifier(ledger)
        self._redriven = _identifier(f"{ledger}_redriven")
        self._columns = columns

    async def prepare(self, conn: Connection) -> None:
        """Creates the ledger if it is missing; a role that may not create tables needs it beforehand."""
        names = {"ledger": self._ledger, "redriven": self._redriven}
        row = await (await conn.execute("select pg_catalog.to_regclass(%s)", (names["ledger"].as_string(conn),))).fetchone()
        if row is None or row[0] is None:
            # Another node may create it at the same moment.
            with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
                await conn.execute(_statement("relays/targets/create_ledger", names))

    async def write(self, conn: Connection, messages: Sequence[Message]) -> None:
        names = {"ledger": self._ledger, "redriven": self._redriven}
        first = messages[0]
        place = {"relay": first.relay, "uid": first.relay_uid, "partition": first.partition}
        row = await (await conn.execute(_statement("relays/targets/lock_ledger", names), place)).fetchone()
        position = row[0] if row else 0
        new = [message for message in messages if message.position > position or message.is_redriven]
        if first.is_redriven:
            recorded = await conn.execute(
                _statement("relays/targets/record_redriven", names), place | {"position": first.position}
            )
            if not recorded.rowcount:
                return
        if new:
            await self._insert(conn, new)
        last = max(position, messages[-1].position)
        await conn.execute(_statement("relays/targets/move_ledger", names), place | {"position": last})

    async def _insert(self, conn: Connection, messages: Sequence[Message]) -> None:
        columns = sql.SQL(", ").join(map(sql.Identifier, self._columns))
        statement = sql.SQL(
            "insert into {table} ({columns}) select {columns} "
            "from pg_catalog.jsonb_populate_recordset(null::{table}, %s::pg_catalog.jsonb)"
        ).format(table=self._table, columns=columns)
        for message in messages:
            if not message.body.lstrip().startswith(b"{"):
                raise TargetRefused(
                    f"the body of position {message.position} is not an object, so it has no columns; use a mapping"
                )
        await conn.execute(statement, (f"[{','.join(message.body.decode() for message in messages)}]",))


def _identifier(name: str) -> sql.Identifier:
    return sql.Identifier(*name.split("."))


def _statement(name: str, names: Mapping[str, sql.Identifier]) -> sql.Composed:
    return sql.SQL(query(name)).format(**names)


class PostgresTarget:
    """A connection to another database."""

    def __init__(self, address: Mapping[str, str], writing: Publishing | Inserting) -> None:
        self._address = address
        self._writing = writing
        self._conn: Connection | None = None

    async def open(self) -> None:
        try:
            self._conn = await CancelSafeConnection.connect(
                make_conninfo("", **{**_PARAMETERS, **self._address}), autocommit=True
            )
            await self._conn.execute(_SETTINGS, (f"{STATEMENT_S}s", f"{STATEMENT_S}s"))
            await self._writing.prepare(self._conn)
        except psycopg.Error as error:
            raise _delivery_error(error) from None

    async def deliver(self, messages: Sequence[Message]) -> None:
        assert self._conn is not None, "open it first"
        try:
            async with self._conn.transaction():
                await self._writing.write(self._conn, messages)
        except psycopg.Error as error:
            raise _delivery_error(error) from None

    async def close(self) -> None:
        if self._conn is not None:
            await self._conn.close()


_SETTINGS: LiteralString = """select pg_catalog.set_config('statement_timeout', %s, false),
    pg_catalog.set_config('idle_in_transaction_session_timeout', %s, false)"""


def _delivery_error(error: psycopg.Error) -> DeliveryError:
    """Data that the target rejects stays rejected; everything else may pass."""
    message = " ".join((error.diag.message_primary or str(error)).split())
    sqlstate = error.sqlstate or ""
    if sqlstate.startswith(("22", "23", "HR3")):
        return TargetRefused(f"the database rejects it: {message}")
    return DeliveryError(f"the database: {message}")
