"""Dead events of consumers: discarded, edited, and skipped at a stuck partition. The key goes on, and nothing is lost silently."""

from __future__ import annotations

import asyncio

import pytest

from headrace.actions import discard, edit_dead_letter, get_dead_letter, list_dead_letters, redrive
from headrace.consume import Consumer, ConsumerRunner, Failure, consumer_lag, seek_consumer, skip_event
from headrace.core import Conflict, Invalid, LoggedEvent, PayloadTooLarge, UnknownDeadLetter
from headrace.db import AsyncConnection, Connection, Target, connect
from headrace.log.topics import alter_topic
from tests.builders import drain, publish, topic, wait_until
from tests.consume.conftest import Start, run_dry
from tests.consume.test_redrive_race import batch_in_flight, dead_first_event


async def run_all(runner: ConsumerRunner) -> None:
    """Handles what is due, and what is marked for a redrive."""
    await run_dry(runner)
    while await runner.redrive_once():
        pass


async def test_discarded_event_frees_its_key(conn: Connection, start: Start) -> None:
    runner, handler = await dead_first_event(conn, start)
    for n in (2, 3):
        publish(conn, n, key="a")
    drain(conn)
    await run_dry(runner)
    assert [letter.state for letter in list_dead_letters(conn)] == ["dead", "behind", "behind"]
    assert discard(conn, ["orders/c/1"]) == 1
    await run_all(runner)
    publish(conn, 4, key="a")
    drain(conn)
    await run_all(runner)
    assert (handler.done, list_dead_letters(conn)) == ([2, 3, 4], [])
    assert get_dead_letter(conn, "orders/c/1").state == "discarded"


async def test_discard_frees_only_what_waits_behind_no_other_dead_event(conn: Connection, start: Start) -> None:
    runner, handler = await dead_first_event(conn, start)
    for n in (2, 3, 4):
        publish(conn, n, key="a")
    drain(conn)
    await run_dry(runner)
    conn.execute("update headrace_internal.dead_letter set state = 'dead' where position = 3")
    discard(conn, ["orders/c/1"])
    await run_all(runner)
    assert handler.done == [2]
    assert [letter.state for letter in list_dead_letters(conn)] == ["dead", "behind"]
    assert discard(conn, ["orders/c"]) == 2, "all of them: there is nothing left to free"
    await run_all(runner)
    assert (handler.done, list_dead_letters(conn)) == ([2], [])


@pytest.mark.parametrize("partitions", [1, 8], ids=["same partition", "another partition"])
async def test_event_held_back_by_a_batch_in_flight_follows_the_discard(
    conn: Connection, second: Connection, database: Target, start: Start, partitions: int
) -> None:
    runner, handler = await dead_first_event(conn, start)
    if partitions > 1:
        alter_topic(conn, "orders", partitions=partitions)
    publish(conn, 2, key="a")
    drain(conn)
    with connect(database) as third:
        with batch_in_flight(second):
            discarding = asyncio.create_task(asyncio.to_thread(discard, third, ["orders/c/1"]))
            waits = "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'discard'"
            await asyncio.to_thread(
                wait_until, lambda: conn.execute(waits).fetchone() == (True,), "the discard waits for the batch"
            )
        assert await discarding == 1
    await run_all(runner)
    assert (handler.done, list_dead_letters(conn)) == ([2], [])


async def test_edited_event_is_redriven_with_its_new_payload_and_the_original_is_kept(conn: Connection, start: Start) -> None:
    runner, handler = await dead_first_event(conn, start)
    edit_dead_letter(conn, "orders/c/1", {"n": 1.50})
    letter = get_dead_letter(conn, "orders/c/1")
    assert (letter.payload, letter.edited, letter.original_payload) == ({"n": 1.5}, True, 1)
    redrive(conn, ["orders/c/1"])
    await run_all(runner)
    assert handler.done == [{"n": 1.5}]
    assert conn.execute("select payload from headrace.log").fetchall() == [(1,)], "the log never changes"
    with pytest.raises(UnknownDeadLetter, match="no open dead letter"):
        edit_dead_letter(conn, "orders/c/1", {"n": 2})


