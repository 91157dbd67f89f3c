"""Events that the sequencer of a node gives straight to its consumers: handled as if they had been claimed, once, in order, and never lost.

Nothing polls in these tests: the poll for due consumers never runs, so an event that nobody is woken for is never handled."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.consume import Batch, Consumer, ConsumerRunner, Failure, seek_consumer
from headrace.consume.appended import WAITING_MAX
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, Target
from headrace.log.topics import alter_topic, create_topic, drop_topic
from tests.builders import drain, publish, topic
from tests.consume.conftest import run_dry
from tests.consume.desk import (
    Desk,
    InHand,
    Recorder,
    cursors,
    desk_of,
    letters,
    publish_many,
    until,
)

# What is in hand is handled without a claim.


@pytest.mark.parametrize("batch", [None, Batch(max=10)], ids=["single", "batch"])
@pytest.mark.parametrize(("ordered_by", "partitions"), [("partition", 1), ("topic", 3)])
async def test_idle_consumer_handles_new_events_without_looking_for_them(
    conn: Connection, desk: Desk, batch: Batch | None, ordered_by: Any, partitions: int
) -> None:
    topic(conn, partitions=partitions)
    recorder = Recorder()
    [runner] = await desk.add(recorder.consumer(batch=batch, ordered_by=ordered_by))
    desk.run(sequencer=False)
    await desk.idle()
    claims = runner.claims
    for n in range(1, 6):
        publish(conn, n, key=f"k{n}")
        await desk.sequence()
        await until(lambda n=n: runner.handled == n)  # type: ignore[misc]
    assert recorder.numbers == [1, 2, 3, 4, 5]
    assert (runner.claims, runner.claims_at) == (claims, 5)
    event = recorder.events[-1]
    assert (event.topic, event.type, event.key, event.position, event.headers) == ("orders", "placed", "k5", 5, {})


async def test_events_that_were_too_many_are_claimed_and_the_next_ones_are_in_hand_again(conn: Connection, desk: Desk) -> None:
    topic(conn)
    recorder = Recorder()
    runner = await desk.caught_up(recorder.consumer(batch=Batch(max=5000)))
    publish_many(conn, 1, 1500)
    await desk.sequence()
    await run_dry(runner)
    claims = runner.claims
    publish(conn, 1501)
    await desk.sequence()
    assert await runner.handle_once()
    assert recorder.numbers == list(range(1, 1502)) and (runner.claims, runner.claims_at) == (claims, 1)


async def test_more_events_than_may_wait_in_hand_are_read_from_the_log(conn: Connection, desk: Desk) -> None:
    topic(conn)
    recorder = Recorder()
    runner = await desk.caught_up(recorder.consumer(batch=Batch(max=300)))
    for first in range(1, 2 * WAITING_MAX, 500):
        publish_many(conn, first, 500, keys=5)
        await desk.sequence()
    await run_dry(runner)
    assert recorder.numbers == list(range(1, 2 * WAITING_MAX + 1))


async def test_larger_events_than_may_wait_in_hand_are_read_from_the_log(
    conn: Connection, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.consume.appended.BYTES_MAX", 10_000)
    topic(conn)
    recorder = Recorder()
    runner = await desk.caught_up(recorder.consumer(batch=Batch(max=300)))
    for first in (1, 11, 101):
        # Ten events fit, ninety do not, and the last ten come when the log has been read again.
        publish_many(conn, first, 90 if first == 11 else 10, keys=5)
        await desk.sequence()
        await run_dry(runner)
    assert recorder.numbers == list(range(1, 111))


async def test_several_workers_handle_partitions_in_hand_at_once(conn: Connection, desk: Desk) -> None:
    topic(conn, partitions=4)
    inside: set[int] = set()
    meet = asyncio.Event()

    async def wait_for_the_other(event: LoggedEvent) -> None:
        inside.add(event.partition)
        if len(inside) == 2:
            meet.set()
        await meet.wait()

    recorder = Recorder(then=lambda event: wait_for_the_other(event) if event.type == "meet" else None)
    [runner] = await desk.add(recorder.consumer(concurrency=2, partitions_max=1))
    desk.run(sequencer=False)
    await desk.idle()
    keys = {}
    for n in range(40):
        publish(conn, n, key=f"k{n}")
    await desk.sequence()
    await until(lambda: runner.handled == 40)
    await desk.idle()
    for event in recorder.events:
        keys[event.partition] = event.key
    # Now the sequencer knows where each partition ends.
    publish_many(conn, 1, 40, keys=40)
    await desk.sequence()
    await until(lambda: runner.handled == 80)
    await desk.idle()
    claims = runner.claims
    for key in list(keys.values())[:2]:
        publish(conn, 0, key=key, type="meet")
    await desk.sequence()
    await until(lambda: runner.handled == 82)
    assert runner.claims == claims


KINDS: dict[str, dict[str, Any]] = {
    "single": {},
    "batch": {"batch": Batch(max=50)},
    "topic": {"ordered_by": "topic"},
    "serial": {"concurrency": 1, "batch_size": 1},
}


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
async def test_thousands_of_events_are_handled_once_and_in_order(
    conn: Connection, second: Connection, database: Target, kind: str, nodes: int
) -> None:
    """Every node sequences and consumes. A second handling of a position breaks the unique constraint, and is a failure."""
    topic(conn, partitions=4)
    conn.execute("create table effect (position bigint primary key, key text, n int, id bigint generated always as identity)")

    async def write(event: LoggedEvent, tx: AsyncConnection) -> None:
        await tx.execute("insert into effect (position, key, n) values (%s, %s, %s)", (event.position, event.key, event.payload))

    async def write_batch(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        for event in events:
            await write(event, tx)

    events = count = 600 if kind == "serial" else 3000

    def burst() -> None:
        for first in range(0, count, 6):
            publish_many(second, first, 6, keys=11)

    async with desk_of(database) as one, desk_of(database) as other:
        desks = [one, other][:nodes]
        for desk in desks:
            handler: Any = write_batch if "batch" in KINDS[kind] else write
            await desk.add(Consumer(topic="orders", name="c", handler=handler, **KINDS[kind]))
            desk.run()
        if nodes == 1:
            await one.idle()
        await asyncio.to_thread(burst)
        runners = [runner for desk in desks for runner in desk.runners]
        await until(lambda: sum(runner.handled for runner in runners) >= events, within_s=60)
        assert [runner.failures for runner in runners] == [0] * nodes
        while nodes == 1 and not runners[0].claims_at:
            # Under load it may never have been caught up.
            await one.idle()
            publish_many(second, events + 1, 11, keys=11)
            events += 11
            await until(lambda events=events: runners[0].handled >= events)  # type: ignore[misc]
    assert conn.execute("select count(*), min(position), max(position) from effect").fetchone() == (events, 1, events)
    by_key = defaultdict(list)
    for key, n in conn.execute("select key, n from effect order by id").fetchall():
        by_key[key].append(n)
    # Of concurrent transactions the ids are no order, but those of a key follow each other.
    assert len(by_key) == 11 and all(numbers == sorted(numbers) for numbers in by_key.values())


# What happens between the step and the handler.


@pytest.mark.parametrize("fields", [None, ["email"]])
async def test_handler_never_sees_what_was_erased_after_the_step(conn: Connection, desk: Desk, fields: list[str] | None) -> None:
    topic(conn)
    recorder = Recorder()
    runner = await desk.caught_up(recorder.consumer())
    publish_people = "select headrace.publish('orders', 'placed', jsonb_build_object('email', 'a@b', 'n', %s), p_key => %s)"
    for n, key in enumerate(["gone", "kept"]):
        conn.execute(publish_people, (n, key))
    await desk.sequence()
    conn.execute("select headrace.erase_key('orders', 'gone', p_fields => %s)", (fields,))
    await run_dry(runner)
    kept = {"email": "a@b", "n": 1}
    assert recorder.numbers == ([kept] if fields is None else [{"email": None, "n": 0}, kept])
    assert cursors(conn) == [(0, 2, "running", 0, True)]


async def test_events_of_before_and_after_an_erasure_are_handled_in_order(conn: Connection, desk: Desk, in_hand: InHand) -> None:
    runner, recorder = in_hand
    conn.execute("select headrace.erase_key('orders', 'k0')")
    publish_many(conn, 7, 2, keys=2)
    await desk.sequence()
    await run_dry(runner)
    assert recorder.numbers == [1, 2, 3, 5, 7, 8]


async def test_paused_consumer_keeps_its_events(conn: Connection, in_hand: InHand) -> None:
    runner, recorder = in_hand
    conn.execute("select headrace.pause('consumer', 'orders/c')")
    await run_dry(runner)
    assert recorder.numbers == [1, 2]
    conn.execute("select headrace.resume('consumer', 'orders/c')")
    await run_dry(runner)
    assert recorder.numbers == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("position", "expected"), [("earliest", [1, 2, 3, 4, 5, 6]), ("latest", []), (1, [2, 3, 4, 5, 6]), (4, [5, 6])]
)
async def test_seek_decides_what_comes_next(conn: Connection, in_hand: InHand, position: Any, expected: list[int]) -> None:
    runner, recorder = in_hand
    recorder.events.clear()
    if isinstance(position, int):
        conn.execute("update headrace_internal.cursor set position = %s", (position,))
    else:
        seek_consumer(conn, "orders", "c", position)
    await run_dry(runner)
    assert recorder.numbers == expected


async def test_what_another_node_has_handled_is_not_handled_again(conn: Connection, desk: Desk, in_hand: InHand) -> None:
    runner, recorder = in_hand
    other = ConsumerRunner(runner.consumer, desk.pool, desk.listener.subscribe("headrace_log"), desk.stop)
    await other.register()
    await other.handle_once()
    publish_many(conn, 7, 1)
    await desk.sequence()
    await run_dry(runner)
    assert recorder.numbers == [1, 2, 3, 4, 5, 6, 7]


async def test_what_another_node_has_in_its_handler_is_left_to_it(conn: Connection, second: Connection, in_hand: InHand) -> None:
    runner, recorder = in_hand
    with second.transaction():
        claimed = second.execute("select headrace.claim_events(%s, 2)", (runner.consumer_id,)).fetchall()
        assert len(claimed) == 3
        await run_dry(runner)
        assert recorder.numbers == [1, 2]
        second.execute("select headrace.advance(%s, 0, 4)", (runner.consumer_id,))
    await run_dry(runner)
    assert recorder.numbers == [1, 2, 5, 6]


async def test_key_that_is_held_back_stays_so(conn: Connection, desk: Desk) -> None:
    topic(conn)
    recorder = Recorder(then=lambda event: 1 / 0 if event.payload == 2 else None)
    runner = await desk.caught_up(recorder.consumer(failure=Failure.dead_letter(attempts=1, key_order="hold")))
    for n in range(1, 7):
        publish_many(conn, n, 1, keys=2)
        await desk.sequence()
        if n % 2 == 0:
            await run_dry(runner)
    assert recorder.numbers == [1, 2, 3, 5], "4 and 6 wait behind 2"
    assert [letter[0] for letter in letters(conn)] == [2, 4, 6]


async def test_partitions_that_were_added_after_the_step_keep_the_order_of_keys(conn: Connection, desk: Desk) -> None:
    topic(conn, partitions=2)
    recorder = Recorder()
    runner = await desk.caught_up(recorder.consumer())
    for round_ in range(8):
        if round_ in (3, 5):
            alter_topic(conn, "orders", partitions=2 + round_)
        publish_many(conn, round_ * 50, 50, keys=9)
        await desk.sequence()
        if round_ % 2:
            await run_dry(runner)
    await run_dry(runner)
    assert sorted(recorder.numbers) == list(range(400))  # type: ignore[type-var]
    by_key = defaultdict(list)
    for event in recorder.events:
        by_key[event.key].append(event.position)
    assert all(positions == sorted(positions) for positions in by_key.values())


async def test_events_of_a_dropped_topic_do_not_reach_the_consumer_of_its_successor(conn: Connection, desk: Desk) -> None:
    """Where the cursors of both stand at the same position."""
    topic(conn)
    recorder = Recorder()
    runner = await desk.caught_up(recorder.consumer())
    publish_many(conn, 1, 3)
    await desk.sequence()
    drop_topic(conn, "orders", force=True)
    create_topic(conn, "orders")
    await runner.register()
    publish_many(conn, 101, 2)
    drain(conn)
    await run_dry(runner)
    assert recorder.numbers == [101, 102] and cursors(conn) == [(0, 2, "running", 0, True)]


async def test_events_of_another_sequencer_between_two_steps_come_in_their_place(conn: Connection, desk: Desk) -> None:
    topic(conn, partitions=2)
    recorder = Recorder()
    runner = await desk.caught_up(recorder.consumer(ordered_by="topic"))
    for n in range(1, 31):
        publish_many(conn, n, 1, keys=7)
        if n % 3 == 0:
            drain(conn)
        else:
            await desk.sequence()
        if n % 5 == 0:
            await run_dry(runner)
    assert recorder.numbers == list(range(1, 31))
