"""A database that rejects writes counts as an outage: nodes wait for it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from headrace.db import Connection, Listener, Server, Target, cancel_tasks, connect, migrate
from headrace.node import Headrace, Identity, Node
from tests.builders import publish, topic
from tests.conftest import FAST, temporary_folder

pytestmark = pytest.mark.lane("pg18")


@asynccontextmanager
async def running(target: Target) -> AsyncIterator[Node]:
    """A node with sequencer that must not end before `stop`.

    Other statements run in threads: they may wait for a lock that the node's loops hold."""
    node = Node(Headrace(), [target], identity=Identity(name="n1"))
    task = asyncio.create_task(node.run())
    try:
        yield node
        assert not task.done(), task.exception()
    finally:
        node.stop()
        await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def end_sessions(conn: Connection) -> None:
    conn.execute(
        """select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"""
    )


def set_read_only(conn: Connection, value: str) -> None:
    """For every new session; the current ones end."""
    conn.execute(f"alter database {conn.info.dbname} set default_transaction_read_only = {value}")
    end_sessions(conn)


async def test_node_survives_a_read_only_database(conn: Connection, database: Target, caplog: pytest.LogCaptureFixture) -> None:
    topic(conn)
    async with running(database) as node:
        await asyncio.to_thread(publish, conn, 1)
        await until(lambda: node.sequenced == 1)
        await asyncio.to_thread(set_read_only, conn, "on")
        await asyncio.to_thread(publish, conn, 2)
        await until(lambda: "read-only transaction" in caplog.text)
        await asyncio.to_thread(set_read_only, conn, "off")
        await until(lambda: node.sequenced == 2)


@pytest.fixture
def standby() -> Iterator[Target]:
    """A migrated server in recovery, with the topic `orders`."""
    folder = temporary_folder()
    server = Server(folder, settings=FAST)
    server.start()
    try:
        target = Target("standby", server.dsn())
        with connect(target) as conn:
            migrate(conn)
            topic(conn)
        server.stop()
        (server.data / "standby.signal").touch()
        server.start()
        yield target
    finally:
        server.stop()
        shutil.rmtree(folder)


async def test_node_and_listener_on_a_standby_wait_for_its_promotion(standby: Target, caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener(standby)
    subscription = listener.subscribe("headrace_outbox")
    listening = asyncio.create_task(listener.run())
    with psycopg.connect(standby.dsn, autocommit=True) as conn:
        async with running(standby) as node:
            await until(lambda: "registration with standby" in caplog.text)
            await until(lambda: "cannot execute LISTEN during recovery" in caplog.text)
            await asyncio.to_thread(conn.execute, "select pg_promote()")
            await asyncio.to_thread(publish, conn, 1)
            await until(lambda: node.sequenced == 1)
        assert await subscription.wait(30), listening
        conn.execute("notify headrace_outbox")
        assert await subscription.wait(30)
    await cancel_tasks(listening)
