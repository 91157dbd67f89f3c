"""A node keeps to its budget of connections, and slow handlers take them from nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from psycopg_pool import PoolTimeout

from headrace import Action, Event, Headrace
from headrace.core import Invalid, LoggedEvent
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import AsyncConnection, Connection, PoolShare, Target, divide_connections
from headrace.log.outbox import publish_many
from headrace.node import Node
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from tests.builders import topic

COUNT = "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"
WAIT_S = 30.0


class Running:
    """A node in this process, and the most connections that were ever seen while it ran."""

    def __init__(self, app: Headrace, database: Target, conn: Connection, connections: int) -> None:
        self.node = Node(app, [database], connections=connections)
        self.connections_max = 0
        self._conn = conn
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Running:
        self._task = asyncio.create_task(self.node.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.node.stop()
        assert self._task is not None
        await self._task

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                assert self._task is not None and not self._task.done()
                self.connections_max = max(self.connections_max, value(self._conn, COUNT))
                await asyncio.sleep(0.01)


def value(conn: Connection, statement: str) -> int:
    row = conn.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def shop(conn: Connection) -> Headrace:
    """Ten consumers, twenty handlers, rules, a correlator and a schedule."""
    app = Headrace()
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'; create table handled (who text)")

    async def consume(event: LoggedEvent, tx: AsyncConnection) -> None:
        await tx.execute("insert into handled values ('consumer')")

    async def handle(action: Action, tx: AsyncConnection) -> None:
        await tx.execute("insert into handled values ('handler')")

    for number in range(10):
        topic(conn, f"t{number}", partitions=4)
        app.consumer(f"t{number}", name=f"c{number}")(consume)
    for number in range(20):
        # Half of them have workers of their own.
        app.handler(f"A{number}", concurrency=4 if number % 2 else None)(handle)
        rule = Rule(name=f"r{number}", topic=f"t{number % 10}", event_type="e", action=f"A{number}", condition="true")
        create_rule(conn, rule)
    outputs = {"x": ActionOutput(action="A0")}
    create_correlator(conn, Correlator(name="pair", topic="t0", key="key", pattern="repeat {push(x) {e}}", outputs=outputs))
    create_schedule(conn, "often", cron="* * * * * *", topic="t0", type="tick")
    return app


async def test_ten_consumers_and_twenty_handlers_need_ten_connections(database: Target, conn: Connection) -> None:
    app = shop(conn)
    active = "select count(*) from headrace.rule where status = 'valid'"
    async with Running(app, database, conn, 10) as running:
        await running.until(lambda: value(conn, active) == 20)
        for number in range(10):
            publish_many(conn, [Event(topic=f"t{number}", type="e", key=str(key), payload={}) for key in range(50)])
        await running.until(lambda: value(conn, "select count(*) from handled where who = 'consumer'") >= 500)
        await running.until(lambda: value(conn, "select count(*) from handled where who = 'handler'") >= 1000)
        assert conn.execute("select metadata ->> 'connections' from headrace.node_state").fetchone() == ("10",)
    assert 5 <= running.connections_max <= 10


async def test_slow_handlers_stop_neither_the_loops_nor_the_consumers(database: Target, conn: Connection) -> None:
    """Every worker's handler hangs; events are still sequenced, rules fire, and a consumer handles them."""
    app = Headrace()
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    topic(conn, "orders", partitions=4)
    create_rule(conn, Rule(name="fast", topic="orders", event_type="e", action="OTHER", condition="true"))
    release, hanging = asyncio.Event(), []

    @app.handler("HANG", concurrency=8)
    async def hang(action: Action, tx: AsyncConnection) -> None:
        hanging.append(action.id)
        await release.wait()

    @app.consumer("orders")
    async def count(event: LoggedEvent, tx: AsyncConnection) -> None: ...

    async with Running(app, database, conn, 5) as running:
        for _ in range(8):
            conn.execute("select headrace.send_action('HANG', '{}')")
        await running.until(
            lambda: len(hanging) >= 1 and value(conn, "select count(*) from headrace.rule where status = 'valid'") == 1
        )
        publish_many(conn, [Event(topic="orders", type="e", key=str(key), payload={}) for key in range(20)])
        await running.until(lambda: running.node.handled == 20)
        await running.until(lambda: running.node.fired == 20)
        release.set()
        await running.until(lambda: running.node.actions >= 8)
    assert running.connections_max <= 5


class OneConnection:
    """A pool that always has a connection."""

    async def getconn(self) -> object:
        return object()

    async def putconn(self, conn: object) -> None: ...


async def test_who_waits_is_told_when_slow_handlers_hold_every_connection_and_not_while_the_queue_moves() -> None:
    share = PoolShare(OneConnection(), 1, name="a consumer", wait_s=0.2)  # type: ignore[arg-type]
    held = await share.getconn()
    with pytest.raises(
        PoolTimeout, match=r"a consumer found no free connection for 0 s: slow handlers hold all 1; raise --connections"
    ):
        await share.getconn()

    async def use() -> None:
        conn = await share.getconn()
        await asyncio.sleep(0.1)
        await share.putconn(conn)

    waiting = [asyncio.create_task(use()) for _ in range(6)]
    await share.putconn(held)
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("sequencer", [True, False])
@pytest.mark.parametrize("handlers", [0, 1, 5, 200])
def test_budget_is_never_exceeded_and_leaves_something_for_everybody(handlers: int, sequencer: bool) -> None:
    for connections in range(5, 80):
        budget = divide_connections(connections, handlers=handlers, sequencer=sequencer)
        assert budget.total <= connections
        assert budget.loops >= 2 and budget.handlers >= min(2, max(handlers, 1))
        assert 1 <= budget.share_of_long_steps() < budget.loops
    assert divide_connections(80, handlers=45).handlers == 45, "as many as the workers"


def test_too_small_a_budget_is_refused() -> None:
    with pytest.raises(Invalid, match=r"at least 5.*raise --connections"):
        divide_connections(4, handlers=1)
