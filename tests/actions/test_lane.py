"""Lanes, pace and rate: who works on what, how many at once, how fast."""

from __future__ import annotations

from headrace.actions import Action, Bucket, Handling, Pace, Policy, lanes
from headrace.db import Connection
from tests.actions.conftest import Bench, send, waiting


def handling(action: str, **policy: object) -> Handling:
    return Handling(action=action, handlers=(lambda action, tx: None,), policy=Policy(**policy))  # type: ignore[arg-type]


def test_actions_with_limits_of_their_own_have_a_lane_of_their_own() -> None:
    found = lanes(
        [handling("a"), handling("b"), handling("c", concurrency=2), handling("d", rate_per_s=5), handling("e", ordered=True)],
        workers=4,
    )
    assert [(sorted(lane.handlings), lane.workers) for lane in found] == [(["a", "b"], 4), (["c"], 2), (["d"], 4), (["e"], 4)]


def test_action_with_a_single_attempt_is_never_handed_out_with_others() -> None:
    (lane,) = lanes([handling("a", attempts=1)])
    assert lane.batch_max == 1


def test_pace_doubles_after_quick_batches_and_halves_after_slow_ones() -> None:
    pace = Pace(100)
    sizes = []
    for actions, seconds in ((16, 0.01), (32, 0.01), (64, 0.01), (10, 0.01), (100, 2.0), (50, 2.0), (25, 0.3)):
        pace.took(actions, seconds)
        sizes.append(pace.size)
    assert sizes == [32, 64, 100, 100, 50, 25, 25]


def test_bucket_gives_no_more_than_the_rate_in_any_second() -> None:
    now = [0.0]
    bucket = Bucket(10, lambda: now[0])
    taken = []
    for tenth in range(101):
        now[0] = tenth / 10
        taken.append(bucket.take(100))
    assert taken[0] == 10 and sum(taken) in (109, 110)
    assert max(sum(taken[at : at + 10]) for at in range(1, 91)) <= 11


def test_bucket_below_one_per_second_says_how_long_to_wait() -> None:
    now = [0.0]
    bucket = Bucket(0.5, lambda: now[0])
    assert (bucket.take(5), bucket.take(5), bucket.wait_s()) == (1, 0, 2.0)
    now[0] = 2.0
    assert bucket.take(5) == 1


def test_tokens_not_used_are_given_back() -> None:
    bucket = Bucket(10, lambda: 0.0)
    assert bucket.take(10) == 10
    bucket.give_back(7)
    assert bucket.take(10) == 7


async def test_worker_begins_no_more_than_its_rate_allows(conn: Connection, bench: Bench) -> None:
    done: list[object] = []

    async def handle(action: Action, tx: object) -> None:
        done.append(action.payload)

    send(conn, *range(5))
    worker = bench.worker(handle, rate_per_s=0.001)
    assert (await worker.handle_once(), await worker.handle_once()) == (True, False)
    assert (done, waiting(conn)) == ([0], [1, 2, 3, 4])
