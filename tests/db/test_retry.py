"""Loops go on when the database is back, and end when they are cancelled."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from headrace.db import Connection, cancel_tasks, retry_until_connected, run_to_end


async def test_task_that_loses_a_cancellation_ends_anyway() -> None:
    lost = 0

    async def ignore_two_cancellations() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                if lost == 2:
                    raise
                lost += 1

    loop = asyncio.create_task(ignore_two_cancellations())
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await cancel_tasks(loop)
    assert loop.cancelled() and lost == 2


async def test_clean_up_has_ended_when_its_task_has_ended_however_often_it_was_cancelled() -> None:
    is_clean = False

    async def clean_up() -> None:
        nonlocal is_clean
        await asyncio.sleep(0.5)
        is_clean = True

    async def loop() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await run_to_end(clean_up())

    async def node() -> None:
        task = asyncio.create_task(loop())
        try:
            await asyncio.Event().wait()
        finally:
            await cancel_tasks(task)

    task = asyncio.create_task(node())
    await asyncio.sleep(0.01)
    async with asyncio.timeout(5):
        await cancel_tasks(task)
    assert task.cancelled() and is_clean


@pytest.mark.lane("pg18")
@pytest.mark.parametrize(
    ("sqlstate", "is_retried"),
    [("25006", True), ("25P03", True), ("25P04", True), ("40P01", True), ("57P01", True), ("25001", False), ("HR001", False)],
)
async def test_step_is_retried_after_a_transient_error(conn: Connection, sqlstate: str, is_retried: bool) -> None:
    attempts = 0

    async def step() -> int:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            conn.execute(f"do $$ begin raise 'away' using errcode = '{sqlstate}'; end $$")
        return attempts

    if is_retried:
        assert await retry_until_connected("step", step) == 2
    else:
        with pytest.raises(psycopg.Error):
            await retry_until_connected("step", step)
