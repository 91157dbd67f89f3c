"""asyncpg: the caller's connection, or one acquired from its pool; and a handler's connection, on which headrace's statements run too.

Errors of headrace's own statements for handlers are raised as psycopg's, so that a loop knows which of them pass by themselves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import cache
from typing import Any, LiteralString

import asyncpg
import psycopg
from psycopg.conninfo import conninfo_to_dict

from headrace.core import EVENT_COLUMNS, Conflict, LoggedEvent, RawJSON, decode
from headrace.db import Parameter, query
from headrace.drivers import steps
from headrace.drivers.sessions import ADVICE, SAVEPOINT, EventRows, HandlerConnection, Parameters, Rows, SessionStep, reject
from headrace.drivers.steps import AsyncDriver, Copy

_JSON = [number for number, column in enumerate(EVENT_COLUMNS) if column.type == "jsonb"]
_PARAMETER = re.compile(r"%(?:\((\w+)\))?s(::[\w.]+(?:\[\])?)?")


async def _fetch(conn: asyncpg.Connection, statement: LiteralString, parameters: steps.Parameters) -> steps.Rows:
    return [tuple(row) for row in await conn.fetch(steps.number_parameters(statement), *parameters)]


async def _insert(conn: asyncpg.Connection, statement: LiteralString, parameters: steps.Parameters) -> bool:
    return await conn.execute(steps.number_parameters(statement), *parameters) != "INSERT 0 0"


async def _copy(conn: asyncpg.Connection, step: Copy) -> bool:
    source = _iterate_async(step.chunks)
    await conn.copy_to_table(step.table, schema_name=step.schema, columns=step.columns, source=source, format="binary")
    return True


async def _iterate_async(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


ASYNC = AsyncDriver(
    has_transaction=lambda conn: conn.is_in_transaction(),
    block=lambda conn: conn.transaction(),
    fetch=_fetch,
    insert=_insert,
    copy=_copy,
)


class AsyncpgConnection(HandlerConnection):
    """A connection of asyncpg."""

    def __init__(self, conn: Any) -> None:
        super().__init__()
        self.conn = conn
        self._transaction: Any = None

    async def begin(self, statement: LiteralString | None = None, parameters: Parameters = ()) -> Rows:
        with self._driver_errors():
            self._transaction = self.conn.transaction()
            await self._transaction.start()
        return await self.execute(statement, parameters) if statement else []

    async def execute(self, statement: LiteralString, parameters: Parameters = (), *, prepare: bool | None = None) -> Rows:
        text, values = number_parameters(statement, parameters)
        with self._driver_errors():
            return [tuple(row) for row in await self.conn.fetch(text, *values)]

    async def fetch_events(
        self, statement: LiteralString, parameters: Mapping[str, object], *, raw: bool = False
    ) -> list[LoggedEvent]:
        return [LoggedEvent(*row) for row in _decode_rows(await self._fetch_event_rows(statement, parameters), raw=raw)]

    async def begin_events(
        self, statement: LiteralString, parameters: Sequence[Parameter], *, raw: bool = False, savepoint: bool = False
    ) -> EventRows:
        await self.begin()
        rows = AsyncpgEventRows(await self._fetch_event_rows(statement, parameters), raw=raw)
        if savepoint:
            await self.execute(SAVEPOINT)
        return rows

    async def _fetch_event_rows(self, statement: LiteralString, parameters: Parameters) -> Sequence[Any]:
        text, values = number_parameters(statement, parameters)
        with self._driver_errors():
            rows: Sequence[Any] = await self.conn.fetch(
                query("consume/event_texts").replace("/* statement */", text.strip().rstrip(";")), *values
            )
        return rows

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        transaction: AbstractAsyncContextManager[object] = self.conn.transaction()
        return transaction

    async def commit(self, statement: LiteralString | None = None, parameters: Sequence[Parameter] = ()) -> None:
        if statement:
            await self.execute(statement, parameters)
        with self._driver_errors():
            await self._transaction.commit()
        self._transaction = None

    async def rollback(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None and self.is_open:
            with self._driver_errors():
                await transaction.rollback()

    @property
    def is_lost(self) -> bool:
        try:
            return bool(self.conn.is_closed())
        except asyncpg.InterfaceError:
            return True  # The pool has taken the lost connection back.

    @property
    def is_open(self) -> bool:
        return not self.is_lost and bool(self.conn.is_in_transaction())

    @property
    def has_transaction(self) -> bool:
        return self.is_open

    @asynccontextmanager
    async def session(self, step: SessionStep) -> AsyncIterator[Any]:
        yield self.conn
        self.check()

    def check(self) -> None:
        if not self.is_lost and not self.is_open:
            raise Conflict(f"the handler ended its transaction; {ADVICE}")

    @contextmanager
    def _driver_errors(self) -> Iterator[None]:
        with psycopg_errors():
            try:
                yield
            except asyncpg.InterfaceError as error:
                if not self.is_lost:
                    raise
                raise psycopg.OperationalError(f"the connection was lost: {error}") from error


class AsyncpgEventRows(EventRows):
    """Records of asyncpg."""

    def __init__(self, records: Sequence[Any], *, raw: bool) -> None:
        self._records = records
        self._raw = raw

    def __len__(self) -> int:
        return len(self._records)

    def load(self, start: int, end: int) -> Rows:
        return _decode_rows(self._records[start:end], raw=self._raw)

    def position(self, index: int) -> int:
        return int(self._records[index][0])

    def partition(self, index: int) -> int:
        return int(self._records[index][1])


def _decode_rows(records: Sequence[Any], *, raw: bool) -> Rows:
    rows: Rows = []
    for record in records:
        values = list(record)
        for number in _JSON:
            text = values[number]
            values[number] = text and (RawJSON(text.encode()) if raw else decode(text))
        rows.append(tuple(values))
    return rows


@contextmanager
def psycopg_errors() -> Iterator[None]:
    """Raises psycopg's error of the same SQLSTATE in place of asyncpg's; headrace's own SQLSTATEs pass."""
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise psycopg.OperationalError(f"the database cannot be reached: {error!r}") from error
    except asyncpg.PostgresError as error:
        try:
            error_class = psycopg.errors.lookup(error.sqlstate or "")
        except KeyError:
            raise error from None
        raise error_class(str(error)) from error


