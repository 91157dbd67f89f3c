"""The pace of a loop: no pause on a quiet server, long ones on a busy one."""

from __future__ import annotations

import pytest

from headrace.db import Pace
from headrace.db.pace import EVENT_S


@pytest.mark.parametrize("share", [0.1, 0.4, 1.0])
def test_price_of_the_steps_takes_the_share_of_the_time(share: float) -> None:
    pace = Pace(share=share, pause_max_s=10)
    for _ in range(50):
        pause_s = pace.pause_s(0.002)
    assert 0.002 / (0.002 + pause_s) == pytest.approx(share)


def test_quiet_server_makes_no_pause() -> None:
    pace = Pace(pause_max_s=1)
    assert {pace.pause_s(cost_s) for cost_s in (0.001, 0.0015, 0.001, 0.0018) * 10} == {0.0}


def test_busy_server_makes_long_pauses() -> None:
    pace = Pace(pause_max_s=1)
    pace.pause_s(0.001)
    for _ in range(20):
        pause_s = pace.pause_s(0.008)
    assert pause_s > 5 * 0.008


def test_larger_batches_are_not_a_busy_server() -> None:
    pace = Pace(pause_max_s=1)
    pace.pause_s(0.001, events=1)
    assert {pace.pause_s(0.001 + 100 * EVENT_S, events=100) for _ in range(20)} == {0.0}


def test_server_that_is_quiet_again_makes_no_pause() -> None:
    pace = Pace(pause_max_s=1)
    pauses = [pace.pause_s(cost_s) for cost_s in (0.001, *[0.008] * 20, *[0.001] * 20)]
    assert pauses[20] > 0
    assert pauses[-1] == 0


def test_pause_has_a_limit() -> None:
    assert Pace(share=0.1, pause_max_s=0.05).pause_s(5.0) == 0.05


def test_handler_that_takes_long_needs_no_pause() -> None:
    assert Pace(share=0.25, pause_max_s=1).pause_s(0.002, elapsed_s=0.1) == 0


def test_slow_step_is_forgotten_after_some() -> None:
    pace = Pace(share=0.5, pause_max_s=1)
    pace.pause_s(0.5)
    after = [pace.pause_s(0.001) for _ in range(30)]
    assert after == sorted(after, reverse=True)
    assert after[-1] == pytest.approx(0.001, rel=0.1)


def test_clock_that_goes_back_makes_no_negative_pause() -> None:
    pace = Pace(share=0.5, pause_max_s=1)
    assert pace.pause_s(-1.0) == 0
    assert pace.cost_s == 0


@pytest.mark.parametrize(("share", "pause_max_s"), [(0, 1), (1.1, 1), (0.5, -1)])
def test_impossible_pace_is_rejected(share: float, pause_max_s: float) -> None:
    with pytest.raises(ValueError, match="share"):
        Pace(share=share, pause_max_s=pause_max_s)
