"""Namespaces take turns: many or slow definitions of one delay those of another by one turn at most."""

from __future__ import annotations

import asyncio

import pytest

from headrace.correlators import Correlator, CorrelatorEngine, create_correlator
from headrace.correlators.batches import BatchResult, WatchedCorrelator
from headrace.correlators.compiler import compile_correlator
from headrace.db import AsyncConnection, Connection, Pool, Subscription, Target, create_pool
from headrace.log import create_topic
from headrace.namespaces import create_namespace

pytestmark = pytest.mark.lane("pg18")


def write_correlators(conn: Connection, namespace: str, count: int) -> None:
    create_namespace(conn, namespace)
    create_topic(conn, "cars", namespace=namespace)
    for number in range(count):
        create_correlator(conn, Correlator(name=f"c{number}", topic="cars", pattern="push(x) {a}"), namespace=namespace)


class SlowEngine(CorrelatorEngine):
    """Records whose batches run. One ends when the test lets it, and there is always more to do after it."""

    def __init__(self, pool: Pool) -> None:
        self.written, self.appended, self.stop = Subscription("headrace_rule"), Subscription("headrace_log"), asyncio.Event()
        super().__init__(pool, self.written, self.appended, self.stop)
        self.turns: list[str] = []
        self.batch_ends = asyncio.Semaphore(0)

    async def step_once(self, watched: WatchedCorrelator, *, most: int | None = None) -> BatchResult | None:
        self.turns.append(watched.namespace)
        await self.batch_ends.acquire()
        return BatchResult(1, 0, 1)

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

    async def compile_slowly(own: AsyncConnection, correlator_id: int) -> int:
        if not compiled:
            # While the first is compiled, another namespace writes one, and it takes longer than a look at what is pending lasts.
            write_correlators(conn, "b", 1)
            await asyncio.sleep(0.11)
        compiled.append(correlator_id)
        return await compile_correlator(own, correlator_id)

    monkeypatch.setattr("headrace.correlators.engine.compile_correlator", compile_slowly)
    while await correlators.compile_once():
        pass
    by_id = dict(conn.execute("select correlator_id, namespace from headrace_internal.correlator").fetchall())
    namespaces = [by_id[correlator_id] for correlator_id in compiled]
    assert namespaces.index("b") <= 2, namespaces
    assert len(namespaces) == 11
