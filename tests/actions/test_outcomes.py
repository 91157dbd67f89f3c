"""A handler of an action may choose what follows: Retry, Discard, Bury; and its calls have limits and types."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from headrace import Action, Bury, Discard, Headrace, Retry, send_action
from headrace.actions import ActionWorker, build_worker_pools, list_attempts, list_dead_letters, list_results
from headrace.consume import error_summary
from headrace.db import Connection, StopSignal, Subscription, connect_async
from tests.actions.conftest import Bench, make_due, run_dry, send, waiting, write

Effects = Callable[[], list[object]]
AMOUNT = "12345678901234567.123456789"


def worker(bench: Bench, app: Headrace, action: str = "work") -> ActionWorker:

    (pool,) = build_worker_pools([app.action_handlers[action]])
    return ActionWorker(pool, bench.queue, bench.pool, bench.leases, Subscription("headrace_action"), StopSignal())


def raising(error: Exception, number: int = 2) -> Any:
    async def handle(action: Action, tx: Any) -> None:
        await write(action, tx)
        if action.payload == number:
            raise error

    return handle


async def test_retry_waits_as_long_as_the_handler_says(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1, 2)
    await run_dry(bench.worker(raising(Retry("busy", after_s=1000))))
    assert effects() == [1] and waiting(conn) == [2]
    (wait_s,) = conn.execute("select extract(epoch from vt - headrace.clock()) from pgmq.q_hr_default").fetchone()  # type: ignore[misc]
    assert 900 < wait_s <= 1000
    [attempt] = conn.execute("select error, follows from headrace.attempt").fetchall()
    assert attempt == ("Retry: busy", "retry")


async def test_retry_counts_as_an_attempt(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 2)
    busy = bench.worker(raising(Retry(after_s=0)), attempts=2)
    for _ in range(3):
        make_due(conn)
        await busy.handle_once()
    assert waiting(conn) == [] and [letter.reason for letter in list_dead_letters(conn)] == ["failed"]


async def test_bury_moves_the_action_to_the_dead_letters_at_once(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1, 2, 3)
    await run_dry(bench.worker(raising(Bury("card expired")), attempts=5))
    assert effects() == [1, 3]
    [letter] = list_dead_letters(conn)
    assert (letter.payload, letter.reason, letter.error, letter.attempts) == (2, "buried", "Bury: card expired", 1)


async def test_discard_gives_the_action_up_and_keeps_a_record(conn: Connection, bench: Bench, effects: Effects) -> None:
    send(conn, 1, 2, 3)
    action_id = conn.execute(
        "select (message ->> 'id')::uuid from pgmq.q_hr_default where message -> 'payload' = '2'"
    ).fetchone()[0]  # type: ignore[index]
    await run_dry(bench.worker(raising(Discard("a test"))))
    assert effects() == [1, 3] and waiting(conn) == [] and list_dead_letters(conn) == []
    [result], [attempt] = list_results(conn, [action_id]), list_attempts(conn, [action_id])
    assert (result.outcome, attempt.follows, attempt.error) == ("discarded", "discarded", "Discard: a test")


@pytest.mark.lane("pg18")
async def test_batch_size_1_repeats_no_call_of_a_neighbour(conn: Connection, bench: Bench, effects: Effects) -> None:
    calls: list[object] = []

    async def call(action: Action, tx: Any) -> None:
        calls.append(action.payload)
        if action.payload == 3:
            raise ValueError("no")

    send(conn, 1, 2, 3, 4)
    await run_dry(bench.worker(call, batch_size=1))
    assert calls == [1, 2, 3, 4]
    send(conn, 1, 2, 3, 4)
    calls.clear()
    await run_dry(bench.worker(call))
    assert calls == [1, 2, 3, 1, 2, 3, 4]  # Without it, the neighbours are called twice.


def test_actions_of_one_batch_size_share_their_workers() -> None:
    app = Headrace()
    for name in ("a", "b"):
        app.handler(name, batch_size=1)(write)
        app.handler(name.upper())(write)
    assert [(sorted(pool.handlers), pool.batch_max) for pool in build_worker_pools(app.action_handlers.values())] == [
        (["a", "b"], 1), (["A", "B"], 500),
    ]  # fmt: skip


@dataclass
class Charge:
    amount: Decimal


got: list[Any] = []


async def to_charge(action: Action[Charge], tx: Any) -> None:
    got.append(action.payload)


def to_json(action: Action, tx: Any) -> None:
    got.append(action.payload)


@pytest.mark.lane("pg18")
async def test_payload_has_the_type_of_the_annotation(conn: Connection, bench: Bench) -> None:
    got.clear()
    app = Headrace()
    app.handler("work")(to_charge)
    app.handler("work")(to_json)  # It shares the action, and sees the plain payload.
    conn.execute(f"""select headrace.send_action('work', '{{"amount": {AMOUNT}}}')""")
    await run_dry(worker(bench, app))
    assert got == [Charge(Decimal(AMOUNT)), {"amount": float(AMOUNT)}]


@pytest.mark.lane("pg18")
async def test_numbers_are_decimals_on_request(conn: Connection, bench: Bench) -> None:
    got.clear()
    app = Headrace(numbers="decimal")
    app.handler("work")(to_json)
    conn.execute(f"select headrace.send_action('work', '{AMOUNT}')")
    await run_dry(worker(bench, app))
    assert got == [Decimal(AMOUNT)]


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("bury", [False, True])
async def test_payload_that_does_not_fit_fails_or_is_buried(conn: Connection, bench: Bench, bury: bool) -> None:
    app = Headrace()
    app.handler("work", bury_invalid=bury)(to_charge)
    send_action(conn, "work", {"amount": "much"})
    await worker(bench, app).handle_once()
    [(error,)] = conn.execute("select error from headrace.attempt").fetchall()
    assert "the payload of action work " in error and "does not fit Charge: " in error and "$.amount" in error
    assert error.startswith("Bury: " if bury else "PayloadMismatch: ")
    assert len(list_dead_letters(conn)) == bury


async def test_direct_delivery_has_types_and_loses_no_digit(conn: Connection, bench: Bench) -> None:
    import msgspec

    got.clear()
    app = Headrace()
    app.handler("work")(to_charge)
    payload: Any = msgspec.Raw(f'{{"amount": {AMOUNT}}}'.encode())
    async with await connect_async(bench_target(bench)) as other:
        assert await app.deliver(other, "work", payload)
        pending = await app.send_pending(other, "work", payload)
    assert got == [Charge(Decimal(AMOUNT))] and pending
    [stored] = conn.execute("select message -> 'payload' ->> 'amount' from pgmq.q_hr_default").fetchall()
    assert stored == (AMOUNT,)


def bench_target(bench: Bench) -> Any:
    from headrace.db import Target

    return Target("test", bench.pool.conninfo)


@pytest.mark.lane("pg18")
async def test_handler_that_runs_too_long_is_cancelled(conn: Connection, bench: Bench, effects: Effects) -> None:
    app = Headrace()

    @app.handler("work", timeout_s=0.1, attempts=1)
    async def slow(action: Action, tx: Any) -> None:
        await write(action, tx)
        await tx.execute("select pg_sleep(60)")

    send(conn, 1)
    await run_dry(worker(bench, app))
    [letter] = list_dead_letters(conn)
    assert (letter.error or "").startswith("HandlerTimeout: handler ") and effects() == []


@pytest.mark.lane("pg18")
async def test_failure_is_logged_once_with_traceback_and_fields(
    conn: Connection, bench: Bench, effects: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(action: Action, tx: Any) -> None:
        raise ValueError("first line\nsecond line")

    send(conn, 1, 2)
    with caplog.at_level(logging.WARNING, "headrace.actions"):
        await run_dry(bench.worker(fails, attempts=1))
    first, second = [record for record in caplog.records if record.name.startswith("headrace.actions")]
    assert "ValueError: first line; it was moved" in first.getMessage() and "second line" not in first.getMessage()
    assert (first.action, first.attempt, first.error) == ("work", 1, "ValueError: first line")  # type: ignore[attr-defined]
    assert first.exc_info is not None and second.exc_info is not None
    [letter, _] = list_dead_letters(conn)
    # From the handler on: the frames of headrace help nobody.
    assert (letter.traceback or "").count("File ") == 1 and "in fails" in (letter.traceback or "")


def test_error_without_a_message_is_its_class() -> None:
    assert error_summary(ValueError()) == "ValueError"
