"""Worker pools, batch sizes and rates: which actions share workers, how many they claim at once, how fast."""

from __future__ import annotations

import pytest

from headrace.actions import Action, ActionHandlers, Policy, build_worker_pools
from headrace.actions.handlers import AdaptiveBatchSize
from headrace.core import TokenBucket
from headrace.db import Connection
from tests.actions.conftest import Bench, send, waiting


def handlers(action: str, **policy: object) -> ActionHandlers:
    return ActionHandlers(action=action, handlers=(lambda action, tx: None,), policy=Policy(**policy))  # type: ignore[arg-type]


def test_actions_with_their_own_limits_have_their_own_pool() -> None:
    pools = build_worker_pools(
        [handlers("a"), handlers("b"), handlers("c", concurrency=2), handlers("d", rate_per_s=5), handlers("e", ordered=True)],
        workers=4,
    )
    assert [(sorted(pool.handlers), pool.workers) for pool in pools] == [(["a", "b"], 4), (["c"], 2), (["d"], 4), (["e"], 4)]


def test_action_with_a_single_attempt_is_never_claimed_with_others() -> None:
    (pool,) = build_worker_pools([handlers("a", attempts=1)])
    assert pool.batch_max == 1


def test_batch_size_doubles_after_fast_batches_and_halves_after_slow_ones() -> None:
    batch_size = AdaptiveBatchSize(100)
    sizes = []
    for actions, seconds in ((16, 0.01), (32, 0.01), (64, 0.01), (10, 0.01), (100, 2.0), (50, 2.0), (25, 0.3)):
        batch_size.adapt(actions, seconds)
        sizes.append(batch_size.size)
    assert sizes == [32, 64, 100, 100, 50, 25, 25]


def test_bucket_gives_no_more_than_the_rate_in_any_second() -> None:
    now = [0.0]
    bucket = TokenBucket(10, clock=lambda: now[0])
    counts = []
    for tenth in range(101):
        now[0] = tenth / 10
        counts.append(bucket.take_up_to(100))
    assert counts[0] == 10 and sum(counts) in (109, 110)
    assert max(sum(counts[at : at + 10]) for at in range(1, 91)) <= 11


def test_bucket_below_one_per_second_tells_how_long_to_wait() -> None:
    now = [0.0]
    bucket = TokenBucket(0.5, clock=lambda: now[0])
    assert (bucket.take_up_to(5), bucket.take_up_to(5), bucket.wait_s()) == (1, 0, 2.0)
    now[0] = 2.0
    assert bucket.take_up_to(5) == 1


def test_unused_tokens_can_be_given_back() -> None:
    bucket = TokenBucket(10, clock=lambda: 0.0)
    assert bucket.take_up_to(10) == 10
    bucket.give_back(7)
    assert bucket.take_up_to(10) == 7


@pytest.mark.lane("pg18")
async def test_worker_starts_no_more_actions_than_its_rate_allows(conn: Connection, bench: Bench) -> None:
    done: list[object] = []

    async def handle(action: Action, tx: object) -> None:
        done.append(action.payload)

    send(conn, *range(5))
    worker = bench.worker(handle, rate_per_s=0.001)
    assert (await worker.handle_once(), await worker.handle_once()) == (True, False)
    assert (done, waiting(conn)) == ([0], [1, 2, 3, 4])
