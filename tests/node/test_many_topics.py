"""Many topics: what is idle costs nothing, and what works does not depend on how many others there are."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from headrace.consume import Batch, Failure, seek_consumer
from headrace.core import LoggedEvent
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import AsyncConnection, Connection, Server, Target, connect, migrate
from headrace.log.topics import create_topic, read_log
from headrace.node import Headrace, Node
from headrace.observe.history import event_history
from headrace.rules import Rule, create_rule
from tests.builders import drain, own_database, start_python
from tests.conftest import FAST, temporary_folder

pytestmark = pytest.mark.lane("pg18")

TRANSACTIONS_PER_S = 40
"""Of an idle node: sequencer, compilers, polls and workers of actions. Each loop by itself would make 400."""
WINDOW_S = 3.0


class Recorder:
    """Records the payloads it gets; raises on those it dislikes."""

    def __init__(self, *disliked: object) -> None:
        self.disliked = set(disliked)
        self.payloads: list[object] = []

    async def handle(self, event: LoggedEvent, _tx: AsyncConnection) -> None:
        if event.payload in self.disliked:
            raise ValueError(f"cannot handle {event.payload}")
        self.payloads.append(event.payload)

    async def handle_batch(self, events: list[LoggedEvent], _tx: AsyncConnection) -> None:
        self.payloads += [event.payload for event in events]


@asynccontextmanager
async def running(database: Target, app: Headrace) -> AsyncIterator[Node]:
    node = Node(app, [database], grace_s=5)
    task = asyncio.create_task(node.run())
    try:
        await node.wait_started()
        yield node
        assert not task.done(), "the node has ended by itself"
    finally:
        node.stop()
        await task


async def until(condition: Callable[[], bool], *, timeout_s: float = 30) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


def count_transactions(conn: Connection) -> int:
    row = conn.execute("select xact_commit from pg_stat_database where datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


def publish(conn: Connection, topic: str, n: int) -> None:
    conn.execute("select headrace.publish(%s, 'placed', to_jsonb(%s::int), p_key => 'k')", (topic, n))


def create_definitions(conn: Connection, topic: str) -> None:
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    create_rule(conn, Rule(name=f"rule-{topic}", topic=topic, event_type="placed", action="WORK"))
    for number in range(2):
        outputs = {"late": ActionOutput(action="WORK")}
        pattern = "push(late) {sequential {placed, after 1 h}}"
        create_correlator(conn, Correlator(name=f"c{number}-{topic}", topic=topic, key="key", pattern=pattern, outputs=outputs))


@pytest.mark.timeout(120)
async def test_idle_node_makes_a_few_transactions_however_much_it_has(conn: Connection, database: Target) -> None:
    app, recorder = Headrace(), Recorder()
    for number in range(10):
        create_topic(conn, f"t{number}", partitions=2)
        create_definitions(conn, f"t{number}")
        app.consumer(f"t{number}", name="single")(recorder.handle)
        app.consumer(f"t{number}", name="even", where="object::int % 2 = 0")(recorder.handle)
        app.consumer(f"t{number}", name="batch", batch=Batch(min=5, max=10, wait_s=0.1))(recorder.handle_batch)
    async with running(database, app) as node:
        publish(conn, "t3", 1)
        await until(lambda: len(recorder.payloads) == 2)
        async with asyncio.timeout(60):
            while True:
                before = count_transactions(conn)
                await asyncio.sleep(WINDOW_S)
                if (count := count_transactions(conn) - before) <= TRANSACTIONS_PER_S * WINDOW_S:
                    break
        assert count > 0, "the node does nothing at all"
        publish(conn, "t7", 2)
        await until(lambda: len(recorder.payloads) == 5)
        assert node.loop_failures == {}


@pytest.mark.timeout(120)
async def test_what_nobody_notifies_of_is_found(conn: Connection, database: Target) -> None:
    """A retry that becomes due, a dead letter to redrive, and a topic that was dropped and created again."""
    create_topic(conn, "orders")
    app, recorder = Headrace(), Recorder(1)
    failure = Failure.dead_letter(attempts=2, backoff_s=0.2)
    app.consumer("orders", name="c", failure=failure)(recorder.handle)
    async with running(database, app):
        publish(conn, "orders", 1)
        await until(lambda: conn.execute("select state from headrace.event_dead_letter").fetchone() == ("dead",))
        recorder.disliked.clear()
        conn.execute("update headrace_internal.dead_letter set state = 'redrive'")
        await until(lambda: recorder.payloads == [1])
        conn.execute("select headrace.drop_topic('orders', true)")
        create_topic(conn, "orders")
        publish(conn, "orders", 2)
        await until(lambda: recorder.payloads == [1, 2])


@pytest.mark.timeout(120)
async def test_partition_of_a_killed_node_is_taken_over_without_a_new_event(conn: Connection, database: Target) -> None:
    """The other node finds the partition locked while its topic falls asleep; nobody tells it when the lock ends."""
    create_topic(conn, "orders", partitions=2)
    conn.execute("create table held (pid int)")
    app, recorder = Headrace(), Recorder()
    app.consumer("orders", name="slow")(recorder.handle)
    holder = start_python("tests.node.processes", "hold", database.dsn, "holder")
    try:
        publish(conn, "orders", 1)
        drain(conn)
        await until(lambda: conn.execute("select count(*) from held").fetchone() == (1,), timeout_s=60)
        async with running(database, app):
            asleep = "select asleep and asleep_at < now() - interval '4 s' from headrace_internal.topic"
            await until(lambda: conn.execute(asleep).fetchone() == (True,), timeout_s=60)
            assert recorder.payloads == []
            os.kill(holder.pid, signal.SIGKILL)
            await until(lambda: recorder.payloads == [1])
    finally:
        holder.kill()
        holder.wait()


@pytest.fixture(scope="module")
def small_server() -> Iterator[Server]:
    """A server whose lock table has room for a few topics only, as an ordinary one has for a few hundred."""
    settings = {**FAST, "max_connections": "30", "max_locks_per_transaction": "10"}
    server = Server(temporary_folder(in_memory=True), settings=settings)
    server.start()
    yield server
    server.stop()


@pytest.mark.timeout(180)
async def test_work_on_a_topic_locks_nothing_of_the_others(small_server: Server) -> None:
    with own_database(small_server) as database, connect(database) as conn:
        migrate(conn)
        for number in range(60):
            create_topic(conn, f"t{number}", partitions=2)
        create_definitions(conn, "t3")
        app, recorder, picky = Headrace(), Recorder(), Recorder(7)
        app.consumer("t3", name="single")(recorder.handle)
        app.consumer("t3", name="picky", failure=Failure.dead_letter(attempts=1), ordered_by="topic")(picky.handle)
        async with running(database, app) as node:
            # One by one: after some calls the server considers a plan that would serve every topic.
            for number in range(1, 31):
                publish(conn, "t3", number)
                await until(lambda number=number: len(recorder.payloads) == number)  # type: ignore[misc]
            await until(lambda: node.fired == 30 and picky.payloads == [1, 2, 3, 4, 5, 6])
            for _ in range(12):
                events = read_log(conn, "t3")
                [history] = event_history(conn, events[7].id)
                assert (len(events), history.topic, history.position) == (30, "t3", 8)
            picky.disliked.clear()
            conn.execute("select headrace.redrive('t3', 'picky')")
            await until(lambda: len(picky.payloads) == 30)
            seek_consumer(conn, "t3", "single", "earliest")
            await until(lambda: len(recorder.payloads) == 60)
            assert node.loop_failures == {}
