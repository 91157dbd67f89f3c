"""Exchanges: several statements that travel in one message to the server, and their results in one answer.

For the hot paths of a node. psycopg's own pipeline gives the same results for four times the CPU time of the client: it waits for
the socket many times per statement. Statements are prepared once per connection, unless its prepare_threshold is None, as it is
behind a pooler.

Promises: the statements run in order; after the first that fails none of the others runs, and its error is raised as psycopg's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, LiteralString, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors, pq
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.waiting import Ready, Wait

from headrace.db.connections import AsyncConnection
from headrace.db.views import call_when_unprepared

Parameter: TypeAlias = str | int | float | None
Command: TypeAlias = tuple[LiteralString, Sequence[Parameter]]
"""A statement with psycopg's %s, and its parameters."""
Result: TypeAlias = pq.abc.PGresult

_prepared: WeakKeyDictionary[AsyncConnection, set[bytes]] = WeakKeyDictionary()
_NO_SUCH_STATEMENT = "26000"
_numbers = count(1)


async def exchange(conn: AsyncConnection, *commands: Command) -> list[Result]:
    """The results of the commands, with values in binary form. No other statement may be under way on the connection."""
    return await Exchange(conn, commands).run()


async def fetch_exchanged(
    conn: AsyncConnection, statement: LiteralString, parameters: Sequence[Parameter]
) -> list[tuple[Any, ...]]:
    """The rows of one statement."""
    [result] = await exchange(conn, (statement, parameters))
    transformer = Transformer(conn)
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple)


async def fetch_alone(conn: AsyncConnection, statement: LiteralString, parameters: Sequence[Parameter]) -> list[tuple[Any, ...]]:
    """The rows of one statement that is a transaction of its own: one message, or a savepoint in a transaction that is open."""
    if conn.info.transaction_status == pq.TransactionStatus.IDLE and conn.autocommit:
        return await fetch_exchanged(conn, statement, parameters)
    async with conn.transaction():
        return await (await conn.execute(statement, parameters)).fetchall()


@dataclass(frozen=True, slots=True)
class Exchange:
    """One message to the server and the answer to it."""

    conn: AsyncConnection
    commands: Sequence[Command]

    async def run(self) -> list[Result]:
        conn = self.conn
        names = _statement_names(conn)
        async with conn.lock:
            results = await conn.wait(_send_and_fetch(conn.pgconn, self.commands, names))
        error = _first_error(conn, results)
        if error is not None and error.sqlstate == _NO_SUCH_STATEMENT and names:
            # Somebody has run "deallocate all" on the connection. Outside of a transaction nothing has happened yet.
            names.clear()
            if conn.info.transaction_status == pq.TransactionStatus.IDLE:
                return await self.run()
            raise psycopg.OperationalError(f"headrace's prepared statements are gone from the connection: {error}") from error
        if error is not None:
            raise error
        return results


def _first_error(conn: AsyncConnection, results: Sequence[Result]) -> psycopg.Error | None:
    for result in results:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            return errors.error_from_result(result, encoding=conn.info.encoding)
    return None


def _statement_names(conn: AsyncConnection) -> set[bytes] | None:
    """The names of our statements that are prepared on a connection; None if none may be."""
    if conn.prepare_threshold is None:
        return None
    names = _prepared.get(conn)
    if names is None:
        names = _prepared[conn] = set()
        call_when_unprepared(conn, names.clear)
    return names


def _send_and_fetch(pgconn: Any, commands: Sequence[Command], names: set[bytes] | None) -> PQGen[list[Result]]:
    pgconn.enter_pipeline_mode()
    new: list[bytes] = []
    for statement, parameters in commands:
        name, text = _numbered(statement)
        values = [None if value is None else str(value).encode() for value in parameters]
        if names is None:
            pgconn.send_query_params(text, values or None, result_format=pq.Format.BINARY)
            continue
        if name not in names and name not in new:
            pgconn.send_prepare(name, text)
            new.append(name)
        pgconn.send_query_prepared(name, values or None, result_format=pq.Format.BINARY)
    pgconn.pipeline_sync()
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()
    results: list[Result] = []
    while True:
        while pgconn.is_busy():
            yield Wait.R
            try:
                pgconn.consume_input()
            except psycopg.OperationalError:
                if any(result.status == pq.ExecStatus.FATAL_ERROR for result in results):
                    return results  # The server said why, before it closed the connection.
                raise
        result = pgconn.get_result()
        if result is None:
            # Ends the results of one command; twice in a row only after a lost connection.
            if pgconn.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError(f"the connection was lost: {pgconn.get_error_message()}")
            continue
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            break
        results.append(result)
    pgconn.exit_pipeline_mode()
    return _without_prepares(results, commands, names, new) if names is not None and new else results


def _without_prepares(
    results: list[Result], commands: Sequence[Command], names: set[bytes], new: Sequence[bytes]
) -> list[Result]:
    """The results of the commands themselves. A failed preparation comes before the result of its command."""
    kept: list[Result] = []
    unread = iter(results)
    waiting = set(new)
    for statement, _ in commands:
        name, _ = _numbered(statement)
        if name in waiting:
            waiting.discard(name)
            prepared = next(unread)
            if prepared.status == pq.ExecStatus.COMMAND_OK:
                names.add(name)
            else:
                kept.append(prepared)
        kept.append(next(unread))
    # An error of the commit comes behind them all.
    return [*kept, *unread]


@cache
def _numbered(statement: LiteralString) -> tuple[bytes, bytes]:
    """The name under which a statement is prepared, and its text with $1, $2 and so on."""
    first, *rest = statement.split("%s")
    text = first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
    return f"headrace_{next(_numbers)}".encode(), text.encode()
