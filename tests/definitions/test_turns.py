"""Namespaces take turns: many or slow definitions of one delay those of another by one turn at most."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.correlators import Correlator, CorrelatorEngine, create_correlator
from headrace.correlators.analysis_process import KnownAnswers, Question
from headrace.correlators.batches import BatchResult, WatchedCorrelator
from headrace.correlators.compiler import compile_correlator
from headrace.db import AsyncConnection, Connection, Pool, StopSignal, Subscription, Target, create_namespace, create_pool
from headrace.log.topics import create_topic

pytestmark = pytest.mark.lane("pg18")


def write_correlators(conn: Connection, namespace: str, count: int) -> None:
    create_namespace(conn, namespace)
    create_topic(conn, "cars", namespace=namespace)
    for number in range(count):
        create_correlator(conn, Correlator(name=f"c{number}", topic="cars", pattern="push(x) {a}"), namespace=namespace)


def create_correlator_version(conn: Connection, namespace: str) -> None:
    conn.execute("update headrace.correlator set pattern = 'push(x) {b}' where namespace = %s", (namespace,))


class SlowEngine(CorrelatorEngine):
    """Records whose batches run. One ends when the test lets it, and there is always more to do after it."""

    def __init__(self, pool: Pool) -> None:
        self.written, self.stop = Subscription("headrace_rule"), StopSignal()
        super().__init__(pool, self.written, Subscription("headrace_log"), self.stop)
        self.turns: list[str] = []
        self.batch_ends = asyncio.Semaphore(0)

    async def step_once(self, watched: WatchedCorrelator, *, limit: int | None = None) -> BatchResult | None:
        self.turns.append(watched.namespace)
        await self.batch_ends.acquire()
        return BatchResult(1, 0, 1, has_more=True)

    async def wait_for_turns(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.turns) < count:
                await asyncio.sleep(0.01)

    def end(self) -> None:
        self.stop.set()
        self.written.notify()
        self.appended.notify()
        for _ in range(100):
            self.batch_ends.release()


async def test_slow_batches_of_one_namespace_delay_another_by_one_turn(conn: Connection, database: Target) -> None:
    write_correlators(conn, "a", 6)
    write_correlators(conn, "b", 1)
    async with create_pool(database, size=4) as pool:
        engine = SlowEngine(pool)
        await engine.compile_once()
        running = asyncio.create_task(engine.run())
        await engine.wait_for_turns(2)
        engine.batch_ends.release()
        await engine.wait_for_turns(3)
        assert engine.turns == ["a", "a", "b"]
        engine.end()
        await running


async def test_forged_notification_ends_no_loop(conn: Connection, database: Target) -> None:
    """Every role may notify, with whatever payload."""
    write_correlators(conn, "a", 1)
    async with create_pool(database, size=4) as pool:
        engine = SlowEngine(pool)
        await engine.compile_once()
        running = asyncio.create_task(engine.run())
        await engine.wait_for_turns(1)
        for name in ("x", "", "-1", "\u00b2", "9" * 5000):
            engine.appended.notify([name])
        engine.batch_ends.release()
        await engine.wait_for_turns(2)
        engine.end()
        await running


async def test_many_definitions_of_one_namespace_delay_the_compilation_of_another_by_one_turn(
    conn: Connection, correlators: CorrelatorEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_correlators(conn, "a", 10)
    compiled: list[int] = []

    async def compile_slowly(own: AsyncConnection, correlator_id: int, **options: Any) -> int:
        if not compiled:
            # While the first is compiled, another namespace writes one, and it takes longer than a look at what is pending lasts.
            write_correlators(conn, "b", 1)
            await asyncio.sleep(0.11)
        compiled.append(correlator_id)
        return await compile_correlator(own, correlator_id, **options)

    monkeypatch.setattr("headrace.correlators.engine.compile_correlator", compile_slowly)
    while await correlators.compile_once():
        pass
    by_id = dict(conn.execute("select correlator_id, namespace from headrace_internal.correlator").fetchall())
    namespaces = [by_id[correlator_id] for correlator_id in compiled]
    assert namespaces.index("b") <= 2, namespaces
    assert len(namespaces) == 11


TIMERS = ", ".join(f"sequential {{e{number}, after {number + 1} s, f{number}}}" for number in range(8))
LONG = f"repeat {{push(x) {{accumulate {{{TIMERS}}}}}}}"
"""Its feedback is analysed in a process of its own."""
EVENT, ACTION = '{"x": {"event": "done", "topic": "cars"}}', '{"x": {"action": "A"}}'


def write_pattern(conn: Connection, namespace: str, name: str, pattern: str, outputs: str) -> None:
    """As an admin writes it who does not use the library."""
    statement = (
        "insert into headrace.correlator (correlator, topic, pattern, outputs, namespace) values (%s, 'cars', %s, %s::jsonb, %s)"
    )
    conn.execute(statement, (name, pattern, outputs, namespace))


def compiled_of(conn: Connection, namespace: str) -> int:
    """How many correlators of a namespace have been compiled."""
    rows = conn.execute(
        "select 1 from headrace_internal.correlator where namespace = %s and status <> 'pending'", (namespace,)
    ).fetchall()
    return len(rows)


async def test_long_analysis_of_one_namespace_delays_no_other(
    conn: Connection, correlators: CorrelatorEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for namespace in ("a", "b"):
        write_correlators(conn, namespace, 0)
    has_begun = asyncio.Event()
    ask, asked = KnownAnswers.ask, 0

    async def ask_slowly(known: KnownAnswers, question: Question) -> None:
        """The process ends once the correlators of the other namespace have been compiled."""
        nonlocal asked
        has_begun.set()
        while compiled_of(conn, "b") < 2:
            await asyncio.sleep(0.01)
        asked += 1
        await ask(known, question)

    monkeypatch.setattr(KnownAnswers, "ask", ask_slowly)
    for name in ("first", "second"):
        write_pattern(conn, "a", name, LONG, EVENT)
    async with asyncio.timeout(60):
        compiling = asyncio.create_task(correlators.compile_once())
        await has_begun.wait()
        # One of them needs the lock that keeps two compilers from closing a loop together.
        write_pattern(conn, "b", "plain", "push(x) {a}", ACTION)
        write_pattern(conn, "b", "feeding", "push(x) {a}", EVENT)
        assert await compiling == 4
    assert asked >= 2
    assert {row[0] for row in conn.execute("select status from headrace_internal.correlator")} == {"valid"}


async def test_lock_that_one_namespace_holds_delays_no_other(
    conn: Connection, second: Connection, correlators: CorrelatorEngine
) -> None:
    for namespace in ("a", "b"):
        write_correlators(conn, namespace, 1)
    await correlators.compile_once()
    for namespace in ("a", "b"):
        create_correlator_version(conn, namespace)
    async with asyncio.timeout(60):
        with second.transaction():
            # As the namespace's own role holds it: by headrace.resume in a transaction that stays open.
            second.execute(
                """select from headrace_internal.cursor u join headrace_internal.consumer c using (consumer_id)
                join headrace_internal.topic t using (topic_id) where t.namespace = 'a' for update of u"""
            )
            compiling = asyncio.create_task(correlators.compile_once())
            while compiled_of(conn, "b") < 1:
                await asyncio.sleep(0.01)
            assert compiled_of(conn, "a") == 0
        assert await compiling == 2
