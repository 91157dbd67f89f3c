"""Handling: the ack is in the handlers' transaction; priorities, delays, order by key; what fails is tried again, then buried."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from headrace.actions import Action, Policy, list_attempts, list_dead_letters, list_results, queue_state, send_action
from headrace.core import Invalid
from headrace.db import TRANSIENT, AsyncConnection, Connection
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


async def test_handlers_of_an_action_share_one_transaction(conn: Connection, bench: Bench, effects: Effects) -> None:
    async def fail(action: Action, tx: AsyncConnection) -> None:
        assert [row[0] for row in await (await tx.execute("select n from effect")).fetchall()] == [1]
        raise ValueError("the second one fails")

    send(conn, 1)
    await bench.worker(write, fail).handle_once()
    assert (effects(), waiting(conn)) == ([], [1])


async def test_plain_function_works_in_the_same_transaction(conn: Connection, bench: Bench, effects: Effects) -> None:
    def plain(action: Action, tx: Connection) -> None:
        tx.execute("insert into effect (n) values (%s::jsonb)", (str(action.payload),))

    send(conn, 1, 2, 3)
    await run_dry(bench.worker(plain, write))
    assert effects() == [1, 1, 2, 2, 3, 3]


async def test_one_that_fails_does_not_undo_the_others_of_its_batch(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, *range(6))
    picky = Picky(3)
    await run_dry(bench.worker(picky.handle))
    assert (effects(), waiting(conn)) == ([0, 1, 2, 4, 5], [3])


async def test_failed_action_is_tried_again_with_growing_pauses(conn: Connection, bench: Bench, effects: Effects) -> None:
    sent = send_action(conn, "work", 1)
    worker = bench.worker(Picky(1).handle, attempts=4)
    for _ in range(3):
        make_due(conn)
        await worker.handle_once()
        assert await worker.handle_once() is False, "it is not due before its pause is over"
    attempts = list_attempts(conn, [sent])
    pauses = [(one.retry_at - one.failed_at).total_seconds() for one in attempts if one.retry_at]
    assert [one.attempt for one in attempts] == [1, 2, 3]
    for pause, most in zip(pauses, (10, 20, 40), strict=True):
        assert most / 2 <= pause <= most
    assert effects() == []


async def test_action_that_failed_for_good_is_buried_with_all_there_is_to_know(conn: Connection, bench: Bench) -> None:
    sent = send_action(conn, "work", 1, key="k")
    conn.execute("create table effect (n jsonb)")
    worker = bench.worker(Picky(1).handle, attempts=2)
    for _ in range(2):
        make_due(conn)
        await worker.handle_once()
    (letter,) = list_dead_letters(conn)
    assert (letter.action_id, letter.reason, letter.error, letter.attempts) == (sent, "failed", "ValueError: cannot handle 1", 2)
    assert 'raise ValueError(f"cannot handle' in (letter.traceback or "")
    assert isinstance(letter.envelope, dict) and letter.envelope["payload"] == 1 and letter.envelope["key"] == "k"
    assert [one.follows for one in list_attempts(conn, [sent])] == ["retry", "dead"]
    assert [one.outcome for one in list_results(conn, [sent])] == ["dead"]
    assert waiting(conn) == []


async def test_single_attempt_is_not_repeated(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1)
    picky = Picky(1)
    await run_dry(bench.worker(picky.handle, attempts=1))
    assert (picky.seen, len(list_dead_letters(conn))) == ([1], 1)


async def test_higher_priority_is_handed_out_first_then_age(conn: Connection, bench: Bench, effects: Effects) -> None:
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


async def test_delayed_action_is_not_handed_out_before_its_time(conn: Connection, bench: Bench, effects: Effects) -> None:
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


async def test_ordered_action_waits_while_an_earlier_one_of_its_key_is_in_hand(conn: Connection, bench: Bench) -> None:
    send(conn, 1, 2, key="k")
    send(conn, 3, key="other")
    (first,) = await bench.queue.claim_ordered("work", 1)
    rest = await bench.queue.claim_ordered("work", 10)
    assert (first.action.payload, [claim.action.payload for claim in rest]) == (1, [3])


async def test_ordered_action_waits_for_an_earlier_one_of_its_key_that_fell_due_behind_many_others(
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
    assert len(first) == 1999 and {1, 2}.isdisjoint(first), "the second of the key is among those looked at, the first is not"
    assert rest[:2] == [1, 2] and sorted([*first, *rest], key=str) == sorted(range(1, 2501), key=str)


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
    attempts = conn.execute("select distinct attempts from headrace_internal.action_result where action = 'work'").fetchall()
    assert sorted(row[0] for row in attempts) == [1, 2], "those held back lost no attempt"


async def test_dead_letter_lets_its_key_go_on(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1, 2, key="k")
    await run_dry(bench.worker(Picky(1).handle, ordered=True, attempts=1))
    assert effects() == [2]


async def test_redelivered_action_is_handed_out_alone(conn: Connection, bench: Bench) -> None:
    send(conn, 1, 2, 3)
    assert len(await bench.queue.claim(["work"], 10)) == 3
    make_due(conn)
    assert await bench.queue.claim(["work"], 10) == []
    claimed = [await bench.queue.claim_retried(["work"], ordered=False) for _ in range(4)]
    assert [[claim.action.payload for claim in claims] for claims in claimed] == [[1], [2], [3], []]
    assert all(claim.action.attempt == 2 for claims in claimed for claim in claims)


async def test_action_that_no_node_came_back_from_is_buried_unrun(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1)
    # Whoever was to bury it died as well: that was no attempt.
    conn.execute("update pgmq.q_hr_default set read_ct = 4")
    await run_dry(bench.worker(write, attempts=3))
    (letter,) = list_dead_letters(conn)
    assert (letter.reason, letter.attempts, effects()) == ("lost", 3, [])
    assert (letter.error or "").startswith("handed out 3 times")


async def test_message_that_cannot_be_read_is_buried_and_the_others_go_on(
    conn: Connection, bench: Bench, effects: Effects
) -> None:
    conn.execute("""select pgmq.send('hr_default', '{"action": "work", "id": "not a uuid"}')""")
    send(conn, 1)
    await run_dry(bench.worker(write))
    (letter,) = list_dead_letters(conn)
    assert (letter.reason, effects(), waiting(conn)) == ("unreadable", [1], [])


async def test_error_text_that_postgresql_cannot_store_is_stored_all_the_same(conn: Connection, bench: Bench) -> None:
    async def fail(action: Action, tx: AsyncConnection) -> None:
        raise ValueError("nul \0 and half a pair \ud800")

    send(conn, 1)
    await bench.worker(fail, attempts=1).handle_once()
    (letter,) = list_dead_letters(conn)
    assert (letter.error or "").startswith("ValueError: nul ")


async def test_failed_statement_in_a_handler_is_the_handlers_failure(conn: Connection, bench: Bench) -> None:
    async def fail(action: Action, tx: AsyncConnection) -> None:
        await tx.execute("select 1 / 0")

    send(conn, 1)
    await bench.worker(fail, attempts=1).handle_once()
    (letter,) = list_dead_letters(conn)
    assert letter.error == "DivisionByZero: division by zero"


async def test_lost_connection_gives_the_action_back_at_once(conn: Connection, bench: Bench, effects: Effects) -> None:
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


def test_policy_refuses_what_makes_no_sense() -> None:
    for wrong in ({"attempts": 0}, {"backoff_s": 0}, {"backoff_s": 2, "backoff_max_s": 1}, {"concurrency": 0}, {"rate_per_s": 0}):
        with pytest.raises(Invalid):
            Policy(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("actions", [1, 3])
async def test_handler_that_raises_on_a_lost_connection_is_tried_again_and_ends_no_loop(
    conn: Connection, bench: Bench, effects: Effects, actions: int
) -> None:
    """The handler's own error came of the connection: the step fails as a lost connection does, and is done again."""
    lost: list[object] = []

    async def handle(action: Action, tx: AsyncConnection) -> None:
        await write(action, tx)
        if not lost:
            lost.append(tx)
            conn.execute("select pg_terminate_backend(%s)", (tx.info.backend_pid,))
            raise ValueError("what I need is gone")

    send(conn, *range(actions))
    worker = bench.worker(handle)
    with pytest.raises(TRANSIENT):
        await worker.handle_once()
    await run_dry(worker)
    assert (sorted(effects()), waiting(conn)) == (list(range(actions)), [])  # type: ignore[type-var]


