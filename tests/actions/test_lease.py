"""Leases: only the node that holds an action may ack it, and it holds the action while its handler runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import psycopg
import pytest

from headrace.actions import Action, Policy, list_dead_letters, list_results, send_action
from headrace.actions.action import Claim
from headrace.core import LeaseLost
from headrace.db import AsyncConnection, Connection, cancel_tasks
from tests.actions.conftest import Bench, make_due, run_dry, send, waiting, write

Effects = Callable[[], list[object]]


async def test_claimed_action_is_not_claimed_again(conn: Connection, bench: Bench) -> None:
    send(conn, 1)
    assert len(await bench.queue.claim(["work"], 10)) == 1
    assert await bench.queue.claim(["work"], 10) == []
    assert await bench.queue.claim_retried(["work"], ordered=False) == []


async def test_lapsed_lease_returns_the_action_to_the_queue(conn: Connection, bench: Bench, effects: Effects) -> None:
    sent = send_action(conn, "work", 1)
    await bench.queue.claim(["work"], 10)
    make_due(conn)
    await run_dry(bench.worker(write))
    assert effects() == [1]
    assert [result.attempts for result in list_results(conn, [sent])] == [2]


async def test_late_ack_is_rejected_and_its_effects_are_rolled_back(conn: Connection, bench: Bench, effects: Effects) -> None:
    """The lease ends while the handler works; another worker claims the action; the first one is too late."""
    sent = send_action(conn, "work", 1)
    other = bench.worker(write)

    async def slow(action: Action, tx: AsyncConnection) -> None:
        await write(action, tx)
        make_due(conn)
        assert await other.handle_once()

    late = bench.worker(slow)
    await late.handle_once()
    assert (effects(), waiting(conn), late.handled, other.handled) == ([1], [], 0, 1)
    assert len(list_results(conn, [sent])) == 1
    assert list_dead_letters(conn) == []


@pytest.mark.lane("pg18")
async def test_batch_with_one_lost_lease_keeps_the_others_and_repeats_nothing(
    conn: Connection, bench: Bench, effects: Effects
) -> None:
    send(conn, 1, 2, 3)
    other = bench.worker(write)
    claimed: list[bool] = []

    async def slow(action: Action, tx: AsyncConnection) -> None:
        await write(action, tx)
        if action.payload == 2 and not claimed:
            conn.execute("update pgmq.q_hr_default set vt = now() - interval '1 s' where message -> 'payload' = '2'")
            claimed.append(await other.handle_once())

    await run_dry(bench.worker(slow))
    assert sorted(map(str, effects())) == ["1", "2", "3"]
    assert waiting(conn) == []


async def test_lapsed_lease_that_nobody_claimed_can_still_be_acked(conn: Connection, bench: Bench, effects: Effects) -> None:
    async def slow(action: Action, tx: AsyncConnection) -> None:
        make_due(conn)
        await write(action, tx)

    send(conn, 1)
    await bench.worker(slow).handle_once()
    assert (effects(), waiting(conn)) == ([1], [])


@pytest.mark.lane("pg18")
async def test_lease_is_extended_while_the_handler_runs(conn: Connection, bench: Bench, effects: Effects) -> None:
    extended: list[int] = []

    async def slow(action: Action, tx: AsyncConnection) -> None:
        make_due(conn)
        extended.append(await bench.leases.extend())
        assert await bench.queue.claim_retried(["work"], ordered=False) == []
        await write(action, tx)

    send(conn, 1)
    await bench.worker(slow).handle_once()
    assert (extended, effects()) == ([1], [1])
    assert await bench.leases.extend() == 0, "a handled action is no longer held"


@pytest.mark.lane("pg18")
async def test_extender_runs_in_the_background(conn: Connection, bench: Bench, effects: Effects) -> None:
    bench.queue.lease_s = 0.3

    async def slow(action: Action, tx: AsyncConnection) -> None:
        (first,) = conn.execute("select vt from pgmq.q_hr_default").fetchone() or (None,)
        async with asyncio.timeout(60):
            while conn.execute("select vt > %s from pgmq.q_hr_default", (first,)).fetchone() != (True,):
                await asyncio.sleep(0.02)
        await write(action, tx)

    send(conn, 1)
    extender = asyncio.create_task(bench.leases.run())
    await bench.worker(slow).handle_once()
    await cancel_tasks(extender)
    assert effects() == [1]


async def test_extension_skips_actions_that_another_node_holds(conn: Connection, bench: Bench) -> None:
    send(conn, 1)
    claims = await bench.queue.claim(["work"], 1)
    make_due(conn)
    await bench.queue.claim_retried(["work"], ordered=False)
    assert await bench.queue.extend(claims) == 0


async def test_ack_is_rejected_while_another_node_holds_the_action(conn: Connection, bench: Bench) -> None:
    send(conn, 1)
    (first,) = await bench.queue.claim(["work"], 1)
    make_due(conn)
    (second,) = await bench.queue.claim_retried(["work"], ordered=False)
    async with bench.pool.connection() as tx:
        with pytest.raises(psycopg.Error, match="no longer held") as rejected:
            await bench.queue.ack(tx, [first], [0.1])
        assert rejected.value.sqlstate == LeaseLost.sqlstate
        assert waiting(conn) == [1]
        await bench.queue.ack(tx, [second], [0.1])
    assert waiting(conn) == []


async def test_failure_and_release_by_a_node_that_lost_the_lease_change_nothing(conn: Connection, bench: Bench) -> None:
    send(conn, 1)
    (first,) = await bench.queue.claim(["work"], 1)
    make_due(conn)
    await bench.queue.claim_retried(["work"], ordered=False)
    before = conn.execute("select read_ct, vt from pgmq.q_hr_default").fetchone()
    assert await bench.queue.fail(first, Policy(attempts=1), ValueError("late"), 0.1) is None
    await bench.queue.release([first], count_attempt=False)
    assert conn.execute("select read_ct, vt from pgmq.q_hr_default").fetchone() == before
    assert list_dead_letters(conn) == []


@pytest.mark.lane("pg18")
async def test_workers_of_a_pool_release_each_claim_once(conn: Connection, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another claim must be released while a release is under way, and another worker does it."""
    send(conn, 1, 2)
    worker = bench.worker(write)
    first, second = [claim for _ in range(2) for claim in await bench.queue.claim(["work"], 1)]
    released: list[Claim] = []
    under_way, go_on = asyncio.Event(), asyncio.Event()

    async def slow(claims: Sequence[Claim], *, count_attempt: bool) -> None:
        released.extend(claims)
        under_way.set()
        await go_on.wait()

    monkeypatch.setattr(bench.queue, "release", slow)
    worker._to_release[False] += [first]
    release = asyncio.create_task(worker.release_leftovers())
    await under_way.wait()
    worker._to_release[False] += [second]
    other = asyncio.create_task(worker.release_leftovers())
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(release, other)
    await worker.release_leftovers()
    assert released == [first, second]


@pytest.mark.lane("pg18")
async def test_claim_that_could_not_be_released_is_released_later(bench: Bench, conn: Connection) -> None:
    send(conn, 1)
    worker = bench.worker(write)
    worker._to_release[False] += await bench.queue.claim(["work"], 1)
    conn.execute("alter function headrace.release_actions rename to gone")
    with pytest.raises(psycopg.errors.UndefinedFunction):
        await worker.release_leftovers()
    conn.execute("alter function headrace.gone rename to release_actions")
    await worker.release_leftovers()
    assert conn.execute("select read_ct from pgmq.q_hr_default where vt <= headrace.clock()").fetchall() == [(0,)]
