"""Runners that are stepped by hand, so that no test sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from headrace.consume import Consumer, ConsumerRunner
from headrace.db import Subscription, Target, create_pool

Start = Callable[[Consumer], Awaitable[ConsumerRunner]]


@pytest.fixture
async def start(database: Target) -> AsyncIterator[Start]:
    """Registers a consumer and gives its runner; call handle_once as often as wanted."""
    own = create_pool(database, size=4)
    await own.open()

    async def begin(consumer: Consumer) -> ConsumerRunner:
        runner = ConsumerRunner(consumer, own, Subscription("headrace_log"), asyncio.Event())
        await runner.register()
        return runner

    yield begin
    await own.close()


async def run_dry(runner: ConsumerRunner, *, steps_max: int = 1000) -> int:
    """Handles until nothing is due; returns the number of steps."""
    for step in range(steps_max):
        if not await runner.handle_once():
            return step
    raise AssertionError(f"still busy after {steps_max} steps")
