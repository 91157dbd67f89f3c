"""Pause and resume: nothing new starts, nothing is lost, and everything goes on exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from headrace.actions import (
    Action,
    ActionHandlers,
    deliver_pending,
    list_dead_letters,
    list_pauses,
    list_queued,
    pause,
    queue_state,
    resume,
    run_actions_now,
    send_action,
    send_pending,
)
from headrace.consume import Consumer, ConsumerRunner, Failure, consumer_lag, resume_consumer
from headrace.core import Invalid, LoggedEvent, NotFound, UnknownConsumer, UnknownCorrelator, UnknownRule
from headrace.correlators import ActionOutput, Correlator, CorrelatorEngine, create_correlator, list_correlators
from headrace.db import AsyncConnection, Connection, StopSignal, Subscription, Target, connect, connect_async
from headrace.node import Headrace, Node
from headrace.rules import list_rules
from tests.actions.conftest import Bench, Picky, run_dry, send, waiting, write
from tests.builders import fill, publish, shift_clock, topic, wait_until
from tests.correlators.steps import happen, pushed, settle_correlators
from tests.rules.conftest import correlating, reacting
from tests.rules.steps import settle

LATE = "repeat {push(late) {sequential {departed, fail {within 10 s {arrived}}}}}"
Effects = Callable[[], list[object]]


def rule(conn: Connection, name: str, *, timing: str = "after", delay_s: int = 0) -> None:
    conn.execute(
        """insert into headrace.rule (rule, topic, event_type, action, timing, delay_s)
           values (%s, 'orders', 'placed', 'work', %s, %s)""",
        (name, timing, delay_s),
    )


async def test_paused_action_is_not_claimed_and_others_are(conn: Connection, bench: Bench, effects: Effects) -> None:
    conn.execute("insert into headrace.action (namespace, action) values ('default', 'work')")
    assert pause(conn, "action", "work", reason="provider is down") and not pause(conn, "action", "work")
    send(conn, 1, 2)
    send(conn, 3, action="rest")
    await run_dry(bench.worker(write))
    await run_dry(bench.worker(write, ordered=True))
    await run_dry(bench.worker(write, action="rest"))
    assert effects() == [3]
    [paused] = list_pauses(conn)
    assert (paused.kind, paused.name, paused.reason, bool(paused.paused_by)) == ("action", "work", "provider is down", True)
    assert resume(conn, "action", "work") == 1 and resume(conn, "action", "work") == 0
    await run_dry(bench.worker(write))
    assert effects() == [3, 1, 2] and list_pauses(conn) == []


async def test_paused_action_waits_for_its_retry(conn: Connection, bench: Bench, effects: Effects) -> None:
    picky = Picky(1)
    send(conn, 1)
    worker = bench.worker(picky.handle, attempts=3)
    await run_dry(worker)
    pause(conn, "action", "work")
    run_actions_now(conn, state="retrying")
    picky.disliked.clear()
    await run_dry(worker)
    assert picky.payloads == [1]
    resume(conn, "action", "work")
    await run_dry(worker)
    assert effects() == [1]


async def test_paused_queue_delivers_nothing(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1)
    send(conn, 2, action="rest")
    assert pause(conn, "queue")
    for action in ("work", "rest"):
        await run_dry(bench.worker(write, action=action))
    assert effects() == [] and queue_state(conn).paused
    assert resume(conn, "queue") == 1
    for action in ("work", "rest"):
        await run_dry(bench.worker(write, action=action))
    assert effects() == [1, 2] and not queue_state(conn).paused


@pytest.mark.parametrize("kind", ["action", "queue"])
async def test_paused_actions_that_no_node_handles_are_not_buried(conn: Connection, bench: Bench, kind: str) -> None:
    send(conn, 1, 2)
    send(conn, 3, action="rest")
    pause(conn, kind, "work" if kind == "action" else "")  # type: ignore[arg-type]
    shift_clock(conn, "1 hour")
    buried = conn.execute("select headrace.bury_unhandled()").fetchone()
    shift_clock(conn, "0")
    assert buried == ((1,) if kind == "action" else (0,))
    assert waiting(conn) == ([1, 2] if kind == "action" else [1, 2, 3])
    assert len(list_dead_letters(conn)) == (1 if kind == "action" else 0)


async def test_backlog_of_a_paused_action_is_set_aside_and_keeps_its_order(
    conn: Connection, bench: Bench, effects: Effects
) -> None:
    """Otherwise every claim of another action would walk over it."""
    conn.execute(
        """select headrace.send_actions('default', array_agg(jsonb_build_object('id', gen_random_uuid(), 'action', 'work',
               'payload', n, 'key', 'k'))) from generate_series(1, 300) n"""
    )
    pause(conn, "action", "work")
    send(conn, 0, action="rest")
    conn.execute("select headrace.bury_unhandled(3600)")
    state = queue_state(conn)
    assert (state.held, state.due, state.queued) == (300, 1, 301)
    assert {action.state for action in list_queued(conn, action="work", limit=None)} == {"held"}
    await run_dry(bench.worker(write, action="rest"))
    assert resume(conn, "action", "work") == 300
    await run_dry(bench.worker(write, ordered=True))
    assert effects() == [0, *range(1, 301)]


async def test_paused_action_is_not_delivered_directly(conn: Connection, database: Target, effects: Effects) -> None:
    handlers = {"work": ActionHandlers(action="work", handlers=(write,))}
    send(conn, 0)
    pause(conn, "action", "work")
    async with await connect_async(database) as sender:
        pending = await send_pending(sender, "work", 1)
        assert not await deliver_pending(sender, pending, handlers)
    assert effects() == [] and waiting(conn) == [0, 1]


@pytest.mark.parametrize("timing", ["after", "inline"])
async def test_paused_rule_fires_and_its_actions_are_held_until_it_is_resumed(
    conn: Connection, database: Target, bench: Bench, effects: Effects, timing: str
) -> None:
    topic(conn)
    rule(conn, "held", timing=timing)
    async with reacting(database) as engine:
        await settle(engine, conn)
        assert pause(conn, "rule", "held")
        for n in range(3):
            publish(conn, n, type="placed")
        await settle(engine, conn)
        worker = bench.worker(write)
        await run_dry(worker)
        assert effects() == [] and queue_state(conn).held == 3
        assert conn.execute("select count(*) from headrace.firing").fetchone() == (3,)
        assert [state.paused for state in list_rules(conn)] == [True]
        assert {action.due_at for action in list_queued(conn, state="held")} == {None}
        assert resume(conn, "rule", "held") == 3
        publish(conn, 3, type="placed")
        await settle(engine, conn)
        await run_dry(worker)
    assert effects() == [0, 1, 2, 3] and [state.paused for state in list_rules(conn)] == [False]


async def test_only_the_paused_rule_is_held_and_its_delay_is_kept(conn: Connection, database: Target) -> None:
    topic(conn)
    rule(conn, "late", delay_s=3600)
    rule(conn, "other")
    async with reacting(database) as engine:
        await settle(engine, conn)
        pause(conn, "rule", "late")
        publish(conn, 1, type="placed")
        await settle(engine, conn)
    assert sorted(action.state for action in list_queued(conn)) == ["due", "held"]
    resume(conn, "rule", "late")
    [delayed] = list_queued(conn, state="delayed")
    assert delayed.due_at is not None and timedelta(minutes=59) < delayed.due_at - delayed.sent_at < timedelta(minutes=61)


def test_resume_waits_for_a_publisher_whose_rule_is_held(conn: Connection, database: Target) -> None:
    """An action that is held by a transaction still open would stay held for ever if the resume did not wait for it."""

    async def compile_rules() -> None:
        async with reacting(database) as engine:
            await settle(engine, conn)

    topic(conn)
    rule(conn, "held", timing="inline")
    asyncio.run(compile_rules())
    pause(conn, "rule", "held")
    with connect(database) as publisher, connect(database) as operator:
        publisher.autocommit = False
        publish(publisher, 1, type="placed")
        operator.execute("set lock_timeout = '100ms'")
        with pytest.raises(Exception, match="lock timeout"):
            resume(operator, "rule", "held")
        publisher.commit()
        assert resume(operator, "rule", "held") == 1
    assert queue_state(conn).held == 0


async def test_action_held_twice_waits_for_both(conn: Connection, database: Target) -> None:
    topic(conn)
    rule(conn, "held")
    async with reacting(database) as engine:
        await settle(engine, conn)
        pause(conn, "rule", "held")
        pause(conn, "action", "work")
        publish(conn, 1, type="placed")
        await settle(engine, conn)
    resume(conn, "action", "work")
    assert queue_state(conn).held == 1
    resume(conn, "rule", "held")
    assert queue_state(conn).due == 1


@pytest.mark.parametrize("ordered_by", ["partition", "topic"])
async def test_paused_consumer_stays_at_its_position(conn: Connection, bench: Bench, ordered_by: str) -> None:
    topic(conn, partitions=3)
    seen: list[object] = []

    async def handle(event: LoggedEvent, tx: AsyncConnection) -> None:
        seen.append(event.payload)

    consumer = Consumer(topic="orders", name="billing", handler=handle, ordered_by=ordered_by)  # type: ignore[arg-type]
    runner = ConsumerRunner(consumer, bench.pool, Subscription("headrace_log"), StopSignal())
    await runner.register()
    fill(conn, 20, keys=5)
    assert pause(conn, "consumer", "orders/billing")
    assert await runner.handle_once() == 0
    assert {lag.state for lag in consumer_lag(conn)} == {"paused"}
    fill(conn, 20, keys=5)
    assert resume_consumer(conn, "orders", "billing") == (3 if ordered_by == "partition" else 1)
    while await runner.handle_once():
        pass
    assert len(seen) == 40 and {lag.lag_events for lag in consumer_lag(conn)} == {0}
    assert {lag.state for lag in consumer_lag(conn)} == {"idle"}  # no node runs it in this test


async def test_paused_consumer_redrives_nothing(conn: Connection, bench: Bench) -> None:
    topic(conn)
    fails = True

    async def handle(event: LoggedEvent, tx: AsyncConnection) -> None:
        if fails:
            raise ValueError("no")

    consumer = Consumer(topic="orders", name="billing", handler=handle, failure=Failure.dead_letter(attempts=1))
    runner = ConsumerRunner(consumer, bench.pool, Subscription("headrace_log"), StopSignal())
    await runner.register()
    fill(conn, 1)
    await runner.handle_once()
    conn.execute("select headrace.redrive('orders', 'billing')")
    pause(conn, "consumer", "orders/billing")
    assert not await runner.redrive_once()
    fails = False
    resume(conn, "consumer", "orders/billing")
    assert await runner.redrive_once()


async def test_rules_of_a_topic_pause_as_its_consumer(conn: Connection, database: Target) -> None:
    topic(conn)
    rule(conn, "all")
    async with reacting(database) as engine:
        await settle(engine, conn)
        assert pause(conn, "consumer", "orders/headrace.rules")
        publish(conn, 1, type="placed")
        assert await settle(engine, conn) == 0
        assert resume(conn, "consumer", "orders/headrace.rules") == 1
        assert await settle(engine, conn) == 1


async def test_paused_correlator_keeps_its_place_and_its_timers(conn: Connection, database: Target) -> None:
    topic(conn, "cars")
    late = Correlator(name="late", topic="cars", key="key", pattern=LATE, outputs={"late": ActionOutput(action="LATE")})
    create_correlator(conn, late)
    async with correlating(database) as engine:
        await settle_correlators(engine, conn)
        happen(conn, "departed:k departed:l")
        await settle_correlators(engine, conn)
        assert pause(conn, "correlator", "late")
        await move_clock(conn, engine, "1 minute")
        happen(conn, "arrived:k departed:m arrived:m")
        assert await settle_correlators(engine, conn) == 0
        [watched] = await engine.watched()
        assert await engine.turn(watched) >= 0.5, "the loop must not spin at a timer that is due"
        assert [state.paused for state in list_correlators(conn)] == [True]
        assert resume(conn, "correlator", "late") == 1
        assert await settle_correlators(engine, conn) == 2
    assert sorted((key, token) for _, _, key, token, _, _ in pushed(conn)) == [("k", "late"), ("l", "late")]
    assert queue_state(conn).due == 2


async def move_clock(conn: Connection, engine: CorrelatorEngine, by: str) -> None:
    """Moves the clock of the test's session and of the engine's."""
    shift_clock(conn, by)
    async with engine._pool.connection() as own:
        await own.execute("select set_config('headrace.clock_shift', %s, false)", (by,))


def test_paused_schedule_is_listed(conn: Connection) -> None:
    topic(conn)
    conn.execute("insert into headrace.schedule (schedule, cron, topic, type) values ('daily', '0 6 * * *', 'orders', 'due')")
    assert pause(conn, "schedule", "daily") and not pause(conn, "schedule", "daily")
    assert [(one.kind, one.name) for one in list_pauses(conn)] == [("schedule", "daily")]
    assert resume(conn, "schedule", "daily") == 1 and list_pauses(conn) == []


def test_unknown_subjects_are_errors(conn: Connection) -> None:
    topic(conn)
    for kind, name, error in (
        ("consumer", "orders/nobody", UnknownConsumer),
        ("consumer", "orders", Invalid),
        ("rule", "none", UnknownRule),
        ("correlator", "none", UnknownCorrelator),
        ("schedule", "none", NotFound),
        ("action", "MIAL", NotFound),
        ("queue", "default", Invalid),
        ("action", "", Invalid),
        ("topic", "orders", Invalid),
    ):
        for verb in (pause, resume):
            with pytest.raises(error):
                verb(conn, kind, name)  # type: ignore[operator]


def test_pause_ends_with_its_subject(conn: Connection) -> None:
    topic(conn)
    rule(conn, "r")
    conn.execute("select headrace.create_consumer('orders', 'billing')")
    pause(conn, "rule", "r")
    pause(conn, "consumer", "orders/billing")
    conn.execute("delete from headrace.rule")
    conn.execute("select headrace.drop_consumer('orders', 'billing')")
    assert list_pauses(conn) == []


async def test_running_node_pauses_within_a_second_and_goes_on_exactly_once(conn: Connection, database: Target) -> None:
    """Under load: what was handled is handled once, nothing is handled while paused, and nothing is missing at the end."""
    topic(conn, partitions=2)
    conn.execute("create table seen (what text, n int)")
    app = Headrace()

    @app.consumer("orders")
    async def billing(event: LoggedEvent, tx: AsyncConnection) -> None:
        await tx.execute("insert into seen values ('event', %s)", (event.payload,))

    @app.handler("work")
    async def work(action: Action, tx: AsyncConnection) -> None:
        await tx.execute("insert into seen values ('action', %s)", (action.payload,))

    def count() -> tuple[object, ...]:
        return conn.execute("select count(*), count(distinct (what, n)) from seen").fetchone() or ()

    def load(first: int) -> None:
        for n in range(first, first + 50):
            publish(conn, n)
            send_action(conn, "work", n)

    node = Node(app, [database])
    running = asyncio.create_task(node.run())
    try:
        load(0)
        await asyncio.to_thread(wait_until, lambda: count() == (100, 100), "the first events and actions")
        pause(conn, "consumer", "orders/billing")
        pause(conn, "queue")
        load(50)
        await asyncio.to_thread(wait_until, lambda: sum(lag.lag_events for lag in consumer_lag(conn)) == 50, "the log")
        await asyncio.sleep(0.3)
        assert count() == (100, 100)
        resume(conn, "consumer", "orders/billing")
        resume(conn, "queue")
        await asyncio.to_thread(wait_until, lambda: count() == (200, 200), "the rest")
    finally:
        node.stop()
        await running
    assert count() == (200, 200)
