"""A claim that ends with its session is counted, and nothing else is: not what others roll back, nor what a live worker breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from headrace.actions import list_dead_letters, redrive
from headrace.consume import Batch, Consumer, Failure
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, Target
from tests.builders import fill, topic, wait_until
from tests.consume.conftest import Start

ONCE = Failure.dead_letter(attempts=1, key_order="skip")
CLAIM = "select headrace.claim_events(%s, %s, 1, 0::float8, %s)"


@dataclass
class Scripted:
    """A handler that does what it is told."""

    error: BaseException | None = None
    at: int = 1
    """Raises at this number."""
    wait_s: float = 0.0
    calls: list[object] = field(default_factory=list)

    async def handle(self, event: LoggedEvent, tx: AsyncConnection) -> None:
        self.calls.append(event.payload)
        await asyncio.sleep(self.wait_s)
        if self.error is not None and event.payload == self.at:
            raise self.error

    async def handle_batch(self, events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        self.calls.append([event.payload for event in events])
        await asyncio.sleep(self.wait_s)
        if self.error is not None:
            raise self.error

    def consumer(self, failure: Failure, batch: Batch | None = None) -> Consumer:
        handler: Any = self.handle_batch if batch else self.handle
        return Consumer(topic="orders", name="c", handler=handler, failure=failure, batch=batch)


def cursors(conn: Connection) -> list[tuple[Any, ...]]:
    """Where they stand, their attempts, and whether they go event by event."""
    statement = "select position, attempts, single_to > position from headrace.cursor order by partition"
    return conn.execute(statement).fetchall()


def letters(conn: Connection) -> list[tuple[object, int, str]]:
    return [(letter.payload, letter.attempts, str(letter.error).partition(":")[0]) for letter in list_dead_letters(conn)]


@contextmanager
def lost_session(conn: Connection, database: Target, statement: str, *parameters: object) -> Iterator[None]:
    """A session that runs a statement and is killed at the end of the block."""
    session = psycopg.connect(database.dsn)
    session.execute(statement, parameters)
    yield
    pid = session.info.backend_pid
    conn.execute("select pg_terminate_backend(%s)", (pid,))
    is_gone = "select not exists (select from pg_stat_activity where pid = %s)"
    wait_until(lambda: conn.execute(is_gone, (pid,)).fetchone() == (True,), "the end of the session")
    session.close()


async def test_lost_claim_goes_event_by_event_and_then_counts(conn: Connection, database: Target, start: Start) -> None:
    topic(conn, partitions=3)
    fill(conn, 30, keys=10)
    handler = Scripted()
    runner = await start(handler.consumer(Failure.dead_letter(attempts=2, key_order="skip")))
    claimed = (CLAIM, runner.consumer_id, 100, 3)
    with lost_session(conn, database, *claimed):
        pass
    for _ in range(3):
        assert await runner.handle_batch() and handler.calls == [], "a claim records one loss, and nothing else"
    assert [row[1:] for row in cursors(conn)] == [(0, True)] * 3
    with lost_session(conn, database, *claimed):
        pass
    assert await runner.handle_batch() and handler.calls == []
    assert sorted(row[1] for row in cursors(conn)) == [0, 0, 1], "the one event that was claimed alone"
    conn.execute("update headrace_internal.cursor set retry_at = null")
    while await runner.handle_once():
        pass
    assert sorted(handler.calls) == list(range(1, 31)) and letters(conn) == []


async def test_claims_in_savepoints_of_one_transaction_leave_its_own_id_behind(conn: Connection, start: Start) -> None:
    """A row that two savepoints have locked would carry the id of a list of lockers, which looks like any old transaction's."""
    topic(conn)
    runner = await start(Scripted().consumer(ONCE))
    fill(conn, 2)
    with conn.transaction():
        [oldest] = conn.execute("select pg_current_xact_id()::text::bigint").fetchone() or ()
        for _ in range(3):
            with conn.transaction():
                assert len(conn.execute(CLAIM, (runner.consumer_id, 10, 1)).fetchall()) == 3
            [(xid,)] = conn.execute("select xmax::text::bigint from headrace_internal.claim").fetchall()
            assert xid >= oldest
    assert cursors(conn) == [(0, 0, False)]


