"""A redrive while a batch is in flight: what the batch holds back follows, and the key is free again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from headrace.actions import list_dead_letters, redrive
from headrace.consume import Consumer, ConsumerRunner, Failure
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection
from headrace.log.topics import alter_topic
from tests.builders import drain, publish, topic, wait_until
from tests.consume.conftest import Start, run_dry


class FailOnce:
    """A handler that raises on the first event until it is told otherwise."""

    def __init__(self) -> None:
        self.fails = True
        self.done: list[object] = []

    async def handle(self, event: LoggedEvent, tx: AsyncConnection) -> None:
        if self.fails:
            raise ValueError("not yet")
        self.done.append(event.payload)


async def dead_first_event(conn: Connection, start: Start) -> tuple[ConsumerRunner, FailOnce]:
    """A consumer whose event 1, of the key a, is a dead letter; its handler works from now on."""
    topic(conn)
    handler = FailOnce()
    failure = Failure.dead_letter(attempts=1)
    runner = await start(Consumer(topic="orders", name="c", handler=handler.handle, failure=failure))
    publish(conn, 1, key="a")
    drain(conn)
    await run_dry(runner)
    assert [letter.state for letter in list_dead_letters(conn)] == ["dead"]
    handler.fails = False
    return runner, handler


@contextmanager
def batch_in_flight(second: Connection) -> Iterator[None]:
    """A transaction that has claimed the events due and held back those of dead keys; it commits at the end."""
    with second.transaction():
        claim = second.execute("select partition, position, upto from headrace.claim(1, 10)").fetchone()
        assert claim is not None
        assert [letter.state for letter in list_dead_letters(second)] == ["dead", "behind"]
        second.execute("select headrace.advance(1, %s, %s)", (claim[0], claim[2]))
        yield


async def test_event_held_back_by_a_batch_in_flight_follows_the_redrive(
    conn: Connection, second: Connection, start: Start
) -> None:
    runner, handler = await dead_first_event(conn, start)
    publish(conn, 2, key="a")
    drain(conn)
    with batch_in_flight(second):
        assert redrive(conn, ["orders/c"]) == 1
        assert not await runner.redrive_once(), "the batch holds the cursor"
    while await runner.redrive_once():
        pass
    publish(conn, 3, key="a")
    drain(conn)
    await run_dry(runner)
    assert (handler.done, list_dead_letters(conn)) == ([1, 2, 3], [])


async def test_event_held_back_in_another_partition_follows_the_redrive(
    conn: Connection, second: Connection, start: Start
) -> None:
    """More partitions have moved the key, so that no cursor keeps the batch and the redrive apart."""
    runner, handler = await dead_first_event(conn, start)
    alter_topic(conn, "orders", partitions=8)
    publish(conn, 2, key="a")
    drain(conn)
    assert conn.execute("select partition > 0 from headrace.log where position = 2").fetchone() == (True,)
    with batch_in_flight(second):
        assert redrive(conn, ["orders/c"]) == 1
        redriving = asyncio.create_task(runner.redrive_once())
        waits = "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'end_redrive'"
        await asyncio.to_thread(wait_until, lambda: conn.execute(waits).fetchone() == (True,), "the redrive waits for the batch")
    assert await redriving
    while await runner.redrive_once():
        pass
    assert (handler.done, list_dead_letters(conn)) == ([1, 2], [])


async def test_letter_behind_a_dead_one_is_not_released_by_an_earlier_redrive(conn: Connection, start: Start) -> None:
    runner, handler = await dead_first_event(conn, start)
    for n in (2, 3):
        publish(conn, n, key="a")
    drain(conn)
    await run_dry(runner)
    conn.execute("update headrace_internal.dead_letter set state = 'dead' where position = 2")
    assert redrive(conn, ["orders/c/1"]) >= 1
    conn.execute("update headrace_internal.dead_letter set state = 'behind' where position = 3")
    while await runner.redrive_once():
        pass
    assert handler.done == [1]
    assert [letter.state for letter in list_dead_letters(conn)] == ["dead", "behind"]


async def test_letter_that_another_node_has_redriven_is_not_claimed_by_an_old_snapshot(
    conn: Connection, second: Connection, start: Start
) -> None:
    runner, handler = await dead_first_event(conn, start)
    redrive(conn, ["orders/c"])
    second.execute("begin isolation level repeatable read")
    assert second.execute("select count(*) from headrace_internal.dead_letter where state = 'redrive'").fetchone() == (1,)
    assert await runner.redrive_once()
    with pytest.raises(psycopg.errors.SerializationFailure):
        second.execute("select dead_letter_id from headrace.claim_redrive(1)")
    second.execute("rollback")
    assert handler.done == [1]
