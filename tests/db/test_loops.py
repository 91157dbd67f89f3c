"""Loops: whatever a step raises, the loop goes on, and it ends when it is told to."""

from __future__ import annotations

import asyncio
import math

import psycopg
import pytest

from headrace.db import Connection, Loop, LoopMonitor, StopSignal, Subscription, cancel_tasks, is_transient, run_to_end
from headrace.db.loops import PAUSE_MAX_S, pause_s


class Step:
    """Fails with these errors, one after the other, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)

    async def __call__(self) -> str:
        if self._errors:
            raise self._errors.pop(0)
        return "done"


async def test_error_is_logged_when_it_changes_and_counted_each_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.db.loops.pause_s", lambda failures: 0.0)
    loop = Loop("sequencer")
    step = Step(*(ValueError("a") for _ in range(5)), KeyError("b"))
    assert await loop.retry(step) == "done"
    assert loop.failures == 6 and not loop.is_failing
    assert caplog.text.count("sequencer failed: ValueError: a") == 1
    assert caplog.text.count("sequencer failed: KeyError: 'b'") == 1


async def test_stop_signal_ends_the_retries() -> None:
    stop = StopSignal()
    asyncio.get_running_loop().call_soon(stop.set)
    loop = Loop("sequencer", stop)
    assert await asyncio.wait_for(loop.retry(Step(*(ValueError() for _ in range(1000)))), 5) is None


async def test_side_step_that_failed_a_moment_ago_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.db.loops.pause_s", lambda failures: 60.0)
    loop = Loop("trim")
    step = Step(ValueError())
    assert [await loop.attempt(step) for _ in range(3)] == [None, None, None]
    assert loop.failures == 1


def test_pauses_double_up_to_a_bound_with_jitter() -> None:
    assert all(0.05 <= pause_s(1) <= 0.1 for _ in range(50))
    assert all(PAUSE_MAX_S / 2 <= pause_s(10_000) <= PAUSE_MAX_S for _ in range(50))
    assert len({pause_s(10_000) for _ in range(5)}) > 1


async def run_counting(loop: Loop, rests_s: list[float | None], *, stop: StopSignal) -> list[float | None]:
    """Runs a loop whose steps return these rests one after the other; the last step sets the stop signal."""
    taken: list[float | None] = []

    async def step() -> float | None:
        taken.append(rests_s[len(taken)])
        if len(taken) == len(rests_s):
            stop.set()
        return taken[-1]

    loop._step = step
    async with asyncio.timeout(5):
        await loop.run()
    return taken


async def test_step_follows_at_once_while_there_may_be_more() -> None:
    stop = StopSignal()
    assert await run_counting(Loop("a", stop), [0, 0, 0, math.inf], stop=stop) == [0, 0, 0, math.inf]


async def test_stop_signal_wakes_every_loop_that_shares_a_subscription() -> None:
    stop, wake_up = StopSignal(), Subscription("news")
    tasks = [asyncio.create_task(Loop(str(n), stop, step=rest_until_woken, wake_up=wake_up).run()) for n in range(3)]
    tasks.append(asyncio.create_task(Loop("own", stop, step=rest_until_woken).run()))
    await asyncio.sleep(0.01)
    stop.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks)


async def rest_until_woken() -> float:
    return math.inf


async def test_wake_up_during_a_step_is_not_lost_and_one_before_it_makes_no_second_step() -> None:
    stop, steps = StopSignal(), 0

    async def step() -> float:
        nonlocal steps
        steps += 1
        if steps == 2:
            loop.wake()
        elif steps == 3:
            assert loop.is_notified
            asyncio.get_running_loop().call_later(0.05, stop.set)
        return 0 if steps == 1 else math.inf

    loop = Loop("a", stop, step=step)
    loop.wake()
    async with asyncio.timeout(5):
        await loop.run()
    assert steps == 3


async def test_loop_whose_task_is_cancelled_by_a_handler_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.db.loops.pause_s", lambda failures: 0.0)
    stop, steps = StopSignal(), 0

    async def step() -> float:
        nonlocal steps
        steps += 1
        if steps == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)
        stop.set()
        return 0

    loop = Loop("a", stop, step=step)
    async with asyncio.timeout(5):
        await loop.run()
    assert (steps, loop.failures) == (2, 1)


class Interrupt(BaseException):
    """What no `except Exception` catches."""


async def test_loop_that_no_exception_ended_says_what_did_and_starts_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.db.loops.pause_s", lambda failures: 0.0)
    stop, steps = StopSignal(), 0

    async def step() -> float:
        nonlocal steps
        steps += 1
        if steps == 1:
            raise Interrupt("by a library")
        stop.set()
        return 0

    loop = Loop("a", stop, step=step)
    async with asyncio.timeout(5):
        await loop.run()
    assert (steps, loop.failures) == (2, 1)
    assert "a failed: RuntimeError: the loop was ended by Interrupt: by a library, and not by its node" in caplog.text


async def test_loop_that_is_not_wanted_any_more_ends_and_fails_no_more() -> None:
    monitor, is_wanted = LoopMonitor(), True

    async def step() -> float:
        nonlocal is_wanted
        is_wanted = not monitor.failures()
        raise ValueError

    with monitor.watch():
        loop = Loop("a", step=step, is_wanted=lambda: is_wanted)
    async with asyncio.timeout(5):
        await loop.run()
    assert (loop.failures, monitor.failures()) == (2, [])


async def test_loop_that_is_wanted_again_before_it_has_ended_goes_on_without_a_failure() -> None:
    stop, steps, answers = StopSignal(), 0, [True, True, False]

    async def step() -> float:
        nonlocal steps
        steps += 1
        if steps == 2:
            stop.set()
        return 0

    loop = Loop("a", stop, step=step, is_wanted=lambda: not answers or answers.pop(0))
    async with asyncio.timeout(5):
        await loop.run()
    assert (steps, loop.failures) == (2, 0)


async def test_poll_rests_for_its_first_pause_although_it_was_woken() -> None:
    stop, started = StopSignal(), asyncio.get_running_loop().time()
    loop = Loop("a", stop, pauses_s=(0.1, 1), is_poll=True)
    asyncio.get_running_loop().call_soon(loop.wake)
    await run_counting(loop, [None, 0], stop=stop)
    assert 0.09 < asyncio.get_running_loop().time() - started < 1


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
    ("sqlstate", "transient"),
    [("25006", True), ("25P03", True), ("25P04", True), ("40P01", True), ("57P01", True), ("25001", False), ("HR001", False)],
)
def test_error_that_a_retry_may_mend_is_transient(conn: Connection, sqlstate: str, transient: bool) -> None:
    with pytest.raises(psycopg.Error) as caught:
        conn.execute(f"do $$ begin raise 'away' using errcode = '{sqlstate}'; end $$")
    assert is_transient(caught.value) == transient