async def test_event_that_was_lost_beside_another_is_not_blamed_but_handled_alone(
    conn: Connection, database: Target, start: Start
) -> None:
    topic(conn, partitions=2)
    fill(conn, 10, keys=5)
    handler = Scripted()
    runner = await start(handler.consumer(Failure.stop()))
    with lost_session(conn, database, CLAIM, runner.consumer_id, 100, 2):
        pass
    for _ in range(2):
        await runner.handle_batch()
    # Two events, each alone in its partition, and one process.
    one, other = (lost_session(conn, database, CLAIM, runner.consumer_id, 100, 1) for _ in range(2))
    with one, other:
        pass
    for _ in range(2):
        await runner.handle_batch()
    assert [row[1:] for row in cursors(conn)] == [(0, True)] * 2 and handler.calls == []
    conn.execute("update headrace_internal.cursor set retry_at = null")
    claim = "select payload from headrace.claim_events(%s, 100, 1, 0::float8, 2, %s) where event_id is null"
    for is_alone, claimed in ((False, [0, 0]), (True, [1])):
        with conn.transaction(force_rollback=True):
            details = [row[0] for row in conn.execute(claim, (runner.consumer_id, is_alone))]
        assert [row["events"] for row in details] == claimed
        conn.execute("select headrace.release_claims(%s, '{0,1}', '{null,null}')", (runner.consumer_id,))
    with lost_session(conn, database, CLAIM.replace("%s)", "%s, true)"), runner.consumer_id, 100, 1):
        pass
    while await runner.handle_once():
        pass
    states = conn.execute("select state, attempts from headrace.cursor order by state").fetchall()
    assert states == [("running", 0), ("stopped", 1)] and 0 < len(handler.calls) < 10


async def test_loss_beside_others_does_not_use_up_the_last_attempt(conn: Connection, database: Target, start: Start) -> None:
    topic(conn)
    fill(conn, 1)
    handler = Scripted(ValueError("no"))
    runner = await start(handler.consumer(Failure.dead_letter(attempts=2, key_order="skip")))

    async def lose() -> None:
        conn.execute("update headrace_internal.cursor set retry_at = null")
        with lost_session(conn, database, CLAIM, runner.consumer_id, 100, 1):
            pass
        await runner.handle_batch()

    await lose()
    await runner.handle_batch()
    assert cursors(conn) == [(0, 1, True)], "it goes event by event, and has failed once"
    await lose()
    assert cursors(conn) == [(0, 1, True)], "it may have been another event that ended the session"
    conn.execute("update headrace_internal.cursor set retry_at = null")
    await runner.handle_batch()
    assert len(handler.calls) == 2 and letters(conn) == [(1, 2, "ValueError")]


async def test_lost_redrive_is_that_of_its_letter_alone(conn: Connection, database: Target, start: Start) -> None:
    topic(conn)
    fill(conn, 5)
    handler = Scripted(ValueError("no"), at=2)
    runner = await start(handler.consumer(ONCE))
    await runner.handle_once()
    await runner.handle_once()
    redrive(conn, ["orders/c"])
    with lost_session(conn, database, "select headrace.claim_redrive(%s)", runner.consumer_id):
        # An operator who looks at a letter and goes leaves no trace.
        with psycopg.connect(database.dsn) as operator, pytest.raises(psycopg.Error):
            operator.execute("select from headrace_internal.dead_letter for update nowait")
        handler.error = None
        fill(conn, 5)
    await runner.handle_batch()
    assert letters(conn) == [(2, 2, "SessionLost")] and cursors(conn) == [(5, 0, False)]
    await runner.handle_batch()
    assert cursors(conn) == [(10, 0, False)]


