"""A node lets rules and correlators work in the steps of its sequencer, and wakes their loops only for what is left to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace.correlators import CorrelatorEngine
from headrace.db import Connection, Listener, StopSignal, Target, cancel_tasks, create_pool
from headrace.definitions import pass_members
from headrace.log.topics import Sequencer
from headrace.rules import RuleEngine
from tests.builders import topic

from .steps import firings, publish, sent, write
from .test_pass import OUTPUTS, PATTERN, break_rules


class CountingRules(RuleEngine):
    turns = 0

    async def fire_once(self, *args: Any) -> Any:
        self.turns += 1
        return await super().fire_once(*args)


class CountingCorrelators(CorrelatorEngine):
    turns = 0

    async def step_once(self, *args: Any, **options: Any) -> Any:
        self.turns += 1
        return await super().step_once(*args, **options)


class Spine:
    """Rules and correlators of a node as they run, and its sequencer, stepped by hand."""

    def __init__(self, database: Target) -> None:
        self.pool = create_pool(database, size=6)
        self.stop = StopSignal()
        self.listener = Listener(database)
        subscribe = self.listener.subscribe
        self.rules = CountingRules(self.pool, subscribe("headrace_rule"), subscribe("headrace_log"), self.stop)
        self.correlators = CountingCorrelators(self.pool, subscribe("headrace_rule"), subscribe("headrace_log"), self.stop)
        self.sequencer = Sequencer(self.pool, self.listener, self.stop, engines=(self.rules, self.correlators))
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def turns(self) -> int:
        return self.rules.turns + self.correlators.turns

    @property
    def places(self) -> list[tuple[int, int]]:
        return [*self.rules.pass_places, *self.correlators.pass_places]

    async def idle(self) -> None:
        """Waits until no loop has anything to do."""
        turns = -1
        while turns != (turns := self.turns):
            await asyncio.sleep(0.1)


@asynccontextmanager
async def running_spine(database: Target, *, listens: bool) -> AsyncIterator[Spine]:
    spine = Spine(database)
    await spine.pool.open()
    try:
        runs = [spine.rules.run(), spine.correlators.run(), *([spine.listener.run()] if listens else [])]
        spine.tasks = [asyncio.create_task(run) for run in runs]
        yield spine
    finally:
        spine.stop.set()
        await asyncio.wait_for(cancel_tasks(*spine.tasks), 10)
        await spine.pool.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def spine(conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Spine]:
    # Where many tests run at once, everything is slow.
    monkeypatch.setattr(pass_members, "JOIN_S", 60)
    monkeypatch.setattr(pass_members, "SLOW_S", 60)
    monkeypatch.setattr("headrace.log.topics.sequencer.PASS_MS", 60_000)
    topic(conn, "cars")
    write(conn, "all", "true")
    conn.execute(
        "insert into headrace.correlator (correlator, topic, pattern, outputs) values ('pairs', 'cars', %s, %s)",
        (PATTERN, OUTPUTS),
    )
    async with running_spine(database, listens=True) as spine:
        await until(lambda: len(spine.rules._loops) == len(spine.correlators._loops) == 1)
        yield spine


async def joined(spine: Spine, conn: Connection) -> int:
    """Publishes until both work in the pass; returns how many events that took."""
    for n in range(1, 30):
        publish(conn, "NEW_CAR", {"n": n})
        await spine.sequencer._sequence()
        await until(lambda n=n: spine.rules.firings == n and spine.correlators.events == n)  # type: ignore[misc]
        await spine.idle()
        if len(spine.places) == 2:
            return n
    raise AssertionError("they never joined")


async def test_first_events_go_the_ordinary_way_and_the_next_ones_wake_no_loop(spine: Spine, conn: Connection) -> None:
    assert spine.places == []
    first = await joined(spine, conn)
    turns = spine.turns
    for n in range(first + 1, first + 11):
        publish(conn, "NEW_CAR", {"n": n})
        await spine.sequencer._sequence()
        assert (spine.rules.firings, spine.correlators.events) == (n, n)
    # The message of the server has come, and a poll for what is due, perhaps.
    await asyncio.sleep(0.3)
    assert spine.turns == turns
    assert [position for _, _, position in firings(conn)] == list(range(1, first + 11))
    assert spine.correlators.outputs == (first + 10) // 2 == len(sent(conn)) - first - 10


async def test_steps_of_others_wake_the_loops(spine: Spine, conn: Connection) -> None:
    first = await joined(spine, conn)
    publish(conn, "NEW_CAR", {})
    conn.execute("select headrace.sequence()")
    await until(lambda: spine.rules.firings == spine.correlators.events == first + 1)


async def test_slow_rules_leave_the_pass(spine: Spine, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await joined(spine, conn)
    monkeypatch.setattr(pass_members, "SLOW_S", 0.005)
    monkeypatch.setattr(pass_members, "SLOW_APPENDS", 0)
    break_rules(conn, "cars", "select pg_sleep(0.04)::text")
    publish(conn, "NEW_CAR", {})
    await spine.sequencer._sequence()
    assert spine.rules.firings == first + 1 and spine.rules.pass_places == []
    publish(conn, "NEW_CAR", {})
    await spine.sequencer._sequence()
    assert spine.rules.firings == first + 1
    await until(lambda: spine.rules.firings == first + 2)
    await spine.idle()
    assert spine.rules.pass_places == []


async def test_failing_rules_leave_the_pass_and_record_their_error_the_ordinary_way(spine: Spine, conn: Connection) -> None:
    first = await joined(spine, conn)
    break_rules(conn, "cars", "select (1 / (l.position - l.position))::text")
    publish(conn, "NEW_CAR", {})
    await spine.sequencer._sequence()
    assert spine.rules.pass_places == [] and len(spine.correlators.pass_places) == 1
    assert spine.correlators.events == first + 1
    await until(lambda: conn.execute("select from headrace.cursor where error is not null").fetchone() is not None)


async def test_step_that_fails_as_a_whole_is_repeated_as_an_append_alone(spine: Spine, conn: Connection) -> None:
    first = await joined(spine, conn)
    conn.execute(
        "create function public.fail() returns trigger language plpgsql as $$ begin raise exception 'at the commit'; end $$"
    )
    conn.execute(
        "create constraint trigger fail after insert on headrace_internal.firing deferrable initially deferred "
        "for each row execute function public.fail()"
    )
    publish(conn, "NEW_CAR", {})
    with pytest.raises(Exception, match="at the commit"):
        await spine.sequencer._sequence()
    assert spine.places == []
    assert [topic.events for topic in await spine.sequencer._sequence()] == [1]
    conn.execute("drop trigger fail on headrace_internal.firing")
    conn.execute("select headrace.resume('consumer', 'cars/headrace.rules')")
    await until(lambda: spine.rules.firings == first + 1)


async def test_what_is_left_by_the_pass_wakes_its_loop(spine: Spine, conn: Connection, second: Connection) -> None:
    first = await joined(spine, conn)
    (id_,) = conn.execute("select headrace.topic_id('cars')").fetchone()  # type: ignore[misc]
    with second.transaction():
        second.execute("select headrace_internal.begin_compilation(%s, 'headrace.rules', true)", (id_,))
        publish(conn, "NEW_CAR", {})
        await spine.sequencer._sequence()
        assert spine.rules.pass_places == [] and spine.correlators.events == first + 1
    await until(lambda: spine.rules.firings == first + 1)
