"""Failure policies: stop, retry, dead letter. The order of a key is never lost silently."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from headrace.actions import discard, list_dead_letters, redrive
from headrace.consume import Batch, Consumer, Failure, consumer_lag, resume_consumer
from headrace.core import LoggedEvent
from headrace.db import TRANSIENT_ERRORS, AsyncConnection, Connection, Loop
from tests.builders import drain, fill, publish, topic
from tests.consume.conftest import Start, run_dry


class Picky:
    """A handler that raises on some numbers."""

    def __init__(self, *disliked: int) -> None:
        self.disliked = set(disliked)
        self.done: list[object] = []
        self.calls = 0

    async def handle(self, event: LoggedEvent, tx: AsyncConnection) -> None:
        self.calls += 1
        if event.payload in self.disliked:
            raise ValueError(f"cannot handle {event.payload}")
        self.done.append(event.payload)

    async def handle_batch(self, events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        self.calls += 1
        if self.disliked & {event.payload for event in events}:
            raise ValueError("cannot handle the batch")
        self.done.extend(event.payload for event in events)


async def test_stop_keeps_earlier_effects_and_waits_at_the_event(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 5)
    picky = Picky(3)
    runner = await start(Consumer(topic="orders", name="c", handler=picky.handle, failure=Failure.stop()))
    await run_dry(runner)
    (row,) = consumer_lag(conn)
    assert (picky.done, row.state, row.position, row.lag_events) == ([1, 2], "stopped", 2, 3)
    assert "cannot handle 3" in (row.error or "")


async def test_resume_tries_again_where_it_stopped(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 5)
    picky = Picky(3)
    runner = await start(Consumer(topic="orders", name="c", handler=picky.handle, failure=Failure.stop()))
    await run_dry(runner)
    picky.disliked.clear()
    assert resume_consumer(conn, "orders", "c") == 1
    await run_dry(runner)
    assert picky.done == [1, 2, 3, 4, 5]


async def test_retry_waits_longer_each_time_and_loses_nothing(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 1)
    picky = Picky(1)
    runner = await start(Consumer(topic="orders", name="c", handler=picky.handle, failure=Failure.retry(backoff_s=10)))
    pauses = []
    for _ in range(4):
        assert await runner.handle_once()
        assert not await runner.handle_once(), "it must wait before the next attempt"
        row = conn.execute("select extract(epoch from retry_at - headrace.clock())::float from headrace.cursor").fetchone()
        assert row is not None
        pauses.append(row[0])
        conn.execute("update headrace_internal.cursor set retry_at = headrace.clock()")
    assert all(low <= pause <= high for pause, (low, high) in zip(pauses, [(4, 10), (9, 20), (19, 40), (39, 80)], strict=True))
    picky.disliked.clear()
    await run_dry(runner)
    assert (picky.calls, picky.done) == (5, [1])


@pytest.mark.lane("pg18")
async def test_handler_that_always_fails_blocks_only_its_partition(conn: Connection, start: Start) -> None:
    topic(conn, partitions=8)
    fill(conn, 100, keys=30)
    poison = conn.execute("select payload::int, partition from headrace.log where position = 1").fetchone()
    assert poison is not None
    picky = Picky(poison[0])
    await run_dry(await start(Consumer(topic="orders", name="c", handler=picky.handle)))
    left = {row.partition for row in consumer_lag(conn) if row.lag_events}
    assert left == {poison[1]}


@pytest.mark.lane("pg18")
async def test_failed_batch_is_handled_event_by_event_to_find_the_one_at_fault(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 20)
    picky = Picky(13)
    policy = Failure.dead_letter(attempts=1)
    await run_dry(
        await start(Consumer(topic="orders", name="c", handler=picky.handle_batch, batch=Batch(max=20), failure=policy))
    )
    assert picky.done == [n for n in range(1, 21) if n != 13]
    assert [letter.payload for letter in list_dead_letters(conn)] == [13]


@pytest.mark.lane("pg18")
async def test_dead_letter_records_the_event_the_error_and_the_attempts(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 3, keys=3)
    picky = Picky(2)
    policy = Failure.dead_letter(attempts=2, backoff_s=0.001, backoff_max_s=0.001)
    runner = await start(Consumer(topic="orders", name="c", handler=picky.handle, failure=policy))
    for _ in range(10):
        conn.execute("update headrace_internal.cursor set retry_at = null")
        await runner.handle_once()
    (letter,) = list_dead_letters(conn, consumer="orders/c")
    assert (letter.position, letter.key, letter.payload, letter.attempts, letter.state) == (2, "k2", 2, 2, "dead")
    assert "ValueError: cannot handle 2" in (letter.error or "")
    assert picky.done == [1, 3]


def hold(attempts: int = 1) -> Failure:
    return Failure.dead_letter(attempts=attempts)


def log(conn: Connection, *keys: str | None, first: int = 1, topic: str = "orders") -> None:
    """Events of these keys, numbered from `first` on, in the log."""
    for n, key in enumerate(keys, first):
        publish(conn, n, key=key, topic=topic)
    drain(conn)


def letters(conn: Connection, topic: str = "orders") -> dict[int | None, str]:
    """The state of each dead letter by its position."""
    return {letter.position: letter.state for letter in list_dead_letters(conn, consumer=topic)}


async def test_later_events_of_a_dead_key_wait_behind_it(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 9, keys=3)
    picky = Picky(2)
    await run_dry(await start(Consumer(topic="orders", name="c", handler=picky.handle, failure=hold())))
    assert picky.done == [1, 3, 4, 6, 7, 9]
    assert [(letter.payload, letter.state) for letter in list_dead_letters(conn)] == [(2, "dead"), (5, "behind"), (8, "behind")]


async def test_events_behind_a_dead_one_are_kept_when_another_event_is_buried(conn: Connection, start: Start) -> None:
    topic(conn)
    log(conn, "a", "a", "b")
    await run_dry(await start(Consumer(topic="orders", name="c", handler=Picky(1, 3).handle, failure=hold())))
    assert letters(conn) == {1: "dead", 2: "behind", 3: "dead"}


async def test_batch_whose_last_event_is_held_buries_the_event_at_fault(conn: Connection, start: Start) -> None:
    topic(conn)
    log(conn, "a")
    picky = Picky(1, 3)
    runner = await start(Consumer(topic="orders", name="c", handler=picky.handle_batch, batch=Batch(max=10), failure=hold()))
    await run_dry(runner)
    log(conn, "a", "b", "a", first=2)
    await run_dry(runner)
    assert letters(conn) == {1: "dead", 2: "behind", 3: "dead", 4: "behind"}


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("batch", [None, Batch(max=8)])
async def test_every_event_is_handled_in_key_order_or_dead_or_waits_behind_a_dead_one(
    conn: Connection, start: Start, batch: Batch | None, attempts: int
) -> None:
    for seed in range(6):
        random = Random(seed)
        keys = [random.choice(["a", "b", "c", None]) for _ in range(24)]
        poison = {n for n in range(1, 25) if random.random() < 0.3}
        picky = Picky(*poison)
        handler = picky.handle_batch if batch else picky.handle
        name = f"topic-{seed}"
        topic(conn, name)
        runner = await start(Consumer(topic=name, name="c", handler=handler, batch=batch, failure=hold(attempts)))
        for first in range(1, 25, 3):
            log(conn, *keys[first - 1 : first + 2], first=first, topic=name)
            for _ in range(8):
                conn.execute("update headrace_internal.cursor set retry_at = null")
                await runner.handle_once()
        expected: dict[int, str] = {}
        for n, key in enumerate(keys, 1):
            is_behind = key is not None and key in {keys[m - 1] for m in expected}
            if is_behind or n in poison:
                expected[n] = "behind" if is_behind else "dead"
        assert letters(conn, name) == expected, seed
        assert picky.done == [n for n in range(1, 25) if n not in expected], seed
        assert [row.lag_events for row in consumer_lag(conn, topic=name)] == [0], seed


async def test_event_held_before_the_cursor_reaches_it_is_handled_once(conn: Connection, start: Start) -> None:
    """It was held with an earlier batch, and is redriven while the cursor still waits for another event."""
    topic(conn)
    log(conn, "a")
    picky = Picky(1, 3)
    runner = await start(Consumer(topic="orders", name="c", handler=picky.handle, failure=hold(2)))
    for _ in range(3):
        conn.execute("update headrace_internal.cursor set retry_at = null")
        await runner.handle_once()
    log(conn, "b", "b", "a", first=2)
    await runner.handle_once()
    picky.disliked.clear()
    redrive(conn, ["orders/c"])
    for _ in range(3):
        while await runner.redrive_once():
            pass
        conn.execute("update headrace_internal.cursor set retry_at = null")
        await runner.handle_once()
    assert (picky.done, letters(conn)) == ([2, 1, 3, 4], {})


async def test_redrive_handles_the_key_in_order_and_delivers_it_again(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 9, keys=3)
    picky = Picky(2)
    runner = await start(Consumer(topic="orders", name="c", handler=picky.handle, failure=hold()))
    await run_dry(runner)
    picky.disliked.clear()
    assert redrive(conn, ["orders/c"]) == 3
    publish(conn, 11, key="k2")
    drain(conn)
    await run_dry(runner)
    assert picky.done[6:] == [], "events that arrive meanwhile still wait behind"
    assert redrive(conn, ["orders/c"]) == 1
    while await runner.redrive_once():
        pass
    assert picky.done[6:] == [2, 5, 8, 11]
    publish(conn, 12, key="k2")
    drain(conn)
    await run_dry(runner)
    assert picky.done[-1] == 12
    assert list_dead_letters(conn) == []
    assert len(list_dead_letters(conn, ended=True)) == 4


async def test_redrive_that_fails_again_stays_dead_with_the_events_behind_it(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 6, keys=3)
    runner = await start(Consumer(topic="orders", name="c", handler=Picky(2).handle, failure=hold()))
    await run_dry(runner)
    redrive(conn, ["orders/c"])
    while await runner.redrive_once():
        pass
    assert [(letter.payload, letter.state, letter.attempts) for letter in list_dead_letters(conn)] == [
        (2, "dead", 2),
        (5, "behind", 0),
    ]


async def test_discarded_letter_frees_its_key(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 3, keys=3)
    picky = Picky(2)
    runner = await start(Consumer(topic="orders", name="c", handler=picky.handle, failure=hold()))
    await run_dry(runner)
    assert discard(conn, ["orders/c/2"]) == 1
    publish(conn, 5, key="k2")
    drain(conn)
    await run_dry(runner)
    assert picky.done == [1, 3, 5]


async def test_skip_delivers_later_events_of_a_dead_key(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 6, keys=3)
    picky = Picky(2)
    policy = Failure.dead_letter(attempts=1, key_order="skip")
    await run_dry(await start(Consumer(topic="orders", name="c", handler=picky.handle, failure=policy)))
    assert picky.done == [1, 3, 4, 5, 6]


@pytest.mark.lane("pg18")
async def test_database_error_does_not_count_as_an_attempt(conn: Connection, start: Start) -> None:
    """A terminated backend is not the handler's fault: no attempt counts, and the event is handled afterwards."""
    topic(conn)
    fill(conn, 1)
    done: list[object] = []

    async def unlucky(event: LoggedEvent, tx: AsyncConnection) -> None:
        if not done:
            done.append("cut")
            conn.execute("select pg_terminate_backend(%s)", (tx.info.backend_pid,))
            await tx.execute("select 1")
        done.append(event.payload)

    runner = await start(Consumer(topic="orders", name="c", handler=unlucky, failure=Failure.stop()))
    assert await Loop("test").retry(runner.handle_once)
    assert done == ["cut", 1]
    assert [(row.state, row.attempts) for row in consumer_lag(conn)] == [("idle", 0)]


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("batch", [None, Batch(max=10)])
async def test_handler_that_raises_on_a_lost_connection_is_retried(conn: Connection, start: Start, batch: Batch | None) -> None:
    """The lost connection caused the handler's error, so it does not count, and the loop goes on."""
    topic(conn)
    fill(conn, 1)
    lost: list[object] = []

    async def handle(_: object, tx: AsyncConnection) -> None:
        if not lost:
            lost.append(tx)
            conn.execute("select pg_terminate_backend(%s)", (tx.info.backend_pid,))
            raise ValueError("the session is gone")

    runner = await start(Consumer(topic="orders", name="c", handler=handle, batch=batch, failure=Failure.stop()))
    with pytest.raises(TRANSIENT_ERRORS):
        await runner.handle_once()
    await run_dry(runner)
    (row,) = consumer_lag(conn)
    assert (row.state, row.position) == ("idle", 1)