async def test_vacuum_freeze_takes_no_running_claim_for_an_old_one(conn: Connection, database: Target, start: Start) -> None:
    topic(conn)
    fill(conn, 3)
    handler = Scripted()
    runner = await start(handler.consumer(Failure.dead_letter(attempts=2, key_order="skip")))
    with lost_session(conn, database, CLAIM, runner.consumer_id, 100, 1):
        conn.execute("vacuum freeze")
    await runner.handle_batch()
    assert [row[1:] for row in cursors(conn)] == [(0, True)] and handler.calls == []


async def test_loss_that_vacuum_freeze_has_wiped_away_is_no_attempt_and_the_next_one_counts(
    conn: Connection, database: Target, start: Start
) -> None:
    """Freezing removes the id of a locker that has ended. The event is then delivered once more than its policy says."""
    topic(conn)
    fill(conn, 1)
    handler = Scripted()
    runner = await start(handler.consumer(ONCE))
    for freeze in (True, False, False):
        with lost_session(conn, database, CLAIM, runner.consumer_id, 100, 1):
            pass
        if freeze:
            conn.execute("vacuum freeze headrace_internal.claim, headrace_internal.cursor")
            assert conn.execute("select xmax from headrace_internal.claim").fetchone() == ("0",)
        else:
            await runner.handle_batch()
            conn.execute("update headrace_internal.cursor set retry_at = null")
        assert cursors(conn)[0][:2] == (0, 0)
    with lost_session(conn, database, CLAIM.replace("%s)", "%s, true)"), runner.consumer_id, 100, 1):
        pass
    await runner.handle_batch()
    assert letters(conn) == [(1, 1, "SessionLost")] and handler.calls == []


async def test_recorded_loss_stays_recorded_when_everything_is_frozen(conn: Connection, database: Target, start: Start) -> None:
    topic(conn)
    fill(conn, 2)
    handler = Scripted()
    runner = await start(handler.consumer(ONCE))
    with lost_session(conn, database, CLAIM, runner.consumer_id, 100, 1):
        pass
    await runner.handle_batch()
    conn.execute("vacuum freeze headrace_internal.cursor")
    conn.execute("vacuum (freeze, full) headrace_internal.cursor")
    while await runner.handle_once():
        pass
    assert handler.calls == [1, 2] and cursors(conn) == [(2, 0, False)] and letters(conn) == []


OTHERS: dict[str, str] = {
    "seek": "select headrace.seek('orders', 'c', 'latest')",
    "erasure": "select headrace.erase_key('orders', 'k1')",
    "skip": "select headrace.skip_event('orders', 'c')",
    "resume": "select headrace.resume('consumer', 'orders/c')",
    "lock": "select from headrace_internal.cursor for update",
}


@pytest.mark.parametrize("statement", OTHERS.values(), ids=OTHERS.keys())
async def test_what_others_roll_back_is_no_attempt(conn: Connection, start: Start, statement: str) -> None:
    topic(conn)
    fill(conn, 5, keys=2)
    handler = Scripted(ValueError("no"))
    runner = await start(handler.consumer(Failure.dead_letter(attempts=3, backoff_s=0.001, key_order="skip")))
    await runner.handle_batch()
    for attempts in (1, 2):
        assert cursors(conn) == [(0, attempts, False)]
        conn.execute("update headrace_internal.cursor set retry_at = null")
        with conn.transaction(force_rollback=True):
            conn.execute(statement)
        await runner.handle_batch()
    assert letters(conn) == [(1, 3, "ValueError")]


async def test_event_that_is_handled_alone_is_not_blamed_for_what_others_roll_back(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 3)
    handler = Scripted(ValueError("batch"))
    runner = await start(handler.consumer(ONCE, Batch(max=3)))
    await runner.handle_batch()
    handler.error = None
    for _ in range(3):
        with conn.transaction(force_rollback=True):
            conn.execute("select headrace.seek('orders', 'c', 'latest')")
        await runner.handle_batch()
    assert handler.calls == [[1, 2, 3], [1], [2], [3]] and letters(conn) == []


