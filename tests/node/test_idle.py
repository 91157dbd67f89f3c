"""Nothing to do costs almost nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.actions import Action, send_action, worker
from headrace.core import LoggedEvent
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import Server, Target, connect, migrate
from headrace.log.topics import create_topic
from headrace.node import Headrace
from headrace.relays import Relay, create_relay
from headrace.rules import Rule, create_rule
from tests.builders import drain, own_database, publish
from tests.conftest import FAST, temporary_folder

STATEMENTS_PER_S, WINDOW_S = 2.0, 10.0
STATEMENTS_PER_EVENT = 25


@pytest.fixture(scope="module")
def logging_server() -> Iterator[Server]:
    """A server that logs every statement."""
    server = Server(temporary_folder(in_memory=True), settings={**FAST, "log_statement": "all"})
    server.start()
    yield server
    server.stop()


def count_statements(log: Path) -> int:
    """How many statements clients have sent so far."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return text.count("LOG:  statement: ") + text.count("LOG:  execute ")


@pytest.mark.timeout(150)
async def test_idle_node_sends_at_most_two_statements_a_second(logging_server: Server) -> None:
    app, handled = Headrace(), asyncio.Event()

    @app.consumer("orders", name="mail")
    async def mail(event: LoggedEvent, tx: object) -> None: ...

    @app.handler("WORK")
    async def work(action: Action[object], tx: object) -> None:
        handled.set()

    with own_database(logging_server) as database, connect(database) as conn:
        migrate(conn)
        conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        create_topic(conn, "orders")
        create_rule(conn, Rule(name="r", topic="orders", event_type="placed", action="WORK"))
        outputs = {"late": ActionOutput(action="WORK")}
        pattern = "push(late) {sequential {placed, after 1 h}}"
        create_correlator(conn, Correlator(name="c", topic="orders", key="key", pattern=pattern, outputs=outputs))
        create_relay(
            conn, Relay(name="hook", topic="orders", target="webhook", options={"url": "https://example.com/"}, condition="false")
        )
        # Nobody runs it, so it is behind for ever.
        conn.execute("select headrace.create_consumer('orders', 'left')")
        log = logging_server.data / "server.log"
        async with app.running([database]), asyncio.timeout(120):
            statuses = "select status from headrace.rule union select status from headrace.correlator union select status from headrace.relay"
            while conn.execute(statuses).fetchall() != [("valid",)]:
                await asyncio.sleep(0.05)
            publish(conn, 1, key="k")
            drain(conn)
            await handled.wait()
            count = before = 0
            while not before or count > STATEMENTS_PER_S * WINDOW_S:
                before = count_statements(log)
                await asyncio.sleep(WINDOW_S)
                count = count_statements(log) - before
            assert count > 0, "the fallback polls stay"
            handled.clear()
            publish(conn, 2, key="k")
            await handled.wait()


@pytest.mark.timeout(120)
async def test_few_events_cost_few_statements_and_many_are_polled(logging_server: Server) -> None:
    """Up to some events a second a publisher notifies, which costs less than polls; the topic stays asleep. Above that it is awake."""
    app, handled = Headrace(), asyncio.Semaphore(0)

    @app.consumer("orders", name="mail")
    async def mail(event: LoggedEvent, tx: object) -> None:
        handled.release()

    with own_database(logging_server) as database, connect(database) as conn:
        migrate(conn)
        create_topic(conn, "orders")
        log = logging_server.data / "server.log"

        def is_asleep() -> bool:
            return conn.execute("select asleep from headrace.topic").fetchall() == [(True,)]

        async with app.running([database]), asyncio.timeout(100):
            publish(conn, 0)
            await handled.acquire()
            while not is_asleep():
                await asyncio.sleep(0.05)
            before = count_statements(log)
            for n in range(20):
                publish(conn, n)
                await handled.acquire()
                assert is_asleep()
                await asyncio.sleep(0.1)
            # Publishing, sequencing and handling, the watch after each event, and what an idle node asks anyway.
            assert count_statements(log) - before < 20 * STATEMENTS_PER_EVENT
            published = 0
            while await asyncio.to_thread(is_asleep):
                await asyncio.to_thread(publish, conn, published)
                published += 1
            for _ in range(published):
                await handled.acquire()


@pytest.mark.timeout(120)
async def test_notification_wakes_every_pool_of_workers(database: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    # Only a notification wakes them: with polls, an action waited up to ten seconds for those of its own pool.
    for pause in ("IDLE_S", "EMPTY_S"):
        monkeypatch.setattr(worker, pause, 3600)
    monkeypatch.setattr(worker, "POLL_S", ())
    app, handled = Headrace(), asyncio.Queue[str]()

    async def handle(action: Action[object], tx: object) -> None:
        handled.put_nowait(action.action)

    app.handler("SHARED")(handle)
    app.handler("SINGLE", attempts=1)(handle)
    app.handler("SLOW", concurrency=1)(handle)
    with connect(database) as conn:
        async with app.running([database]), asyncio.timeout(60):
            for name in ("SHARED", "SINGLE", "SLOW", "SLOW", "SINGLE", "SHARED") * 10:
                while conn.execute("select asleep from headrace_internal.queue").fetchall() != [(True,)]:
                    await asyncio.sleep(0.05)
                send_action(conn, name, {})
                assert await handled.get() == name
