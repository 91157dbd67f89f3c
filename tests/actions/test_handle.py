"""Handling of actions: the ack is in the handlers' transaction; priorities, delays, key order; retries, then burial."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from headrace.actions import (
    Action,
    ActionHandler,
    Policy,
    list_attempts,
    list_dead_letters,
    list_results,
    queue_state,
    send_action,
)
from headrace.core import Invalid
from headrace.db import TRANSIENT_ERRORS, AsyncConnection, Connection
from tests.actions.conftest import Bench, Picky, make_due, run_dry, send, waiting, write

Effects = Callable[[], list[object]]


async def test_effects_and_ack_commit_together_and_are_recorded(conn: Connection, bench: Bench, effects: Effects) -> None:
    sent = [send_action(conn, "work", n) for n in range(5)]
    worker = bench.worker(write)
    await run_dry(worker)
    assert (effects(), waiting(conn), worker.handled) == ([0, 1, 2, 3, 4], [], 5)
    results = list_results(conn, sent)
    assert {result.action_id for result in results} == set(sent)
    assert all(result.outcome == "done" and result.attempts == 1 and result.duration_s is not None for result in results)


@pytest.mark.lane("pg18")
async def test_handlers_of_an_action_share_one_transaction(conn: Connection, bench: Bench, effects: Effects) -> None:
    async def fail(action: Action, tx: AsyncConnection) -> None:
        assert [row[0] for row in await (await tx.execute("select n from effect")).fetchall()] == [1]
        raise ValueError("the second handler fails")

    send(conn, 1)
    await bench.worker(write, fail).handle_once()
    assert (effects(), waiting(conn)) == ([], [1])


@pytest.mark.lane("pg18")
async def test_sync_handler_works_in_the_same_transaction(conn: Connection, bench: Bench, effects: Effects) -> None:
    def handle(action: Action, tx: Connection) -> None:
        tx.execute("insert into effect (n) values (%s::jsonb)", (str(action.payload),))

    send(conn, 1, 2, 3)
    await run_dry(bench.worker(handle, write))
    assert effects() == [1, 1, 2, 2, 3, 3]


@pytest.mark.lane("pg18")
async def test_failed_action_does_not_undo_the_others_of_its_batch(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, *range(6))
    picky = Picky(3)
    await run_dry(bench.worker(picky.handle))
    assert (effects(), waiting(conn)) == ([0, 1, 2, 4, 5], [3])


async def test_failed_action_is_retried_with_growing_pauses(conn: Connection, bench: Bench, effects: Effects) -> None:
    sent = send_action(conn, "work", 1)
    worker = bench.worker(Picky(1).handle, attempts=4)
    for _ in range(3):
        make_due(conn)
        await worker.handle_once()
        assert await worker.handle_once() is False, "it is not due before its pause ends"
    attempts = list_attempts(conn, [sent])
    pauses = [(attempt.retry_at - attempt.failed_at).total_seconds() for attempt in attempts if attempt.retry_at]
    assert [attempt.attempt for attempt in attempts] == [1, 2, 3]
    for pause, most in zip(pauses, (10, 20, 40), strict=True):
        assert most / 2 <= pause <= most
    assert effects() == []


async def test_action_that_failed_for_good_is_buried_with_its_error_and_envelope(conn: Connection, bench: Bench) -> None:
    sent = send_action(conn, "work", 1, key="k")
    conn.execute("create table effect (n jsonb)")
    worker = bench.worker(Picky(1).handle, attempts=2)
    for _ in range(2):
        make_due(conn)
        await worker.handle_once()
    (letter,) = list_dead_letters(conn)
    assert (letter.original_id, letter.reason, letter.error, letter.attempts) == (
        sent,
        "failed",
        "ValueError: cannot handle 1",
        2,
    )
    assert 'raise ValueError(f"cannot handle' in (letter.traceback or "")
    assert isinstance(letter.envelope, dict) and letter.envelope["payload"] == 1 and letter.envelope["key"] == "k"
    assert [attempt.follows for attempt in list_attempts(conn, [sent])] == ["retry", "dead"]
    assert [result.outcome for result in list_results(conn, [sent])] == ["dead"]
    assert waiting(conn) == []


@pytest.mark.lane("pg18")
async def test_single_attempt_is_not_repeated(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1)
    picky = Picky(1)
    await run_dry(bench.worker(picky.handle, attempts=1))
    assert (picky.payloads, len(list_dead_letters(conn))) == ([1], 1)


async def test_higher_priority_is_delivered_first_then_age(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1, 2)
    send(conn, 3, priority=-5)
    send(conn, 4, 5, priority=1)
    send(conn, 6, priority=10)
    await run_dry(bench.worker(write))
    assert effects() == [6, 4, 5, 1, 2, 3]


async def test_priority_holds_across_batches(conn: Connection, bench: Bench) -> None:
    send(conn, 1, 2, 3)
    send(conn, 4, priority=1)
    claimed = [await bench.queue.claim(["work"], 1) for _ in range(4)]
    assert [claim.action.payload for (claim,) in claimed] == [4, 1, 2, 3]


async def test_delayed_action_is_not_delivered_before_its_time(conn: Connection, bench: Bench, effects: Effects) -> None:
    send_action(conn, "work", 1, delay=timedelta(hours=1))
    worker = bench.worker(write)
    assert await worker.handle_once() is False
    assert queue_state(conn).delayed == 1
    make_due(conn)
    await worker.handle_once()
    assert effects() == [1]


async def test_other_names_are_left_for_other_nodes(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1, action="other")
    send(conn, 2)
    await run_dry(bench.worker(write))
    assert (effects(), waiting(conn)) == ([2], [1])


async def test_ordered_actions_of_a_key_are_handled_in_order_whatever_their_priority(
    conn: Connection, bench: Bench, effects: Effects
) -> None:
    send(conn, 1, key="k")
    send(conn, 2, key="k", priority=9)
    send(conn, 3, key="k")
    await run_dry(bench.worker(write, ordered=True))
    assert effects() == [1, 2, 3]


async def test_ordered_action_waits_while_an_earlier_one_of_its_key_is_in_flight(conn: Connection, bench: Bench) -> None:
    send(conn, 1, 2, key="k")
    send(conn, 3, key="other")
    (first,) = await bench.queue.claim_ordered("work", 1)
    rest = await bench.queue.claim_ordered("work", 10)
    assert (first.action.payload, [claim.action.payload for claim in rest]) == (1, [3])


async def test_ordered_action_waits_for_an_earlier_one_of_its_key_that_becomes_due_after_many_others(
    conn: Connection, bench: Bench
) -> None:
    conn.execute(
        """insert into pgmq.q_hr_default (vt, message)
           select now() - make_interval(secs => case n when 1 then 1 else 60 end), jsonb_build_object('id', gen_random_uuid(),
               'action', 'work', 'payload', n, 'key', case when n <= 2 then 'k' else 'other' || n end)
           from generate_series(1, 2500) n order by n"""
    )
    first = [claim.action.payload for claim in await bench.queue.claim_ordered("work", 2500)]
    rest = [claim.action.payload for claim in await bench.queue.claim_ordered("work", 2500)]
    assert len(first) == 1999 and {1, 2}.isdisjoint(first), "the claim reads the second of the key, but not the first"
    assert rest[:2] == [1, 2] and sorted([*first, *rest], key=str) == sorted(range(1, 2501), key=str)


async def test_ordered_action_is_claimed_behind_many_whose_keys_wait_for_an_action_that_is_due_later(
    conn: Connection, bench: Bench
) -> None:
    conn.execute(
        """insert into pgmq.q_hr_default (vt, message)
           select now() + make_interval(secs => case when n <= 2100 then 3600 when n <= 4200 then -60 else -1 end), jsonb_build_object(
               'id', gen_random_uuid(), 'action', 'work', 'payload', n, 'key', case when n <= 4200 then 'k' || n % 2100 else 'free' end)
           from generate_series(1, 4202) n order by n"""
    )
    assert [claim.action.payload for claim in await bench.queue.claim_ordered("work", 100)] == [4201, 4202]
    assert await bench.queue.claim_ordered("work", 100) == []


async def test_ordered_action_that_fails_holds_its_key_and_no_other(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1, 2, 3, key="k")
    send(conn, 4, key="other")
    picky = Picky(1)
    worker = bench.worker(picky.handle, ordered=True)
    await run_dry(worker)
    assert (effects(), waiting(conn)) == ([4], [1, 2, 3])
    picky.disliked.clear()
    make_due(conn)
    await run_dry(worker)
    assert effects() == [4, 1, 2, 3]
    attempts = conn.execute("select distinct attempts from headrace.action_result where action = 'work'").fetchall()
    assert sorted(row[0] for row in attempts) == [1, 2], "those held back lose no attempt"


async def test_dead_letter_does_not_block_its_key(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1, 2, key="k")
    await run_dry(bench.worker(Picky(1).handle, ordered=True, attempts=1))
    assert effects() == [2]


async def test_redelivered_action_is_claimed_alone(conn: Connection, bench: Bench) -> None:
    send(conn, 1, 2, 3)
    assert len(await bench.queue.claim(["work"], 10)) == 3
    make_due(conn)
    assert await bench.queue.claim(["work"], 10) == []
    claimed = [await bench.queue.claim_retried(["work"], ordered=False) for _ in range(4)]
    assert [[claim.action.payload for claim in claims] for claims in claimed] == [[1], [2], [3], []]
    assert all(claim.action.attempt == 2 for claims in claimed for claim in claims)


async def test_action_without_a_result_after_all_attempts_is_buried_unhandled(
    conn: Connection, bench: Bench, effects: Effects
) -> None:
    send(conn, 1)
    # The node that tried to bury it died as well: that was no attempt.
    conn.execute("update pgmq.q_hr_default set read_ct = 4")
    await run_dry(bench.worker(write, attempts=3))
    (letter,) = list_dead_letters(conn)
    assert (letter.reason, letter.attempts, effects()) == ("lost", 3, [])
    assert (letter.error or "").startswith("delivered 3 times")


@pytest.mark.lane("pg18")
async def test_unreadable_message_is_buried_and_the_others_are_handled(conn: Connection, bench: Bench, effects: Effects) -> None:
    conn.execute("""select pgmq.send('hr_default', '{"action": "work", "id": "not a uuid"}')""")
    send(conn, 1)
    await run_dry(bench.worker(write))
    (letter,) = list_dead_letters(conn)
    assert (letter.reason, effects(), waiting(conn)) == ("unreadable", [1], [])


async def test_unreadable_message_does_not_block_an_ordered_claim(conn: Connection, bench: Bench, effects: Effects) -> None:
    conn.execute("""select pgmq.send('hr_default', '{"action": "work", "id": "not a uuid"}')""")
    send(conn, 1, key="k")
    async with asyncio.timeout(20):
        await run_dry(bench.worker(write, ordered=True))
    assert (len(list_dead_letters(conn)), effects(), waiting(conn)) == (1, [1], [])


@pytest.mark.lane("pg18")
async def test_error_text_with_characters_that_postgresql_cannot_store_is_stored(conn: Connection, bench: Bench) -> None:
    async def fail(action: Action, tx: AsyncConnection) -> None:
        raise ValueError("nul \0 and half a pair \ud800")

    send(conn, 1)
    await bench.worker(fail, attempts=1).handle_once()
    (letter,) = list_dead_letters(conn)
    assert (letter.error or "").startswith("ValueError: nul ")


@pytest.mark.lane("pg18")
async def test_failed_statement_in_a_handler_fails_the_action(conn: Connection, bench: Bench) -> None:
    async def fail(action: Action, tx: AsyncConnection) -> None:
        await tx.execute("select 1 / 0")

    send(conn, 1)
    await bench.worker(fail, attempts=1).handle_once()
    (letter,) = list_dead_letters(conn)
    assert letter.error == "DivisionByZero: division by zero"


@pytest.mark.lane("pg18")
async def test_lost_connection_releases_the_action_at_once(conn: Connection, bench: Bench, effects: Effects) -> None:
    cut: list[int] = []

    async def fragile(action: Action, tx: AsyncConnection) -> None:
        await write(action, tx)
        if not cut:
            cut.append(tx.info.backend_pid)
            conn.execute("select pg_terminate_backend(%s)", (tx.info.backend_pid,))
            await tx.execute("select pg_sleep(10)")

    send(conn, 1, 2)
    worker = bench.worker(fragile)
    with pytest.raises(Exception, match="terminat"):
        await worker.handle_once()
    await run_dry(worker)
    assert (sorted(map(str, effects())), list_dead_letters(conn)) == (["1", "2"], [])


def test_policy_rejects_impossible_options() -> None:
    for options in (
        {"attempts": 0},
        {"backoff_s": 0},
        {"backoff_s": 2, "backoff_max_s": 1},
        {"concurrency": 0},
        {"rate_per_s": 0},
    ):
        with pytest.raises(Invalid):
            Policy(**options)  # type: ignore[arg-type]


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("actions", [1, 3])
async def test_handler_that_raises_on_a_lost_connection_is_retried(
    conn: Connection, bench: Bench, effects: Effects, actions: int
) -> None:
    """The lost connection caused the handler's error: the worker fails as for a lost connection, and tries again."""
    lost: list[object] = []

    async def handle(action: Action, tx: AsyncConnection) -> None:
        await write(action, tx)
        if not lost:
            lost.append(tx)
            conn.execute("select pg_terminate_backend(%s)", (tx.info.backend_pid,))
            raise ValueError("the session is gone")

    send(conn, *range(actions))
    worker = bench.worker(handle)
    with pytest.raises(TRANSIENT_ERRORS):
        await worker.handle_once()
    await run_dry(worker)
    assert (sorted(effects()), waiting(conn)) == (list(range(actions)), [])  # type: ignore[type-var]


