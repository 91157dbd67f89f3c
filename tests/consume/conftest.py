"""Runners that tests step by hand, so that no test sleeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from headrace.consume import Consumer, ConsumerRunner, Failure
from headrace.db import Connection, StopSignal, Subscription, Target, create_pool
from tests.builders import topic
from tests.consume.desk import CountingRunner, Desk, Recorder, desk_of, publish_many

Start = Callable[[Consumer], Awaitable[ConsumerRunner]]


@pytest.fixture
async def start(database: Target) -> AsyncIterator[Start]:
    """Registers a consumer and returns its runner; the test calls handle_once."""
    pool = create_pool(database, size=4)
    await pool.open()

    async def begin(consumer: Consumer) -> ConsumerRunner:
        runner = ConsumerRunner(consumer, pool, Subscription("headrace_log"), StopSignal())
        await runner.register()
        return runner

    yield begin
    await pool.close()


@pytest.fixture
async def desk(database: Target) -> AsyncIterator[Desk]:
    async with desk_of(database) as desk:
        yield desk


@pytest.fixture
async def in_hand(conn: Connection, desk: Desk) -> tuple[CountingRunner, Recorder]:
    """A consumer that has handled the events 1 and 2, and has 3 to 6, with the keys k0 and k1, in hand."""
    topic(conn)
    recorder = Recorder()
    runner = await desk.caught_up(recorder.consumer(failure=Failure.dead_letter(attempts=1, key_order="hold")))
    for first, count in ((1, 2), (3, 3), (6, 1)):
        publish_many(conn, first, count, keys=2)
        await desk.sequence()
        if first == 1:
            await run_dry(runner)
    assert recorder.numbers == [1, 2] and runner.takes_appended
    return runner, recorder


async def run_dry(runner: ConsumerRunner, *, steps_max: int = 1000) -> int:
    """Handles batches until nothing is due; returns their number."""
    for step in range(steps_max):
        if not await runner.handle_once():
            return step
    raise AssertionError(f"still busy after {steps_max} steps")
