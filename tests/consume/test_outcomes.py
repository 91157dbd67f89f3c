"""A handler of a consumer may choose what follows: Retry, Discard, Bury; and its calls have limits."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace import Batch, Bury, Discard, Failure, Headrace, Invalid, Retry
from headrace.actions import list_dead_letters
from headrace.consume import Consumer, consumer_lag
from headrace.db import Connection
from tests.builders import fill, topic
from tests.consume.conftest import Start, run_dry


def consumer(handler: Any, **options: Any) -> Consumer:
    app = Headrace()
    app.consumer("orders", name="c", **options)(handler)
    return app.consumers[0]


def effect_table(conn: Connection) -> None:
    conn.execute("create table effect (n int)")


def effects(conn: Connection) -> list[int]:
    return [n for (n,) in conn.execute("select n from effect order by n").fetchall()]


class Raises:
    """Raises an error on one number, after the effect; `limit`: at most this often."""

    def __init__(self, number: int, error: Exception, limit: int = 1000) -> None:
        self.number, self.error, self.limit = number, error, limit

    async def handle(self, event: Any, tx: Any) -> None:
        await tx.execute("insert into effect values (%s)", (event.payload,))
        if event.payload == self.number and self.limit > 0:
            self.limit -= 1
            raise self.error

    async def handle_batch(self, events: Any, tx: Any) -> None:
        for event in events:
            await self.handle(event, tx)


async def test_retry_waits_as_long_as_the_handler_says(conn: Connection, start: Start) -> None:
    topic(conn)
    effect_table(conn)
    fill(conn, 3)
    runner = await start(consumer(Raises(2, Retry("busy", after_s=1000), 1).handle, failure=Failure.retry(backoff_s=1)))
    await run_dry(runner)
    assert effects(conn) == [1]
    [lag] = consumer_lag(conn)
    assert (lag.error, lag.attempts) == ("Retry: busy", 1)
    (wait_s,) = conn.execute("select extract(epoch from retry_at - headrace.clock()) from headrace.cursor").fetchone()  # type: ignore[misc]
    assert 900 < wait_s <= 1000
    conn.execute("select headrace.resume('consumer', 'orders/c')")
    await run_dry(runner)
    assert effects(conn) == [1, 2, 3]


async def test_retry_counts_as_an_attempt(conn: Connection, start: Start) -> None:
    topic(conn)
    effect_table(conn)
    fill(conn, 2)
    policy = Failure.dead_letter(attempts=3)
    runner = await start(consumer(Raises(1, Retry(after_s=0)).handle, failure=policy))
    await run_dry(runner)
    assert effects(conn) == [2]
    [letter] = list_dead_letters(conn)
    assert (letter.attempts, letter.reason, letter.error) == (3, "handler failed", "Retry")


@pytest.mark.parametrize("policy", [Failure.stop(), Failure.retry(), Failure.dead_letter(attempts=5)])
@pytest.mark.parametrize("batch", [None, Batch(max=10)])
async def test_bury_moves_the_event_to_the_dead_letters_at_once(
    conn: Connection, start: Start, policy: Failure, batch: Batch | None
) -> None:
    topic(conn)
    effect_table(conn)
    fill(conn, 3)
    handler = Raises(2, Bury("card expired"))
    await run_dry(await start(consumer(handler.handle_batch if batch else handler.handle, batch=batch, failure=policy)))
    assert effects(conn) == [1, 3]  # Also what the handler wrote before it raised is gone.
    [letter] = list_dead_letters(conn)
    assert (letter.position, letter.reason, letter.error) == (2, "handler buried it", "Bury: card expired")
    assert letter.attempts == 1


@pytest.mark.parametrize("batch", [None, Batch(max=10)])
async def test_discard_gives_the_event_up_and_keeps_a_record(conn: Connection, start: Start, batch: Batch | None) -> None:
    topic(conn)
    effect_table(conn)
    fill(conn, 3, keys=1)
    handler = Raises(2, Discard("a test order"))
    policy = Failure.dead_letter()
    await run_dry(await start(consumer(handler.handle_batch if batch else handler.handle, batch=batch, failure=policy)))
    assert effects(conn) == [1, 3]  # The third has the same key, and nothing holds it back.
    assert list_dead_letters(conn) == []
    [letter] = list_dead_letters(conn, ended=True)
    assert (letter.state, letter.reason, letter.error) == ("discarded", "handler discarded it", "Discard: a test order")


async def test_redriven_event_may_be_discarded_and_those_behind_it_follow(conn: Connection, start: Start) -> None:
    topic(conn)
    effect_table(conn)
    fill(conn, 2, keys=1)
    handler = Raises(1, Bury("no"))
    runner = await start(consumer(handler.handle, failure=Failure.dead_letter()))
    await run_dry(runner)
    handler.error = Discard("give up")
    conn.execute("select headrace.redrive('orders', 'c')")
    while await runner.redrive_once():
        pass
    assert effects(conn) == [2]
    assert {letter.position: letter.state for letter in list_dead_letters(conn, ended=True)} == {1: "discarded", 2: "redriven"}


def test_pause_of_a_retry_has_limits() -> None:
    for after_s in (-1, float("nan"), float("inf")):
        with pytest.raises(Invalid, match="give a pause of 0 to 31536000 seconds"):
            Retry(after_s=after_s)


@pytest.mark.lane("pg18")
async def test_async_handler_that_runs_too_long_is_cancelled(conn: Connection, start: Start) -> None:
    topic(conn)
    effect_table(conn)
    fill(conn, 2)

    async def slow(event: Any, tx: Any) -> None:
        await tx.execute("insert into effect values (%s)", (event.payload,))
        if event.payload == 1:
            await tx.execute("select pg_sleep(60)")

    started = time.monotonic()
    await run_dry(await start(consumer(slow, timeout_s=0.1, failure=Failure.dead_letter(attempts=1))))
    assert time.monotonic() - started < 10
    [letter] = list_dead_letters(conn)
    assert (letter.error or "").startswith("HandlerTimeout: handler ") and "timeout_s = 0.1" in (letter.error or "")
    assert effects(conn) == [2]


async def test_statement_of_a_plain_handler_that_runs_too_long_is_cancelled(conn: Connection, start: Start) -> None:
    topic(conn)
    effect_table(conn)
    fill(conn, 2)

    def slow(event: Any, tx: Any) -> None:
        tx.execute("insert into effect values (%s)", (event.payload,))
        if event.payload == 1:
            tx.execute("select pg_sleep(60)")

    started = time.monotonic()
    await run_dry(await start(consumer(slow, timeout_s=0.1, failure=Failure.dead_letter(attempts=1))))
    assert time.monotonic() - started < 10
    assert (list_dead_letters(conn)[0].error or "").startswith("HandlerTimeout")
    assert effects(conn) == [2]


@pytest.mark.lane("pg18")
async def test_plain_handler_that_ends_too_late_has_failed(conn: Connection, start: Start) -> None:
    topic(conn)
    effect_table(conn)
    fill(conn, 1)

    def slow(event: Any, tx: Any) -> None:
        tx.execute("insert into effect values (1)")
        deadline = time.monotonic() + 0.1
        while time.monotonic() < deadline:
            pass

    await run_dry(await start(consumer(slow, timeout_s=0.05, failure=Failure.dead_letter(attempts=1))))
    assert effects(conn) == [] and len(list_dead_letters(conn)) == 1


@pytest.mark.lane("pg18")
async def test_own_timeout_of_a_handler_is_not_ours(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 1)

    async def times_out(event: Any, tx: Any) -> None:
        raise TimeoutError("the mail server")

    await run_dry(await start(consumer(times_out, timeout_s=60, failure=Failure.dead_letter(attempts=1))))
    assert list_dead_letters(conn)[0].error == "TimeoutError: the mail server"


@pytest.mark.lane("pg18")
async def test_batch_size_1_repeats_no_call_of_a_neighbour(conn: Connection, start: Start) -> None:
    """With larger transactions, the failure of a later event at commit repeats the calls of the earlier ones."""
    topic(conn)
    conn.execute("create table effect (n int, constraint once unique (n) deferrable initially deferred)")
    fill(conn, 5)
    calls: list[Any] = []

    async def call(event: Any, tx: Any) -> None:
        calls.append(event.payload)
        await tx.execute("insert into effect values (%s)", (1 if event.payload == 4 else event.payload,))

    await run_dry(await start(consumer(call, batch_size=1, failure=Failure.dead_letter(attempts=1))))
    assert calls == [1, 2, 3, 4, 5]
    with pytest.raises(Invalid, match=r"batch_size 2 is for a handler of single events.*batch=Batch\(max=...\)"):
        consumer(call, batch_size=2, batch=Batch())
