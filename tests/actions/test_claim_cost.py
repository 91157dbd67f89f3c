"""The cost of a claim does not grow with actions that are not due: delayed, in flight, or waiting for a retry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from headrace.actions import Claim, send_action
from headrace.actions.queue import MSG_ID_MAX
from headrace.db import Connection
from tests.actions.claims import CLAIMS
from tests.actions.conftest import Bench, make_due, run_dry, send, write
from tests.builders import rows_read

Effects = Callable[[], list[object]]
WAITING = 5_000
DUE = 10


def put(conn: Connection, count: int, *, tried: int, due: str) -> None:
    """Actions in the queue, each claimed `tried` times before."""
    conn.execute(
        """insert into pgmq.q_hr_default (read_ct, vt, message)
           select %s, now() + %s::interval, jsonb_build_object('id', gen_random_uuid(), 'action', 'work')
           from generate_series(1, %s)""",
        (tried, due, count),
    )


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize(
    ("statement", "claimed"), [("claim_actions", DUE), ("claim_ordered_actions", DUE), ("claim_retried_action", 1)]
)
def test_claim_reads_only_what_is_due(conn: Connection, statement: str, claimed: int, analyzed: bool) -> None:
    for tried in (0, 1):
        put(conn, WAITING, tried=tried, due="1 hour")
        put(conn, DUE, tried=tried, due="-1 second")
        put(conn, WAITING, tried=tried, due="1 hour")
    conn.execute("vacuum pgmq.q_hr_default")
    if analyzed:
        conn.execute("analyze pgmq.q_hr_default")
    parameters = {"actions": ["work"], "action": "work", "max": 100, "lease_s": 30.0, "ordered": False, "after": MSG_ID_MAX}
    with conn.transaction():
        before = rows_read(conn, "q_hr_default")
        assert len(conn.execute(CLAIMS[statement], parameters).fetchall()) == claimed
        # The due ones, fresh or retried, once to find and once to lock and write them.
        assert rows_read(conn, "q_hr_default") - before <= 6 * DUE


async def test_busy_worker_returns_for_actions_that_become_due_behind_it(
    conn: Connection, bench: Bench, effects: Effects
) -> None:
    send_action(conn, "work", 1, delay=timedelta(hours=1))
    send(conn, *range(2, 6))
    worker = bench.worker(write, attempts=1)
    assert await worker.handle_once() and await worker.handle_once()
    assert effects() == [2, 3]
    make_due(conn)
    await run_dry(worker)
    assert sorted(effects()) == [1, 2, 3, 4, 5]


async def test_two_claims_of_a_pool_run_at_once_and_the_second_starts_behind_the_first(
    conn: Connection, bench: Bench, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A check for redelivered actions, which comes with time, would begin at the front again.
    monkeypatch.setattr("headrace.actions.worker.RETRIED_POLL_S", float("inf"))
    send(conn, *range(40))
    worker = bench.worker(write, batch_size=8)
    assert await worker.handle_once()
    original, starts, together = bench.queue.claim, list[int](), asyncio.Barrier(2)

    async def claim(actions: Sequence[str], limit: int, *, after: int) -> list[Claim]:
        starts.append(after)
        async with asyncio.timeout(30):
            await together.wait()
        return await original(actions, limit, after=after)

    monkeypatch.setattr(bench.queue, "claim", claim)
    assert all(await asyncio.gather(worker.handle_once(), worker.handle_once()))
    assert starts[1] == starts[0] + 8
    assert sorted(effects()) == list(range(24))  # type: ignore[type-var]
    monkeypatch.undo()
    await run_dry(worker)
    assert sorted(effects()) == list(range(40))  # type: ignore[type-var]
