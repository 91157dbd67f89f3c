"""Runners that tests step by hand, so that no test sleeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from headrace.consume import Consumer, ConsumerRunner
from headrace.db import StopSignal, Subscription, Target, create_pool

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


async def run_dry(runner: ConsumerRunner, *, steps_max: int = 1000) -> int:
    """Handles batches until nothing is due; returns their number."""
    for step in range(steps_max):
        if not await runner.handle_once():
            return step
    raise AssertionError(f"still busy after {steps_max} steps")
