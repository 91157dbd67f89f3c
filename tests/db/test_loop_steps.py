"""Steps of a loop: whatever they raise, the loop goes on."""

from __future__ import annotations

import asyncio

import pytest

from headrace.db import LoopSteps
from headrace.db.retry import PAUSE_MAX_S, pause_s


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
    monkeypatch.setattr("headrace.db.retry.pause_s", lambda failures: 0.0)
    steps = LoopSteps("sequencer")
    step = Step(*(ValueError("a") for _ in range(5)), KeyError("b"))
    assert await steps.run(step) == "done"
    assert steps.failures == 6 and not steps.is_failing
    assert caplog.text.count("sequencer failed: ValueError: a") == 1
    assert caplog.text.count("sequencer failed: KeyError: 'b'") == 1


async def test_stop_signal_ends_the_retries() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_soon(stop.set)
    steps = LoopSteps("sequencer", stop)
    assert await asyncio.wait_for(steps.run(Step(*(ValueError() for _ in range(1000)))), 5) is None


async def test_side_step_that_failed_a_moment_ago_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.db.retry.pause_s", lambda failures: 60.0)
    steps = LoopSteps("trim")
    step = Step(ValueError())
    assert [await steps.attempt(step) for _ in range(3)] == [None, None, None]
    assert steps.failures == 1


def test_pauses_double_up_to_a_bound_with_jitter() -> None:
    assert all(0.05 <= pause_s(1) <= 0.1 for _ in range(50))
    assert all(PAUSE_MAX_S / 2 <= pause_s(10_000) <= PAUSE_MAX_S for _ in range(50))
    assert len({pause_s(10_000) for _ in range(5)}) > 1