async def test_edit_is_checked_and_null_restores_the_original(conn: Connection, start: Start) -> None:
    runner, handler = await dead_first_event(conn, start)
    with pytest.raises(PayloadTooLarge):
        edit_dead_letter(conn, "orders/c/1", "x" * 2_000_000)
    with pytest.raises(Invalid, match="add the position"):
        edit_dead_letter(conn, "orders/c", 5)
    edit_dead_letter(conn, "orders/c/1", 5)
    conn.execute("select headrace.edit_dead_event('orders', 'c', 1, null)")
    assert not get_dead_letter(conn, "orders/c/1").edited
    redrive(conn, ["orders/c/1"])
    await run_all(runner)
    assert handler.done == [1]


async def stopped_at_two(conn: Connection, start: Start, **options: object) -> tuple[ConsumerRunner, list[object]]:
    """A consumer that has stopped at the event 2 of one of two partitions; the events 1 to 4 have the keys a and b in turn."""
    topic(conn, partitions=2)
    done: list[object] = []

    async def handle(event: LoggedEvent, tx: AsyncConnection) -> None:
        if event.payload == 2:
            raise ValueError("not this one")
        done.append(event.payload)

    runner = await start(Consumer(topic="orders", name="c", handler=handle, failure=Failure.stop(), **options))  # type: ignore[arg-type]
    for n in (1, 2, 3, 4):
        publish(conn, n, key="ab"[n % 2])
    drain(conn)
    await run_dry(runner)
    return runner, done


@pytest.mark.parametrize("where", [None, "object::int <> 1"], ids=["all events", "with a condition"])
async def test_skipped_event_becomes_a_dead_letter_and_its_partition_goes_on(
    conn: Connection, start: Start, where: str | None
) -> None:
    runner, done = await stopped_at_two(conn, start, where=where)
    assert 4 not in done
    skipped = skip_event(conn, "orders", "c")
    assert (skipped.position, skipped.type) == (2, "placed")
    await run_all(runner)
    assert done[-1] == 4
    [letter] = list_dead_letters(conn)
    assert (letter.position, letter.state, letter.attempts, letter.payload) == (2, "dead", 1, 2)
    assert letter.reason == "an operator skipped it" and "not this one" in str(letter.error)
    with pytest.raises(Conflict, match='no partition of consumer "c" is stopped or waits for a retry'):
        skip_event(conn, "orders", "c")


async def test_skip_of_one_of_several_stuck_partitions_names_the_partition(conn: Connection, start: Start) -> None:
    topic(conn, partitions=2)

    async def handle(event: LoggedEvent, tx: AsyncConnection) -> None:
        raise ValueError("never")

    runner = await start(Consumer(topic="orders", name="c", handler=handle, failure=Failure.stop()))
    for key in "abcd":
        publish(conn, 1, key=key)
    drain(conn)
    await run_dry(runner)
    assert [lag.state for lag in consumer_lag(conn)] == ["stopped", "stopped"]
    with pytest.raises(Conflict, match='2 partitions of consumer "c" are stuck: 0, 1'):
        skip_event(conn, "orders", "c")
    assert skip_event(conn, "orders", "c", partition=1).partition == 1
    assert [lag.state for lag in consumer_lag(conn)] == ["stopped", "idle"]


async def test_seek_of_one_partition_leaves_the_others(conn: Connection, start: Start) -> None:
    await stopped_at_two(conn, start)
    [stopped] = [lag for lag in consumer_lag(conn) if lag.state == "stopped"]
    others = [lag for lag in consumer_lag(conn) if lag.state != "stopped"]
    assert seek_consumer(conn, "orders", "c", "3", partition=stopped.partition, preview=True)[0].partition == stopped.partition
    [move] = seek_consumer(conn, "orders", "c", "3", partition=stopped.partition)
    assert (move.partition, move.to_position, move.events) == (stopped.partition, 2, -1)
    assert [lag for lag in consumer_lag(conn) if lag.partition != stopped.partition] == others
    assert all(lag.state != "stopped" for lag in consumer_lag(conn))
    with pytest.raises(Invalid, match="has no partition 7, only 0 to 1"):
        seek_consumer(conn, "orders", "c", "3", partition=7)
