"""The gate: who wants to be alone is, at most beside handlers that take too long, and everybody else goes on afterwards."""

from __future__ import annotations

import asyncio

import pytest

from headrace.consume import handler_gate


class Handler:
    """A handler that runs until it is told to end."""

    def __init__(self, *, is_alone: bool = False) -> None:
        self.is_running = False
        self._end = asyncio.Event()
        self.task = asyncio.create_task(self._run(is_alone=is_alone))

    async def _run(self, *, is_alone: bool) -> None:
        async with handler_gate().alone() if is_alone else handler_gate().shared():
            self.is_running = True
            await self._end.wait()
            self.is_running = False

    async def end(self) -> None:
        self._end.set()
        await self.task


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_wants_to_be_alone_waits_for_others_and_keeps_them_out() -> None:
    before = [Handler(), Handler()]
    await settle()
    suspects = [Handler(is_alone=True), Handler(is_alone=True)]
    after = Handler()
    await settle()
    assert [handler.is_running for handler in (*before, *suspects, after)] == [True, True, False, False, False]
    await before[0].end()
    assert not suspects[0].is_running
    await before[1].end()
    await settle()
    assert [handler.is_running for handler in (*suspects, after)] == [True, False, False]
    await suspects[0].end()
    await settle()
    assert suspects[1].is_running != after.is_running, "one of them goes on, the other waits"
    for handler in (suspects[1], after):
        await handler.end()


async def test_handler_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.consume.handler_calls.ALONE_WAIT_S", 0.01)
    slow = Handler()
    await settle()
    suspect = Handler(is_alone=True)
    async with asyncio.timeout(30):
        while not suspect.is_running:
            await asyncio.sleep(0.01)
    for handler in (suspect, slow):
        await handler.end()


async def test_cancelled_wait_opens_the_gate_again() -> None:
    slow = Handler()
    await settle()
    suspect = Handler(is_alone=True)
    await settle()
    suspect.task.cancel()
    await settle()
    other = Handler()
    await settle()
    assert other.is_running
    for handler in (other, slow):
        await handler.end()