ENDS: dict[str, Callable[[Connection], object]] = {
    "commit": lambda tx: tx.commit(),
    "rollback": lambda tx: tx.rollback(),
    "commit as text": lambda tx: tx.execute("commit"),
    "rollback as text": lambda tx: tx.execute("rollback"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_async", [False, True])
async def test_handler_that_ends_its_transaction_has_failed_and_acks_nothing(
    conn: Connection, bench: Bench, end: str, is_async: bool
) -> None:
    async def handle_async(action: Action, tx: AsyncConnection) -> None:
        await (tx.execute(end.split()[0]) if "text" in end else getattr(tx, end)())

    def handle(action: Action, tx: Connection) -> None:
        ENDS[end](tx)

    send(conn, 1)
    worker = bench.worker(handle_async if is_async else handle, attempts=2)
    await run_dry(worker)
    assert (waiting(conn), worker.handled, worker.failures) == ([1], 0, 1)
    make_due(conn)
    await run_dry(worker)
    (letter,) = list_dead_letters(conn)
    assert (letter.attempts, waiting(conn)) == (2, [])
    assert "forbidden within a Transaction" in (letter.error or "") or "leave commit and rollback to headrace" in (
        letter.error or ""
    )


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


async def test_raised_rollback_is_the_handlers_failure(conn: Connection, bench: Bench) -> None:
    async def handle(action: Action, tx: AsyncConnection) -> None:
        raise psycopg.Rollback

    send(conn, 1)
    worker = bench.worker(handle, attempts=1)
    await run_dry(worker)
    assert (worker.handled, len(list_dead_letters(conn))) == (0, 1)
