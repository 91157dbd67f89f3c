"""Claims of several partitions at once, and failures recorded under the claim."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.consume import Batch, Consumer, Failure, consumer_lag
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection
from headrace.prove.bugs import function_definition
from tests.builders import drain, fill, publish, topic, wait_until
from tests.consume.conftest import Start, run_dry

SLOW = float("inf")


class Recorder:
    def __init__(self, *bad: int) -> None:
        self.bad = set(bad)
        self.batches: list[list[LoggedEvent]] = []

    async def handle(self, events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        self.batches.append(list(events))
        if self.bad & {event.payload for event in events}:
            raise ValueError("bad")
        for event in events:
            await tx.execute("insert into effect values (%s)", (event.payload,))

    async def handle_single(self, event: LoggedEvent, tx: AsyncConnection) -> None:
        await self.handle([event], tx)


def batch_consumer(recorder: Recorder, **options: object) -> Consumer:
    return Consumer(topic="orders", name="c", handler=recorder.handle, batch=Batch(max=100), **options)  # type: ignore[arg-type]


def spread(conn: Connection, events: int, *, partitions: int = 4) -> None:
    """Events without a key: one partition after the other."""
    topic(conn, partitions=partitions)
    conn.execute("create table effect (n int)")
    for n in range(1, events + 1):
        publish(conn, n)
    drain(conn)


def effects(conn: Connection) -> list[int]:
    return [n for (n,) in conn.execute("select n from effect order by n").fetchall()]


async def test_fast_handler_gets_the_events_of_all_partitions_in_one_call(conn: Connection, start: Start) -> None:
    spread(conn, 40)
    recorder = Recorder()
    runner = await start(batch_consumer(recorder))
    runner._delivery.handler_s = 0
    assert await runner.handle_once() == 40
    [events] = recorder.batches
    assert [event.position for event in events] == list(range(1, 41))
    assert {event.partition for event in events} == {0, 1, 2, 3}
    assert {row.position for row in consumer_lag(conn)} == {37, 38, 39, 40}
    assert runner.handled_by_partition == dict.fromkeys(range(4), 10)


async def test_slow_handler_gets_one_partition_and_leaves_the_others_to_other_workers(conn: Connection, start: Start) -> None:
    spread(conn, 40)
    recorder = Recorder()
    runner = await start(batch_consumer(recorder))
    runner._delivery.handler_s = SLOW
    batch = await runner.handle_batch()
    assert (batch.size, batch.may_have_more) == (10, True)
    assert len({event.partition for event in recorder.batches[0]}) == 1


@pytest.mark.lane("pg18")
async def test_claim_of_all_partitions_says_that_nothing_is_left(conn: Connection, start: Start) -> None:
    spread(conn, 8)
    runner = await start(batch_consumer(Recorder()))
    runner._delivery.handler_s = 0
    assert not (await runner.handle_batch()).may_have_more


async def test_bad_event_among_several_partitions_fails_alone(conn: Connection, start: Start) -> None:
    spread(conn, 12)
    recorder = Recorder(6)
    runner = await start(batch_consumer(recorder, failure=Failure.dead_letter(attempts=1)))
    runner._delivery.handler_s = 0
    await run_dry(runner)
    assert effects(conn) == [n for n in range(1, 13) if n != 6]
    assert conn.execute("select position, state from headrace.event_dead_letter").fetchall() == [(6, "dead")]
    later = [event.position for events in recorder.batches[1:] for event in events]
    assert len(later) == len(set(later)), "after the first failure no event is handled twice"


async def test_single_events_before_the_bad_one_stay_done_in_every_partition(conn: Connection, start: Start) -> None:
    spread(conn, 12)
    recorder = Recorder(6)
    runner = await start(Consumer(topic="orders", name="c", handler=recorder.handle_single, failure=Failure.stop()))
    runner._delivery.handler_s = 0
    await runner.handle_once()
    assert effects(conn) == [1, 2, 3, 4, 5]
    assert sorted((row.position, row.state) for row in consumer_lag(conn)) == [
        (2, "stopped"), (3, "idle"), (4, "idle"), (5, "idle")
    ]  # fmt: skip
    await run_dry(runner)
    assert effects(conn) == [1, 2, 3, 4, 5, 7, 8, 9, 11, 12]


@pytest.mark.lane("pg18")
async def test_partition_skipped_while_it_gives_single_events_is_claimed_next(conn: Connection, start: Start) -> None:
    spread(conn, 8)
    conn.execute("select headrace.create_consumer('orders', 'c')")
    conn.execute(
        "update headrace_internal.cursor set single_to = 8, moved_at = moved_at + interval '1 minute' where partition = 2"
    )
    runner = await start(batch_consumer(Recorder()))
    runner._delivery.handler_s = 0
    assert [(batch.size, batch.may_have_more) for batch in [await runner.handle_batch() for _ in range(4)]] == [
        (6, True), (1, True), (1, True), (0, False)
    ]  # fmt: skip


@pytest.mark.parametrize("is_batch", [True, False])
async def test_failure_is_recorded_before_another_worker_can_claim(conn: Connection, start: Start, is_batch: bool) -> None:
    """The record waits; meanwhile a second worker must not run the handler on the same events."""
    topic(conn)
    fill(conn, 3)
    conn.execute("create table effect (n int)")
    definition = function_definition(conn, "fail")
    first, second = Recorder(1), Recorder()

    def consumer(recorder: Recorder) -> Consumer:
        if is_batch:
            return batch_consumer(recorder)
        return Consumer(topic="orders", name="c", handler=recorder.handle_single)

    failing, other = await start(consumer(first)), await start(consumer(second))
    conn.execute(definition.replace("begin\n", "begin\n    perform pg_advisory_xact_lock_shared(15);\n", 1))
    with ThreadPoolExecutor() as threads:
        with conn.transaction():
            conn.execute("select pg_advisory_xact_lock(15)")
            waiting = asyncio.create_task(failing.handle_once())
            waits = "select count(*) > 0 from pg_locks where locktype = 'advisory' and not granted"
            await asyncio.get_running_loop().run_in_executor(
                threads, wait_until, lambda: conn.execute(waits).fetchone() == (True,), "the failure is being recorded"
            )
            assert await other.handle_once() == 0
            assert second.batches == []
        await waiting
    (row,) = consumer_lag(conn)
    assert (row.position, row.error) == (0, "ValueError: bad")


@pytest.mark.lane("pg18")
async def test_handler_that_rolls_back_a_savepoint_of_its_own_keeps_its_batch(conn: Connection, start: Start) -> None:
    """psycopg then deallocates every prepared statement of the session, also headrace's."""
    spread(conn, 20, partitions=1)

    async def handle(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        for event in events:
            await tx.execute("insert into effect values (%s)", (event.payload,), prepare=True)
        with pytest.raises(RuntimeError):
            async with tx.transaction():
                raise RuntimeError

    runner = await start(Consumer(topic="orders", name="c", handler=handle, batch=Batch(max=5)))
    assert await run_dry(runner) == 4
    assert effects(conn) == list(range(1, 21))
    assert runner.failures == 0
