"""Poolers between us and PostgreSQL, such as PgBouncer.

A pooler in transaction mode gives each transaction any of its server connections. LISTEN, session locks, session settings and
prepared statements then reach the wrong connection, and stay there for other clients.

The server tells a new connection the process id of its backend. A pooler makes this number up, so that it differs from
pg_backend_pid(). Whether the pooler keeps one backend per client is seen only with a second connection: while that one holds a
backend, the first must still have its own."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, LiteralString

import psycopg

from headrace.core import TransactionPooler

PROBE_ROUNDS = 5
"""A busy pooler may by chance give a client the same backend several times; five rounds in a row are not chance."""
PROBE_S = 10.0
_PID: LiteralString = "select pg_backend_pid()"
_Probe = Generator[tuple[int, LiteralString], Any, bool]


def is_pooled(conn: psycopg.Connection[Any]) -> bool:
    """True if a pooler is between this connection and the server, in whatever mode. Takes one round trip."""
    row = conn.execute(_PID, prepare=False).fetchone()
    return row is not None and row[0] != conn.info.backend_pid


def refuse_transaction_pooler(first: psycopg.Connection[Any], second: psycopg.Connection[Any], who: str) -> None:
    """Raises TransactionPooler if the server's backends change under two open connections in autocommit mode."""
    probe = _probe(first.info.backend_pid)
    try:
        conn, statement = next(probe)
        while True:
            cursor = (first, second)[conn].execute(statement, prepare=False)
            row = cursor.fetchone() if cursor.description else None
            conn, statement = probe.send(row and row[0])
    except StopIteration as result:
        _raise_if(result.value, who)


async def refuse_transaction_pooler_async(
    first: psycopg.AsyncConnection[Any], second: psycopg.AsyncConnection[Any], who: str
) -> None:
    """As `refuse_transaction_pooler`, for at most ten seconds: a pooler without a free server connection answers never."""
    probe = _probe(first.info.backend_pid)
    try:
        async with asyncio.timeout(PROBE_S):
            conn, statement = next(probe)
            while True:
                cursor = await (first, second)[conn].execute(statement, prepare=False)
                row = await cursor.fetchone() if cursor.description else None
                conn, statement = probe.send(row and row[0])
    except StopIteration as result:
        _raise_if(result.value, who)
    except TimeoutError:
        raise psycopg.OperationalError(
            f"{who}: the pooler gave no second server connection within {PROBE_S:.0f} s; raise its pool size, "
            "or give the address of PostgreSQL itself"
        ) from None


def _probe(announced: int) -> _Probe:
    """Yields which connection (0, 1) runs which statement, and is sent its value. Returns True for a pooler in transaction mode."""
    if (yield 0, _PID) == announced:
        return False
    for _ in range(PROBE_ROUNDS):
        first = yield 0, _PID
        # Two in a row: a pooler that gives its backends in turn would give the same one again after the second connection's.
        if (yield 0, _PID) != first:
            return True
        yield 1, "begin"
        held = yield 1, _PID
        # Not asked of the first connection if the second holds its backend: there may be no other one.
        changed = held == first or (yield 0, _PID) != first
        yield 1, "commit"
        if changed:
            return True
    return False


def _raise_if(is_transaction_pooler: bool, who: str) -> None:
    if is_transaction_pooler:
        raise TransactionPooler(
            f"{who} cannot run through a pooler in transaction mode: LISTEN and session locks would reach other clients' "
            "connections; give the address of PostgreSQL itself, or of a pool in session mode. "
            "Publishing and reading work through it"
        )
