"""Who works in the sequencer's pass: whoever was cheap lately, and nobody who was slow or has failed."""

from __future__ import annotations

import pytest

from headrace.definitions.pass_members import (
    GOOD_HOLDS,
    HOLD_MAX_S,
    HOLD_MIN_S,
    JOIN_S,
    PASS_EVENTS_MAX,
    SLOW_S,
    WEIGHT,
    PassMembers,
)

PLACE = (7, 0)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def members(clock: Clock) -> PassMembers:
    return PassMembers(clock=clock)


def join(members: PassMembers, *, work_s: float = 0.001, events: int = 1) -> bool:
    members.take_batch(1, PLACE, events=events, work_s=work_s)
    return members.places == [PLACE]


def test_consumer_joins_after_a_cheap_batch_of_its_own(members: PassMembers) -> None:
    assert members.places == [] and not members.has(1)
    assert join(members) and members.has(1)


def test_heavy_one_never_joins(members: PassMembers) -> None:
    assert not join(members, work_s=JOIN_S * 1.1)
    assert not join(members, work_s=JOIN_S * 1.1, events=PASS_EVENTS_MAX)


def test_large_batch_may_take_longer(members: PassMembers) -> None:
    assert join(members, work_s=JOIN_S * 9, events=10 * PASS_EVENTS_MAX)


def test_slow_one_leaves_at_once_and_joins_again_after_pauses_that_double(members: PassMembers, clock: Clock) -> None:
    pause_s = HOLD_MIN_S
    for _ in range(8):
        assert join(members)
        members.take_pass(1, 2 * SLOW_S / WEIGHT)
        assert members.places == []
        clock.now += pause_s - 0.01
        assert not join(members)
        clock.now += 0.02
        pause_s = min(2 * pause_s, HOLD_MAX_S)


def test_single_slow_step_is_forgiven_and_several_are_not(members: PassMembers) -> None:
    join(members)
    steps = 0
    while members.has(1):
        members.take_pass(1, 2 * SLOW_S)
        steps += 1
    assert 2 <= steps <= 10


def test_busy_machine_makes_nobody_slow(members: PassMembers) -> None:
    for _ in range(50):
        members.take_step(10 * SLOW_S)
    assert join(members, work_s=2 * JOIN_S)
    for _ in range(50):
        members.take_pass(1, 20 * SLOW_S)
    assert members.has(1)
    members.take_pass(1, 500 * SLOW_S)
    assert not members.has(1)


def test_cheap_one_stays(members: PassMembers) -> None:
    join(members)
    for _ in range(1000):
        members.take_pass(1, SLOW_S * 0.9)
    assert members.has(1)


def test_pause_is_short_again_after_a_long_good_time(members: PassMembers, clock: Clock) -> None:
    for _ in range(3):
        clock.now += HOLD_MAX_S
        join(members)
        members.hold(1)
    clock.now += HOLD_MAX_S
    assert join(members)
    clock.now += GOOD_HOLDS * 8 * HOLD_MIN_S + 1
    members.hold(1)
    clock.now += HOLD_MIN_S
    assert join(members)


def test_one_that_was_only_behind_joins_after_its_next_batch(members: PassMembers) -> None:
    join(members)
    members.leave(1)
    assert members.places == []
    assert join(members)


def test_after_a_failed_step_nobody_is_a_member(members: PassMembers) -> None:
    join(members)
    members.leave_all()
    assert members.places == []
    assert join(members)


def test_dropped_one_is_forgotten(members: PassMembers) -> None:
    join(members)
    members.keep([2])
    assert members.places == [] and not members.has(1)
    members.hold(1)
    members.leave(1)


def test_consumer_that_is_another_one_now_has_another_place(members: PassMembers) -> None:
    join(members)
    members.take_batch(1, (8, 5), events=1, work_s=0.001)
    assert members.places == [(8, 5)]
