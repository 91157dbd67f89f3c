"""Delivery: in order, exactly once for effects through the transaction, single and in batches, concurrently."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import pytest

from headrace.consume import Batch, Consumer, ConsumerRunner, Failure, consumer_lag
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, StopSignal, Subscription, Target, create_pool
from headrace.log.topics import alter_topic
from tests.builders import drain, fill, publish, shift_clock, topic
from tests.consume.conftest import Start, run_dry


class Recorder:
    """A handler that records its events."""

    def __init__(self) -> None:
        self.events: list[LoggedEvent] = []
        self.batches: list[int] = []

    async def handle(self, event: LoggedEvent, tx: AsyncConnection) -> None:
        self.events.append(event)

    async def handle_batch(self, events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        self.events.extend(events)
        self.batches.append(len(events))

    @property
    def numbers(self) -> list[object]:
        return [event.payload for event in self.events]


async def test_every_event_is_handled_once_in_order_per_partition(conn: Connection, start: Start) -> None:
    topic(conn, partitions=4)
    fill(conn, 500, keys=20)
    recorder = Recorder()
    await run_dry(await start(Consumer(topic="orders", name="c", handler=recorder.handle)))
    by_partition: dict[int, list[int]] = defaultdict(list)
    for event in recorder.events:
        by_partition[event.partition].append(event.position)
    assert all(positions == sorted(positions) for positions in by_partition.values())
    assert sorted(event.position for event in recorder.events) == list(range(1, 501))


async def test_consumer_ordered_by_topic_gets_events_in_topic_order(conn: Connection, start: Start) -> None:
    topic(conn, partitions=4)
    fill(conn, 300, keys=20)
    recorder = Recorder()
    await run_dry(await start(Consumer(topic="orders", name="c", handler=recorder.handle, ordered_by="topic")))
    assert [event.position for event in recorder.events] == list(range(1, 301))


@pytest.mark.lane("pg18")
async def test_handler_gets_the_whole_event(conn: Connection, start: Start) -> None:
    topic(conn)
    conn.execute(
        """select headrace.publish('orders', 'order.placed', '{"a": [1, 2.5, null]}', p_key => 'k', p_headers => '{"h": "x"}',
           p_event_id => '01890000-0000-7000-8000-000000000001', p_emitted_at => '2026-01-02T03:04:05Z', p_producer => 'shop')"""
    )
    drain(conn)
    recorder = Recorder()
    await run_dry(await start(Consumer(topic="orders", name="c", handler=recorder.handle)))
    (event,) = recorder.events
    assert (event.topic, event.type, event.key, event.payload) == ("orders", "order.placed", "k", {"a": [1, 2.5, None]})
    assert (event.headers, event.producer, event.position) == ({"h": "x"}, "shop", 1)
    assert str(event.id) == "01890000-0000-7000-8000-000000000001"
    assert event.emitted_at.isoformat() == "2026-01-02T03:04:05+00:00"


@pytest.mark.lane("pg18")
async def test_batches_have_at_most_max_events(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 25)
    recorder = Recorder()
    await run_dry(await start(Consumer(topic="orders", name="c", handler=recorder.handle_batch, batch=Batch(max=10))))
    assert recorder.batches == [10, 10, 5]


async def test_small_batch_waits_until_its_oldest_event_is_old_enough(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 3)
    recorder = Recorder()
    patient = await start(
        Consumer(topic="orders", name="c", handler=recorder.handle_batch, batch=Batch(min=5, max=10, wait_s=3600))
    )
    assert not await patient.handle_once()
    fill(conn, 2)
    assert await patient.handle_once()
    assert recorder.batches == [5]
    fill(conn, 1)
    hurried = await start(Consumer(topic="orders", name="c", handler=recorder.handle_batch, batch=Batch(min=5, max=10, wait_s=0)))
    assert await hurried.handle_once()
    assert recorder.batches == [5, 1]


def test_partition_with_too_few_events_is_left_to_others(conn: Connection, second: Connection) -> None:
    """While the handler of another partition runs: each claim applies its own wait_s."""
    topic(conn, partitions=2)
    conn.execute("select headrace.create_consumer('orders', 'c')")
    fill(conn, 9)
    conn.execute("update headrace_internal.cursor set position = 7, moved_at = '-infinity' where partition = 1")
    with conn.transaction():
        patient = conn.execute("select partition, events from headrace.claim(1, 10, 3, 3600, 2)").fetchall()
        assert patient == [(0, 4)]
        assert second.execute("select partition, events from headrace.claim(1, 10, 3, 0)").fetchall() == [(1, 1)]


@pytest.mark.lane("pg18")
async def test_effects_through_the_transaction_commit_with_the_cursor(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 3)
    conn.execute("create table effect (n int)")

    async def write_then_fail_once(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        for event in events:
            await tx.execute("insert into effect values (%s)", (event.payload,))
        if not failed:
            failed.append(True)
            raise RuntimeError("after the effects")

    failed: list[bool] = []
    runner = await start(Consumer(topic="orders", name="c", handler=write_then_fail_once, batch=Batch(max=10)))
    await runner.handle_once()
    assert conn.execute("select count(*) from effect").fetchone() == (0,)
    await run_dry(runner)
    assert conn.execute("select array_agg(n order by n) from effect").fetchone() == ([1, 2, 3],)


@pytest.mark.lane("pg18")
async def test_sync_handler_works_in_the_same_transaction(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 3)
    conn.execute("create table effect (n int)")

    def write(event: LoggedEvent, tx: Connection) -> None:
        with tx.transaction():
            tx.execute("insert into effect values (%s)", (event.payload,))
        if event.payload == 3:
            raise RuntimeError("no third")

    runner = await start(Consumer(topic="orders", name="c", handler=write, failure=Failure.stop()))
    await run_dry(runner)
    assert conn.execute("select array_agg(n order by n) from effect").fetchone() == ([1, 2],)
    assert [row.position for row in consumer_lag(conn)] == [2]


async def test_partition_is_held_by_one_at_a_time(conn: Connection, start: Start) -> None:
    topic(conn, partitions=2)
    fill(conn, 200, keys=20)
    inside: dict[int, int] = defaultdict(int)
    clashes: list[int] = []

    async def slow(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        partition = events[0].partition
        inside[partition] += 1
        await asyncio.sleep(0.002)
        if inside[partition] > 1:
            clashes.append(partition)
        inside[partition] -= 1

    runners = [await start(Consumer(topic="orders", name="c", handler=slow, batch=Batch(max=5))) for _ in range(3)]
    for _ in range(60):
        await asyncio.gather(*(runner.handle_once() for runner in runners))
    assert clashes == []
    assert sum(runner.handled for runner in runners) == 200


@pytest.mark.lane("pg18")
async def test_two_consumers_do_not_disturb_each_other(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 10)
    first, second = Recorder(), Recorder()
    await run_dry(await start(Consumer(topic="orders", name="one", handler=first.handle)))
    await run_dry(await start(Consumer(topic="orders", name="two", handler=second.handle)))
    assert first.numbers == second.numbers == list(range(1, 11))


async def test_consumer_that_starts_at_latest_gets_only_new_events(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 5)
    recorder = Recorder()
    runner = await start(Consumer(topic="orders", name="c", handler=recorder.handle, start="latest"))
    publish(conn, 99)
    drain(conn)
    await run_dry(runner)
    assert recorder.numbers == [99]


async def test_key_keeps_its_order_when_partitions_are_added(conn: Connection, start: Start) -> None:
    """Keys change partition at the border; no partition passes it before all have reached it."""
    topic(conn, partitions=2)
    fill(conn, 200, keys=40)
    recorder = Recorder()
    runner = await start(Consumer(topic="orders", name="c", handler=recorder.handle_batch, batch=Batch(max=7)))
    for _ in range(5):
        await runner.handle_once()
    alter_topic(conn, "orders", partitions=7)
    fill(conn, 200, keys=40)
    alter_topic(conn, "orders", partitions=11)
    fill(conn, 200, keys=40)
    await run_dry(runner)
    assert len(recorder.events) == 600
    assert len({event.partition for event in recorder.events if event.position > 400}) == 11
    by_key: dict[str | None, list[int]] = defaultdict(list)
    for event in recorder.events:
        by_key[event.key].append(event.position)
    assert all(positions == sorted(positions) for positions in by_key.values())


@pytest.mark.lane("pg18")
async def test_without_the_border_the_order_would_break(conn: Connection, start: Start) -> None:
    """The seeded bug: without the border the law above fails, so that test can fail."""
    topic(conn, partitions=2)
    fill(conn, 400, keys=40)
    recorder = Recorder()
    runner = await start(Consumer(topic="orders", name="c", handler=recorder.handle_batch, batch=Batch(max=7)))
    alter_topic(conn, "orders", partitions=7)
    fill(conn, 400, keys=40)
    conn.execute("delete from headrace_internal.topic_border where position > 0")
    await run_dry(runner)
    by_key: dict[str | None, list[int]] = defaultdict(list)
    for event in recorder.events:
        by_key[event.key].append(event.position)
    assert any(positions != sorted(positions) for positions in by_key.values())


async def test_lag_is_given_in_events_and_seconds(conn: Connection, start: Start) -> None:
    topic(conn)
    runner = await start(Consumer(topic="orders", name="c", handler=Recorder().handle))
    fill(conn, 7)
    shift_clock(conn, "90 seconds")
    (behind,) = consumer_lag(conn)
    assert behind.lag_events == 7
    assert 90 <= behind.lag_s < 120
    await run_dry(runner)
    assert [(row.lag_events, row.lag_s) for row in consumer_lag(conn)] == [(0, 0.0)]


async def test_stop_signal_commits_the_events_that_are_handled(conn: Connection, database: Target) -> None:
    topic(conn)
    fill(conn, 30)
    stop, handled = StopSignal(), list[object]()

    async def handle(event: LoggedEvent, tx: AsyncConnection) -> None:
        handled.append(event.payload)
        if len(handled) == 5:
            stop.set()

    pool = create_pool(database, size=2)
    await pool.open()
    runner = ConsumerRunner(
        Consumer(topic="orders", name="c", handler=handle, concurrency=1), pool, Subscription("headrace_log"), stop
    )
    await runner.run()
    await pool.close()
    assert (len(handled), runner.handled) == (5, 5)
    assert sum(row.lag_events for row in consumer_lag(conn)) == 25