ENDS: dict[str, Callable[[Connection], object]] = {
    "commit": lambda tx: tx.commit(),
    "rollback": lambda tx: tx.rollback(),
    "commit as text": lambda tx: tx.execute("commit"),
    "rollback as text": lambda tx: tx.execute("rollback"),
}


def sync_end(name: str) -> ActionHandler:
    def handle(action: Action, tx: Connection) -> None:
        ENDS[name](tx)

    return handle


def async_end(name: str) -> ActionHandler:
    async def handle(action: Action, tx: AsyncConnection) -> None:
        await (tx.execute(name.split()[0]) if "text" in name else getattr(tx, name)())

    return handle


@pytest.mark.lane("pg18")
async def test_handler_that_ends_its_transaction_has_failed_and_acks_nothing(conn: Connection, bench: Bench) -> None:
    handlers = [sync_end(name) for name in ENDS] + [async_end(name) for name in ENDS]
    for number, handler in enumerate(handlers):
        send(conn, number, action=f"work-{number}")
        worker = bench.worker(handler, action=f"work-{number}", attempts=2)
        await run_dry(worker)
        assert (waiting(conn), worker.handled, worker.failures) == ([number], 0, 1), number
        make_due(conn)
        await run_dry(worker)
        assert waiting(conn) == [], number
    letters = list_dead_letters(conn)
    assert [(letter.name, letter.attempts) for letter in letters] == [(f"work-{number}", 2) for number in range(8)]
    for letter in letters:
        assert re.search("forbidden within a Transaction|leave commit and rollback to headrace", letter.error or ""), letter


@pytest.mark.lane("pg18")
async def test_rollback_by_one_handler_of_a_batch_undoes_no_other_action(
    conn: Connection, bench: Bench, effects: Effects
) -> None:
    def handle(action: Action, tx: Connection) -> None:
        tx.execute("insert into effect (n) values (%s::jsonb)", (str(action.payload),))
        if action.payload == 3:
            tx.rollback()

    send(conn, 1, 2, 3, 4)
    await run_dry(bench.worker(handle, attempts=2))
    assert (effects(), waiting(conn)) == ([1, 2, 4], [3])


@pytest.mark.lane("pg18")
async def test_raised_rollback_fails_the_action(conn: Connection, bench: Bench) -> None:
    async def handle(action: Action, tx: AsyncConnection) -> None:
        raise psycopg.Rollback

    send(conn, 1)
    worker = bench.worker(handle, attempts=1)
    await run_dry(worker)
    assert (worker.handled, len(list_dead_letters(conn))) == (0, 1)