async def test_failed_redrive_leaves_the_partition_as_it_is(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 2)
    handler = Scripted(ValueError("no"))
    runner = await start(handler.consumer(ONCE))
    await runner.handle_batch()
    await runner.handle_batch()
    redrive(conn, ["orders/c"])
    assert await runner.redrive_once()
    handler.error = None
    fill(conn, 3)
    await runner.handle_batch()
    assert cursors(conn) == [(5, 0, False)] and letters(conn) == [(1, 2, "ValueError")]


@pytest.mark.parametrize("batch", [None, Batch(max=5)])
async def test_deadlocks_of_a_handler_are_no_attempts_whoever_claims_next(
    conn: Connection, start: Start, batch: Batch | None
) -> None:
    topic(conn)
    fill(conn, 1)
    handler = Scripted(psycopg.errors.DeadlockDetected("deadlock detected"))
    runners = [await start(handler.consumer(ONCE, batch)) for _ in range(2)]
    for runner in runners * 4:
        with pytest.raises(psycopg.errors.DeadlockDetected):
            await runner.handle_batch()
        assert cursors(conn) == [(0, 0, False)]
    handler.error = None
    await runners[0].handle_batch()
    assert cursors(conn) == [(1, 0, False)] and len(handler.calls) == 9


async def test_events_before_a_deadlock_are_committed(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 5)
    handler = Scripted(psycopg.errors.DeadlockDetected("deadlock detected"), at=3)
    runner = await start(handler.consumer(ONCE))
    with pytest.raises(psycopg.errors.DeadlockDetected):
        await runner.handle_batch()
    assert cursors(conn) == [(2, 0, False)] and runner.handled == 2
    handler.error = None
    await runner.handle_batch()
    assert handler.calls == [1, 2, 3, 3, 4, 5]


async def test_redrive_that_a_deadlock_broke_off_is_done_again(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 1)
    handler = Scripted(ValueError("no"))
    runner = await start(handler.consumer(ONCE))
    await runner.handle_batch()
    redrive(conn, ["orders/c"])
    handler.error = psycopg.errors.DeadlockDetected("deadlock detected")
    for _ in range(2):
        with pytest.raises(psycopg.errors.DeadlockDetected):
            await runner.redrive_once()
    handler.error = None
    assert await runner.redrive_once() and letters(conn) == []


@pytest.mark.parametrize("batch", [None, Batch(max=5)])
async def test_handler_that_leaves_its_session_idle_for_too_long_has_failed_once(
    conn: Connection, start: Start, monkeypatch: pytest.MonkeyPatch, batch: Batch | None
) -> None:
    monkeypatch.setattr("headrace.consume.consumer.SESSION_LIMIT_S", 0.2)
    topic(conn)
    fill(conn, 1)
    handler = Scripted(wait_s=0.6)
    first, second = [await start(handler.consumer(Failure.dead_letter(attempts=2, key_order="skip"), batch)) for _ in range(2)]
    late = asyncio.create_task(first.handle_batch())
    await _until(lambda: handler.calls != [])
    # The server ends the session while the handler works on, and another worker notices first.
    await _until_claimed(second, conn)
    assert cursors(conn)[0][1:] in [(0, True), (1, False)]
    await late
    assert cursors(conn)[0][1] == 1 and letters(conn) == [], "one attempt was made"
    conn.execute("update headrace_internal.cursor set retry_at = null")
    await first.handle_batch()
    assert letters(conn) == [(1, 2, "HandlerTimeout")]


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def _until_claimed(runner: Any, conn: Connection) -> None:
    async with asyncio.timeout(30):
        while cursors(conn) == [(0, 0, False)]:
            await runner.handle_batch()
            await asyncio.sleep(0.01)
