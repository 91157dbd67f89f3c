"""Connections notice a lost peer within half a minute; settings of the address and of the server win."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout

from headrace.core import Invalid
from headrace.db import AsyncConnection, Connection, Target, connect, connect_async, connect_loop, create_pool
from headrace.db.connections import connection_string
from tests.builders import through_proxy

SERVER_SIDE = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")


async def session(conn: AsyncConnection, *names: str) -> list[str]:
    """The settings of a connection's session."""
    return [(await (await conn.execute(f"show {name}")).fetchone())[0] for name in names]  # type: ignore[index]


def client_side(conn: AsyncConnection | Connection) -> tuple[int, int, int, int]:
    """Idle, interval, count and user timeout of a connection's own socket."""
    with socket.socket(fileno=os.dup(conn.fileno())) as own:
        idle, interval, count, user_timeout = (
            own.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        )
    return idle, interval, count, user_timeout


async def test_both_sides_of_a_nodes_session_notice_a_lost_peer(database: Target) -> None:
    async with create_pool(database, size=1) as own, own.connection() as conn:
        assert await session(conn, *SERVER_SIDE) == ["10", "5", "3", "30000"]
        assert client_side(conn) == (10, 5, 3, 30_000)


async def test_listener_notices_a_lost_server(database: Target) -> None:
    async with await connect_async(database) as conn:
        assert client_side(conn) == (10, 5, 3, 30_000)


def test_command_notices_a_lost_server_but_waits_for_a_busy_one(conn: Connection) -> None:
    assert client_side(conn) == (10, 5, 3, 0)


async def test_values_of_the_address_win(database: Target) -> None:
    options = "-c tcp_keepalives_idle=77 -c headrace.clock_shift=60s"
    dsn = make_conninfo(database.dsn, keepalives_idle=99, options=options)
    async with create_pool(Target("own", dsn), size=1) as own, own.connection() as conn:
        assert await session(conn, *SERVER_SIDE, "headrace.clock_shift") == ["77", "5", "3", "30000", "60s"]
        assert client_side(conn) == (99, 5, 3, 30_000)


async def test_value_of_the_database_wins(conn: Connection, database: Target) -> None:
    conn.execute(f"alter database {conn.info.dbname} set tcp_keepalives_count = 9")
    async with create_pool(database, size=1) as own, own.connection() as session_conn:
        assert await session(session_conn, *SERVER_SIDE) == ["10", "5", "9", "30000"]


@pytest.mark.lane("pg18")
async def test_settings_of_a_pool_are_set_on_each_connection(database: Target) -> None:
    settings = {"headrace.node": "n1", "tcp_keepalives_idle": "20"}
    async with create_pool(database, size=1, settings=settings) as own, own.connection() as conn:
        assert await session(conn, "headrace.node", "tcp_keepalives_idle") == ["n1", "20"]


def test_connection_string_adds_parameters_that_the_address_lacks() -> None:
    parts = conninfo_to_dict(
        connection_string(Target("main", "postgresql://me@there/db?connect_timeout=3"), application_name="headrace spark")
    )
    assert (parts["user"], parts["host"], parts["dbname"], parts["connect_timeout"]) == ("me", "there", "db", "3")
    assert (parts["fallback_application_name"], parts["keepalives_idle"]) == ("headrace spark", "10")


def test_connect_without_a_target_uses_the_configured_database(database: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_DSN", database.dsn)
    with connect() as conn:
        assert conn.execute("select current_database()").fetchone() == (conninfo_to_dict(database.dsn)["dbname"],)
    monkeypatch.setenv("HEADRACE_DSN", "a=postgresql://db1/app b=postgresql://db2/app")
    with pytest.raises(Invalid, match=r"2 shards \(a, b\)"), connect():
        pass


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[Target, asyncio.Event, asyncio.Event]]:
    """A server that reads and never answers; whether it has a client, and whether that one has closed its connection."""
    connected, closed = asyncio.Event(), asyncio.Event()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        while await reader.read(1000):
            pass
        closed.set()
        writer.close()

    async with await asyncio.start_server(read, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield Target("silent", f"postgresql://me@127.0.0.1:{port}/x?sslmode=disable"), connected, closed


@pytest.mark.lane("pg18")
@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("open_connection", [connect_async, connect_loop])
async def test_cancelled_attempt_to_connect_is_closed_although_its_error_is_kept(
    open_connection: Callable[[Target], Awaitable[AsyncConnection]],
) -> None:
    async with silent_server() as (target, connected, closed), asyncio.timeout(30):
        attempt = asyncio.ensure_future(open_connection(target))
        await connected.wait()
        attempt.cancel()
        # The cancelled task keeps its error until somebody asks for it.
        await asyncio.wait([attempt])
        await closed.wait()
        assert attempt.cancelled()


@pytest.mark.lane("pg18")
@pytest.mark.usefixtures("uncollected")
async def test_attempt_that_took_too_long_is_closed_although_its_error_is_kept() -> None:
    async with silent_server() as (target, _, closed), asyncio.timeout(30):
        with pytest.raises(psycopg.OperationalError, match="timeout") as kept:
            await connect_async(Target("silent", make_conninfo(target.dsn, connect_timeout=2)))
        await closed.wait()
        assert kept.value is not None


@pytest.mark.lane("pg18")
@pytest.mark.usefixtures("uncollected")
async def test_connection_whose_settings_are_refused_is_closed(conn: Connection, database: Target) -> None:
    sessions = "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"
    name = "headrace_internal.no such setting"
    async with create_pool(database, size=1, settings={name: "1"}) as pool, asyncio.timeout(30):
        with pytest.raises(PoolTimeout):
            await pool.getconn(timeout=0.5)
        while conn.execute(sessions).fetchone() != (1,):
            await asyncio.sleep(0.02)


@pytest.mark.lane("pg18")
@pytest.mark.usefixtures("uncollected")
async def test_connection_of_a_block_is_closed_although_its_rollback_is_cancelled(database: Target) -> None:
    with through_proxy(database) as (target, proxy):
        opened = await connect_async(target)

        async def work() -> None:
            async with opened:
                await opened.execute("begin")
                proxy.swallow()
                raise ZeroDivisionError

        block = asyncio.ensure_future(work())
        async with asyncio.timeout(30):
            while opened.info.transaction_status is not TransactionStatus.ACTIVE:
                await asyncio.sleep(0.01)
            while not block.done():
                block.cancel()
                await asyncio.sleep(0.01)
        assert opened.closed
