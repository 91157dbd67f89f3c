"""`async with app.running()`: a node on the event loop of another program starts, reports its failures, and stops in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
import pytest

from headrace.actions import Action
from headrace.core import DatabaseUnavailable, LoggedEvent, NotMigrated, UnknownTopic
from headrace.db import AsyncConnection, Connection, LoopFailure, Target, cancel_tasks
from headrace.db.server import free_port
from headrace.log.outbox import publish
from headrace.node import Headrace, Node, list_nodes
from tests.builders import through_proxy, topic

pytestmark = pytest.mark.lane("pg18")

SESSIONS = "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def other_tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}


@dataclass
class Shop:
    app: Headrace
    handled: list[object]


@pytest.fixture
def shop(conn: Connection) -> Shop:
    topic(conn)
    shop = Shop(Headrace(), [])

    @shop.app.consumer("orders")
    async def bill(event: LoggedEvent, tx: AsyncConnection) -> None:
        shop.handled.append(event.payload)

    return shop


async def test_node_runs_as_long_as_the_block_and_stops_in_order(shop: Shop, conn: Connection, database: Target) -> None:
    async with shop.app.running(database.dsn) as running:
        assert [node.state for node in list_nodes(conn)] == ["alive"], "it has registered before the block starts"
        publish(conn, "orders", "placed", 1)
        await until(lambda: running.node.handled == 1)
        assert running.health().is_healthy and shop.handled == [1]
    assert [node.state for node in list_nodes(conn, stopped=True)] == ["stopped"]
    assert other_tasks() == set()
    # The server notices the end of a session only after a moment.
    await until(lambda: conn.execute(SESSIONS).fetchone() == (1,))


async def test_unknown_topic_raises_before_the_block(conn: Connection, database: Target) -> None:
    app = Headrace()
    app.consumer("nowhere")(lambda event, tx: None)
    with pytest.raises(UnknownTopic, match="nowhere"):
        async with app.running([database]):
            pytest.fail("the block must not start")
    assert other_tasks() == set()


async def test_database_without_the_schema_raises(empty: Target) -> None:
    with pytest.raises(NotMigrated, match="headrace migrate"):
        async with Headrace().running(empty.dsn):
            pytest.fail("the block must not start")
    assert other_tasks() == set()


async def test_missing_step_of_the_schema_raises(conn: Connection, database: Target) -> None:
    conn.execute("delete from headrace_internal.migration where name = 'schema'")
    with pytest.raises(NotMigrated, match="headrace migrate"):
        async with Headrace().running(database.dsn):
            pytest.fail("the block must not start")
    assert other_tasks() == set()


async def test_unreachable_database_raises_after_the_stated_time() -> None:
    port = free_port()
    started = time.monotonic()
    with pytest.raises(DatabaseUnavailable, match=rf"did not start within 0.5 s.*{port}.*refused.*start_timeout_s"):
        async with Headrace().running(f"postgresql://postgres@127.0.0.1:{port}/x", start_timeout_s=0.5):
            pytest.fail("the block must not start")
    assert time.monotonic() - started < 5
    assert other_tasks() == set()


async def test_server_that_never_answers_raises_after_the_stated_time() -> None:
    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(DatabaseUnavailable, match="no answer yet"):
            async with Headrace().running(f"postgresql://postgres@127.0.0.1:{port}/x?connect_timeout=2", start_timeout_s=0.3):
                pytest.fail("the block must not start")


async def test_failed_loop_is_reported_once_and_health_recovers(shop: Shop, conn: Connection, database: Target) -> None:
    failures: list[LoopFailure] = []
    async with shop.app.running(database.dsn, on_failure=failures.append) as running:
        conn.execute("alter function headrace_internal.sequence_step rename to gone")
        await until(lambda: not running.health().is_healthy)
        publish(conn, "orders", "placed", 1)
        await until(lambda: any(failure.in_a_row >= 2 for failure in running.health().failures))
        [failure] = running.health().failures
        assert failure.loop == "sequencer" and "headrace_internal.sequence_step" in failure.error
        assert [(failure.loop, failure.in_a_row) for failure in failures] == [("sequencer", 1)]
        conn.execute("alter function headrace_internal.gone rename to sequence_step")
        await until(lambda: running.health().is_healthy)
        await until(lambda: shop.handled == [1])


async def test_callback_that_raises_stops_no_loop(shop: Shop, conn: Connection, database: Target) -> None:
    def complain(failure: LoopFailure) -> None:
        raise ValueError("the pager is broken")

    async with shop.app.running(database.dsn, on_failure=complain) as running:
        conn.execute("alter function headrace_internal.sequence_step rename to gone")
        await until(lambda: not running.health().is_healthy)
        conn.execute("alter function headrace_internal.gone rename to sequence_step")
        publish(conn, "orders", "placed", 1)
        await until(lambda: shop.handled == [1])


async def test_lost_database_is_reported_and_the_node_recovers(shop: Shop, conn: Connection, database: Target) -> None:
    failures: list[LoopFailure] = []
    with through_proxy(database) as (target, proxy):
        async with shop.app.running([target], on_failure=failures.append) as running:
            proxy.cut()
            await until(lambda: bool(failures))
            await until(lambda: running.health().is_healthy)
            publish(conn, "orders", "placed", 1)
            await until(lambda: shop.handled == [1])


async def test_running_handler_finishes_within_the_grace_time(conn: Connection, database: Target) -> None:
    conn.execute("create table done (n int)")
    app, started, may_end = Headrace(), asyncio.Event(), asyncio.Event()

    @app.handler("SLOW")
    async def slow(action: Action, tx: AsyncConnection) -> None:
        await tx.execute("insert into done values (1)")
        started.set()
        await may_end.wait()

    async with app.running(database.dsn):
        conn.execute("select headrace.send_action('SLOW')")
        await started.wait()
        asyncio.get_running_loop().call_later(0.2, may_end.set)
    assert conn.execute("select count(*) from done").fetchone() == (1,)


async def test_handler_that_outlasts_the_grace_time_is_rolled_back(conn: Connection, database: Target) -> None:
    conn.execute("create table done (n int)")
    app, started = Headrace(), asyncio.Event()

    @app.handler("ENDLESS")
    async def endless(action: Action, tx: AsyncConnection) -> None:
        await tx.execute("insert into done values (1)")
        started.set()
        await asyncio.Event().wait()

    begun = 0.0
    async with app.running(database.dsn, grace_s=0.3):
        conn.execute("select headrace.send_action('ENDLESS')")
        await started.wait()
        begun = time.monotonic()
    assert time.monotonic() - begun < 5
    assert conn.execute("select count(*) from done").fetchone() == (0,)
    assert other_tasks() == set()


async def test_error_in_the_block_stops_the_node_and_is_raised(shop: Shop, conn: Connection, database: Target) -> None:
    with pytest.raises(ZeroDivisionError):
        async with shop.app.running(database.dsn):
            raise ZeroDivisionError
    assert [node.state for node in list_nodes(conn, stopped=True)] == ["stopped"]
    assert other_tasks() == set()


async def test_cancelled_block_leaves_no_loop_behind(shop: Shop, database: Target) -> None:
    entered = asyncio.Event()

    async def serve() -> None:
        async with shop.app.running(database.dsn):
            entered.set()
            await asyncio.Event().wait()

    server = asyncio.create_task(serve())
    await entered.wait()
    server.cancel()
    with pytest.raises(asyncio.CancelledError):
        await server
    assert other_tasks() == set()


@pytest.mark.usefixtures("uncollected")
async def test_node_that_is_cancelled_during_its_start_leaves_nothing_behind(
    shop: Shop, conn: Connection, database: Target
) -> None:
    # They keep the errors that have ended them, and with these all that the node had in hand.
    starts = []
    for stage in range(8):
        starts.append(asyncio.create_task(Node(shop.app, [database]).run()))
        await asyncio.sleep(0.02 * stage)
        await cancel_tasks(starts[-1])
        assert other_tasks() == set(), f"cancelled after {0.02 * stage:g} s"
    assert [node.state for node in list_nodes(conn)] == [], "those that had registered have deregistered"
    await until(lambda: conn.execute(SESSIONS).fetchone() == (1,))
    assert all(start.cancelled() for start in starts)


async def test_role_that_only_handles_may_run_a_node_without_the_sequencer(conn: Connection, database: Target) -> None:
    topic(conn)
    conn.execute("drop role if exists embedded_worker")
    conn.execute("create role embedded_worker login")
    try:
        conn.execute("select headrace.grant_namespace('embedded_worker', 'default', 'work')")
        dsn = psycopg.conninfo.make_conninfo(database.dsn, user="embedded_worker")
        async with Headrace().running(dsn, sequencer=False) as running:
            assert running.health().is_healthy
    finally:
        conn.execute("drop owned by embedded_worker; drop role embedded_worker")
