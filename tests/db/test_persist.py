"""Loops end when they are told to."""

from __future__ import annotations

import asyncio

from headrace.db import end_loops


async def test_loop_that_loses_a_cancellation_ends_all_the_same() -> None:
    lost = 0

    async def deaf_at_first() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                if lost == 2:
                    raise
                lost += 1

    loop = asyncio.create_task(deaf_at_first())
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await end_loops(loop)
    assert loop.cancelled() and lost == 2
