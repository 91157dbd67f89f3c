"""Exchanges: several statements in one message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from headrace.db import AsyncConnection, Connection, Target, connect_async, exchange, fetch_exchanged
from tests.builders import wait_until

pytestmark = pytest.mark.lane("pg18")
ADD = "select %s::integer + %s::integer"


@pytest.fixture
async def tx(database: Target) -> AsyncIterator[AsyncConnection]:
    conn = await connect_async(database)
    yield conn
    await conn.close()


async def test_statements_run_in_order_in_one_transaction(conn: Connection, tx: AsyncConnection) -> None:
    conn.execute("create table effect (n int)")
    write = "insert into effect values (%s)"
    await exchange(tx, ("begin", ()), (write, (1,)), (write, (2,)))
    assert tx.info.transaction_status == TransactionStatus.INTRANS
    assert conn.execute("select count(*) from effect").fetchone() == (0,)
    await exchange(tx, (write, (None,)), ("commit", ()))
    assert conn.execute("select n from effect").fetchall() == [(1,), (2,), (None,)]


async def test_after_an_error_nothing_else_runs(conn: Connection, tx: AsyncConnection) -> None:
    conn.execute("create table effect (n int)")
    for _ in range(2):  # Prepared, and not prepared yet.
        with pytest.raises(psycopg.errors.DivisionByZero):
            await exchange(
                tx, ("begin", ()), ("select 1 / %s::integer", (0,)), ("insert into effect values (1)", ()), ("commit", ())
            )
        assert tx.info.transaction_status == TransactionStatus.INERROR
        await exchange(tx, ("rollback", ()))
    assert conn.execute("select count(*) from effect").fetchone() == (0,)
    with pytest.raises(psycopg.errors.UndefinedTable):
        await exchange(tx, ("select from nowhere", ()), ("insert into effect values (1)", ()))
    assert await fetch_exchanged(tx, ADD, (1, 2)) == [(3,)]


async def test_failed_commit_is_an_error(conn: Connection, tx: AsyncConnection) -> None:
    conn.execute("create table parent (n int primary key)")
    conn.execute("create table effect (n int references parent deferrable initially deferred)")
    for _ in range(2):  # Prepared, and not prepared yet.
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            await exchange(tx, ("insert into effect values (1) returning n", ()))
    assert conn.execute("select count(*) from effect").fetchone() == (0,)


@pytest.mark.parametrize("statement", ["deallocate all", "discard all"])
async def test_statements_deallocated_by_others_are_prepared_again(tx: AsyncConnection, statement: str) -> None:
    assert await fetch_exchanged(tx, ADD, (1, 2)) == [(3,)]
    await tx.execute(statement)
    assert await fetch_exchanged(tx, ADD, (3, 4)) == [(7,)]


async def test_rollback_of_psycopg_which_deallocates_all_harms_no_later_statement(tx: AsyncConnection) -> None:
    await exchange(tx, ("begin", ()), (ADD, (1, 2)))
    await tx.execute("select 1", prepare=True)
    with pytest.raises(RuntimeError):
        async with tx.transaction():
            raise RuntimeError
    assert await fetch_exchanged(tx, ADD, (3, 4)) == [(7,)]
    await exchange(tx, ("commit", ()))


async def test_connection_without_prepared_statements_gets_none(tx: AsyncConnection) -> None:
    tx.prepare_threshold = None
    assert await fetch_exchanged(tx, ADD, (1, 2)) == [(3,)]
    assert await (await tx.execute("select count(*) from pg_prepared_statements")).fetchone() == (0,)


async def test_cancelled_exchange_leaves_a_usable_connection(conn: Connection, tx: AsyncConnection) -> None:
    pid = tx.info.backend_pid
    sleeping = asyncio.create_task(exchange(tx, ("select pg_sleep(60)", ()), ("select 1", ())))
    active = "select count(*) from pg_stat_activity where pid = %s and query like 'select pg_sleep%%' and state = 'active'"
    await asyncio.to_thread(wait_until, lambda: conn.execute(active, (pid,)).fetchone() == (1,), "the statement runs")
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    assert await fetch_exchanged(tx, ADD, (1, 2)) == [(3,)]


async def test_lost_connection_is_an_operational_error(conn: Connection, tx: AsyncConnection) -> None:
    conn.execute("select pg_terminate_backend(%s, 10000)", (tx.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        await exchange(tx, ("select 1", ()))
    assert tx.broken