@cache
def _numbered(statement: str) -> tuple[str, tuple[tuple[str | int, bool], ...]]:
    """The statement with $1, $2 …, and for each number the parameter's name or index and whether it goes as text."""
    order: dict[tuple[str | int, bool], int] = {}
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        name, cast = match.groups()
        parameter = (name or count, bool(cast))
        count += 1
        place = order.setdefault(parameter, len(order) + 1)
        # With a cast, psycopg sends text for the server to read; asyncpg would want a value of that type.
        return f"${place}::pg_catalog.text{cast}" if cast else f"${place}"

    return _PARAMETER.sub(number, statement), tuple(order)


def number_parameters(statement: str, parameters: Parameters) -> tuple[str, list[object]]:
    """A statement with psycopg's parameters, in the form of asyncpg."""
    text, order = _numbered(statement)
    values: Any = parameters
    return text, [_value(values[place], is_text) for place, is_text in order]


def _value(value: object, is_text: bool) -> object:
    return str(value) if is_text and value is not None else value


class _HandlerConnection(asyncpg.Connection):
    """Of headrace's own pool: a handler cannot close it."""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's signature
        if self.is_in_transaction():
            reject("close")
        await super().close(timeout=timeout)


class AsyncpgSource:
    """A pool of asyncpg: the application's, or one of headrace's own for the node's database."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[HandlerConnection]:
        with psycopg_errors():
            # An own pool opens with its first use. A lock, because asyncpg lets only one task open it.
            async with self._opening:
                await self._pool
            conn = await self._pool.acquire()
        connection = AsyncpgConnection(conn)
        try:
            try:
                yield connection
            except BaseException:
                await connection.rollback()
                raise
        finally:
            await self._pool.release(conn)


def own_pool(dsn: str, *, size: int) -> Any:
    """A pool for the node's database, not connected yet."""
    parts: dict[str, Any] = conninfo_to_dict(dsn)
    names = {"host": "host", "port": "port", "user": "user", "password": "password", "dbname": "database", "passfile": "passfile"}
    options: dict[str, Any] = {names[name]: value for name, value in parts.items() if name in names}
    if "port" in options:
        options["port"] = int(options["port"])
    if "sslmode" in parts:
        options["ssl"] = parts["sslmode"]
    return asyncpg.create_pool(
        **options,
        min_size=0,
        max_size=size,
        connection_class=_HandlerConnection,
        server_settings={"application_name": "headrace", **_settings(str(parts.get("options") or ""))},
    )


def _settings(options: str) -> dict[str, str]:
    """The settings in libpq's `options`: `-c name=value`."""
    found: Sequence[tuple[str, str]] = re.findall(r"(?:-c\s*|--)([\w.]+)=((?:\\.|\S)+)", options)
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in found}
