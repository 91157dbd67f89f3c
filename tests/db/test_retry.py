"""Loops go on when the database is back, and end when they are told to."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from headrace.db import Connection, end_loops, retry_until_connected


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


@pytest.mark.lane("pg18")
@pytest.mark.parametrize(
    ("sqlstate", "waits"),
    [("25006", True), ("25P03", True), ("25P04", True), ("40P01", True), ("57P01", True), ("25001", False), ("HR001", False)],
)
async def test_step_is_tried_again_where_waiting_may_help(conn: Connection, sqlstate: str, waits: bool) -> None:
    tried = 0

    async def step() -> int:
        nonlocal tried
        tried += 1
        if tried == 1:
            conn.execute(f"do $$ begin raise 'away' using errcode = '{sqlstate}'; end $$")
        return tried

    if waits:
        assert await retry_until_connected("step", step) == 2
    else:
        with pytest.raises(psycopg.Error):
            await retry_until_connected("step", step)
