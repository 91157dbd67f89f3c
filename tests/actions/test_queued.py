"""Operators list what is queued, cancel it, run it now, and change its priority."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from headrace.actions import (
    Action,
    cancel_actions,
    list_attempts,
    list_queued,
    list_results,
    queue_state,
    run_actions_now,
    send_action,
    set_action_priority,
)
from headrace.core import Invalid
from headrace.db import AsyncConnection, Connection, Target, connect
from tests.actions.conftest import Bench, Picky, run_dry, send, write
from tests.builders import rows_read, shift_clock


def states(conn: Connection) -> dict[object, str]:
    return {action.payload: action.state for action in list_queued(conn)}


async def test_queue_lists_every_state_with_the_error_and_the_next_try(conn: Connection, bench: Bench) -> None:
    conn.execute("create table effect (id bigint generated always as identity, n jsonb)")
    send(conn, 1)
    await run_dry(bench.worker(Picky(1).handle, attempts=3))
    send(conn, 2)
    [claim] = await bench.queue.claim(["work"], 1)
    send_action(conn, "work", 3, delay=timedelta(hours=1))
    send(conn, 4, key="k")
    assert states(conn) == {1: "retrying", 2: "in-flight", 3: "delayed", 4: "due"}
    [retrying] = list_queued(conn, state="retrying")
    assert (retrying.error, retrying.attempts, retrying.attempts_max) == ("ValueError: cannot handle 1", 1, 3)
    assert retrying.due_at is not None and retrying.failed_at is not None and retrying.due_at > retrying.failed_at
    assert [action.payload for action in list_queued(conn, action="work", key="k")] == [4]
    assert [action.payload for action in list_queued(conn, ids=[claim.action.id])] == [2]
    assert [action.payload for action in list_queued(conn, limit=2)] == [1, 2]
    assert list_queued(conn, action="other") == [] == list_queued(conn, older_than=timedelta(minutes=1))
    shift_clock(conn, "2 minutes")
    assert len(list_queued(conn, older_than=timedelta(minutes=1))) == 4
    shift_clock(conn, "0")
    state = queue_state(conn)
    assert (state.due, state.in_flight, state.retrying, state.delayed, state.queued) == (1, 1, 1, 1, 4)
    with pytest.raises(Invalid, match="is not a state"):
        list_queued(conn, state="lost")  # type: ignore[arg-type]


async def test_a_redriven_action_in_flight_is_not_taken_for_a_retrying_one(conn: Connection, bench: Bench) -> None:
    """Its attempts are counted from one again, so the attempts of its first life have the same numbers."""
    conn.execute("create table effect (id bigint generated always as identity, n jsonb)")
    send(conn, 1)
    await run_dry(bench.worker(Picky(1).handle, attempts=2))
    run_actions_now(conn, state="retrying")
    await run_dry(bench.worker(Picky(1).handle, attempts=2))
    assert conn.execute("select headrace.redrive_actions()").fetchone() == (1,)
    await bench.queue.claim(["work"], 1)
    assert states(conn) == {1: "in-flight"}


@pytest.mark.lane("pg18")
def test_listing_by_key_or_state_reads_few_rows_of_a_long_queue(conn: Connection) -> None:
    conn.execute(
        """select headrace.send_actions('default', array_agg(jsonb_build_object('id', gen_random_uuid(), 'action', 'work',
               'payload', n, 'key', 'k' || n % 1000))) from generate_series(1, 5000) n"""
    )
    conn.execute("update pgmq.q_hr_default set read_ct = 1, vt = now() + interval '1 minute' where msg_id % 1000 = 0")
    conn.execute("analyze pgmq.q_hr_default")
    for filters in ({"action": "work", "key": "k7"}, {"state": "in-flight"}):
        with conn.transaction():
            before = rows_read(conn, "q_hr_default")
            assert len(list_queued(conn, **filters)) == 5  # type: ignore[arg-type]
            assert rows_read(conn, "q_hr_default") - before < 50, filters


async def test_cancelled_action_is_recorded_and_never_handled(conn: Connection, bench: Bench) -> None:
    conn.execute("create table effect (id bigint generated always as identity, n jsonb)")
    ids = [send_action(conn, "work", n) for n in range(3)]
    assert cancel_actions(conn, [ids[1]]) == 1
    await run_dry(bench.worker(write))
    assert conn.execute("select array_agg(n order by n) from effect").fetchone() == ([0, 2],)
    assert [(result.action_id, result.outcome) for result in list_results(conn, [ids[1]])] == [(ids[1], "cancelled")]
    assert cancel_actions(conn, ids) == 0
    with pytest.raises(Invalid, match="no actions were chosen"):
        cancel_actions(conn)


async def test_action_in_flight_is_cancelled_only_on_request_and_then_its_effects_are_rolled_back(
    conn: Connection, bench: Bench, database: Target
) -> None:
    conn.execute("create table effect (id bigint generated always as identity, n jsonb)")
    started, proceed = asyncio.Event(), asyncio.Event()

    async def handle(action: Action, tx: AsyncConnection) -> None:
        await write(action, tx)
        started.set()
        await proceed.wait()

    action_id = send_action(conn, "work", 7)
    task = asyncio.create_task(bench.worker(handle).handle_once())
    await asyncio.wait_for(started.wait(), 10)
    with connect(database) as operator:
        assert cancel_actions(operator, [action_id]) == 0
        assert cancel_actions(operator, action="work", in_flight=True) == 1
    proceed.set()
    await task
    assert conn.execute("select count(*) from effect").fetchone() == (0,)
    assert [result.outcome for result in list_results(conn, [action_id])] == ["cancelled"]
    assert list_queued(conn) == [] and list_attempts(conn, [action_id]) == []


async def test_delayed_and_retrying_actions_run_now(conn: Connection, bench: Bench) -> None:
    conn.execute("create table effect (id bigint generated always as identity, n jsonb)")
    picky = Picky(1)
    worker = bench.worker(picky.handle, attempts=3)
    send(conn, 1)
    await run_dry(worker)
    delayed = send_action(conn, "work", 2, delay=timedelta(days=1))
    await run_dry(worker)
    assert picky.payloads == [1]
    picky.disliked.clear()
    assert run_actions_now(conn, [delayed]) == 1
    assert run_actions_now(conn, action="work", state="retrying") == 1
    assert run_actions_now(conn, action="work") == 0
    await run_dry(worker)
    assert sorted(map(str, picky.payloads)) == ["1", "1", "2"]
    assert list_queued(conn) == []


async def test_priority_of_a_waiting_action_changes_the_order(conn: Connection, bench: Bench) -> None:
    ids = [send_action(conn, "work", n) for n in range(3)]
    assert set_action_priority(conn, 5, [ids[2]]) == 1
    assert set_action_priority(conn, -1, [ids[0]]) == 1
    claims = await bench.queue.claim(["work"], 2)
    assert [claim.action.payload for claim in claims] == [2, 1]
    assert set_action_priority(conn, 9, [ids[2]]) == 0


async def test_cancel_and_claim_never_both_win(conn: Connection, bench: Bench, database: Target) -> None:
    """An operator cancels what a worker is claiming: every action ends exactly once, done or cancelled, with its effect or without."""
    conn.execute("create table effect (id bigint generated always as identity, n jsonb)")
    ids: list[UUID] = [send_action(conn, "work", n) for n in range(200)]
    worker = bench.worker(write)

    def cancel_all() -> int:
        with connect(database) as operator:
            return sum(cancel_actions(operator, [action_id], in_flight=True) for action_id in reversed(ids))

    _, cancelled = await asyncio.gather(run_dry(worker), asyncio.to_thread(cancel_all))
    await run_dry(worker)
    outcomes = [result.outcome for result in list_results(conn, ids)]
    assert len(outcomes) == 200 and outcomes.count("cancelled") == cancelled
    assert conn.execute("select count(*), count(distinct n) from effect").fetchone() == (200 - cancelled,) * 2
