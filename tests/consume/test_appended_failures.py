"""Events in hand: failures, lost claims, headrace.claim_at itself, and latency."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from headrace.consume import Batch, Consumer, ConsumerRunner, Failure
from headrace.core import LoggedEvent
from headrace.db import Connection, Target
from headrace.log.topics import create_topic
from tests.builders import drain, numbers, publish, topic, wait_until
from tests.consume.conftest import run_dry
from tests.consume.desk import (
    CLAIM_AT,
    ONCE,
    SERVER,
    Desk,
    InHand,
    Recorder,
    cursors,
    letters,
    publish_many,
    until,
)

# Failures are what they are for events that were claimed.


FAILURES = {
    "retry": Failure.retry(backoff_s=300),
    "dead letter": ONCE,
    "stop": Failure.stop(),
}


@pytest.mark.parametrize("batch", [None, Batch(max=10)], ids=["single", "batch"])
@pytest.mark.parametrize("policy", FAILURES)
async def test_failure_policy_is_the_same_in_hand_and_from_the_log(
    conn: Connection, desk: Desk, policy: str, batch: Batch | None
) -> None:
    topic(conn)

    def fail(event: LoggedEvent) -> None:
        if event.payload == 2:
            raise ValueError("no")

    claimed, handed = Recorder(then=fail), Recorder(then=fail)
    runner = await desk.caught_up(handed.consumer(batch=batch, failure=FAILURES[policy]))
    other = ConsumerRunner(
        claimed.consumer(batch=batch, failure=FAILURES[policy], name="d"),
        desk.pool,
        desk.listener.subscribe("headrace_log"),
        desk.stop,
    )
    await other.register()
    publish_many(conn, 1, 4)
    await desk.sequence()
    await run_dry(runner)
    await run_dry(other)
    assert runner.claims_at == 1 and runner.failures == other.failures > 0
    assert handed.calls == claimed.calls
    one, two = cursors(conn)
    assert one == two and one[1] == (4 if policy == "dead letter" else 1)
    assert len(letters(conn)) == (2 if policy == "dead letter" else 0)


async def test_batch_that_is_cut_by_the_stop_signal_commits_what_is_handled(
    conn: Connection, in_hand: InHand, desk: Desk
) -> None:
    runner, recorder = in_hand
    recorder.then = lambda event: desk.stop.set() if event.payload == 4 else None
    await runner.handle_batch()
    assert recorder.numbers == [1, 2, 3, 4] and cursors(conn)[0][1] == 4 and runner.handled == 4


async def test_transient_error_leaves_the_events_for_the_next_attempt(conn: Connection, in_hand: InHand) -> None:
    runner, recorder = in_hand

    def fail(event: LoggedEvent) -> None:
        if event.payload == 5 and recorder.numbers.count(5) == 1:
            raise psycopg.errors.DeadlockDetected("deadlock detected")

    recorder.then = fail
    with pytest.raises(psycopg.errors.DeadlockDetected):
        await runner.handle_batch()
    assert cursors(conn) == [(0, 4, "running", 0, True)]
    await run_dry(runner)
    assert recorder.numbers == [1, 2, 3, 4, 5, 5, 6]


async def test_claim_at_of_a_killed_session_is_counted_as_lost(conn: Connection, database: Target, in_hand: InHand) -> None:
    runner, recorder = in_hand
    session = psycopg.connect(database.dsn)
    assert session.execute(CLAIM_AT.format(SERVER), (runner.consumer_id, [0], [2], 0)).fetchall() == [(0, 2)]
    pid = session.info.backend_pid
    conn.execute("select pg_terminate_backend(%s)", (pid,))
    is_gone = "select not exists (select from pg_stat_activity where pid = %s)"
    wait_until(lambda: conn.execute(is_gone, (pid,)).fetchone() == (True,), "the end of the session")
    session.close()
    assert conn.execute(CLAIM_AT.format(SERVER), (runner.consumer_id, [0], [2], 0)).fetchall() == []
    await runner.handle_batch()
    await runner.handle_batch()
    assert conn.execute("select single_to from headrace.cursor").fetchone() == (6,), "from now on event by event"
    await run_dry(runner)
    assert recorder.numbers == [1, 2, 3, 4, 5, 6]


async def test_one_partition_that_fails_leaves_nothing_behind_while_others_come_to_hand(conn: Connection, desk: Desk) -> None:
    topic(conn, partitions=4)
    failed: list[object] = []

    def fail(event: LoggedEvent) -> None:
        if event.type == "fail" and event.payload not in failed:
            failed.append(event.payload)
            raise psycopg.errors.DeadlockDetected("deadlock detected")

    recorder = Recorder(then=fail)
    [runner] = await desk.add(recorder.consumer(concurrency=1, partitions_max=1))
    desk.run(sequencer=False)
    count = 0
    for round_ in range(4):
        await desk.idle()
        for n in range(12):
            publish(conn, round_ * 12 + n, key=f"k{n}", type="fail" if round_ > 1 and n == 3 else "placed")
        await desk.sequence()
        count += 12
        await until(lambda count=count: runner.handled == count)  # type: ignore[misc]
    assert len(failed) == 2 and runner.failures == 0


async def test_partition_that_cannot_be_claimed_in_hand_is_claimed_after_the_others(conn: Connection, desk: Desk) -> None:
    """A worker has events of other partitions in hand when one of them turns out to be behind."""
    topic(conn, partitions=4)
    recorder = Recorder()
    [runner] = await desk.add(recorder.consumer(concurrency=1, partitions_max=1))
    for _ in range(2):
        publish_many(conn, 1, 40, keys=40)
        await desk.sequence()
        await run_dry(runner)
    handled = len(recorder.events)
    publish_many(conn, 1, 40, keys=40)
    await desk.sequence()
    partition = conn.execute("select partition from headrace.log where position > %s order by position", (handled,)).fetchone()
    conn.execute("update headrace_internal.cursor set position = position - 1 where partition = %s", partition)
    # Of the rounds before.
    desk.subscriptions[-1].take_names()
    desk.subscriptions[-1].clear()
    desk.run(sequencer=False)
    await until(lambda: len(recorder.events) >= handled + 40 and runner.takes_appended)
    positions = {event.position for event in recorder.events}
    assert positions == set(range(1, handled + 41))


async def test_cancelled_worker_loses_nothing(conn: Connection, desk: Desk) -> None:
    topic(conn)
    cancelled: list[object] = []

    def cancel(event: LoggedEvent) -> None:
        if event.payload == 3 and not cancelled:
            cancelled.append(event.payload)
            raise asyncio.CancelledError

    recorder = Recorder(then=cancel)
    [runner] = await desk.add(recorder.consumer(concurrency=1, batch=Batch(max=10)))
    desk.run(sequencer=False)
    await desk.idle()
    publish_many(conn, 1, 5)
    await desk.sequence()
    await until(lambda: runner.handled == 5)
    assert cancelled == [3] and cursors(conn)[0][:2] == (0, 5)


async def test_notification_of_other_events_is_not_lost_beside_those_in_hand(conn: Connection, desk: Desk) -> None:
    """One partition is in hand, and another sequencer has appended to a second one, when a worker wakes up."""
    topic(conn, partitions=4)
    recorder = Recorder()
    [runner] = await desk.add(recorder.consumer(concurrency=1))
    desk.run(sequencer=False)
    for n in (1, 2):
        await desk.idle()
        publish_many(conn, 1, 40, keys=40)
        await desk.sequence()
        await until(lambda n=n: runner.handled == 40 * n)  # type: ignore[misc]
    await desk.idle()
    keys = {event.partition: event.key for event in recorder.events}
    publish(conn, 1, key=keys[0])
    await desk.sequence()
    # Nothing here lets the worker run before both have happened.
    publish(conn, 2, key=keys[1])
    drain(conn)
    desk.listener.notify_all()
    await until(lambda: runner.handled == 82)


# claim_at itself.


async def test_claim_at_claims_only_what_stands_exactly_there(conn: Connection, second: Connection, desk: Desk) -> None:
    topic(conn, partitions=2)
    [runner] = await desk.add(Recorder().consumer())
    publish_many(conn, 1, 10, keys=10)
    drain(conn)

    def claim(
        partitions: Any, positions: Any, erasures: Any = 0, server: str = SERVER, consumer_id: Any = runner.consumer_id
    ) -> Any:
        with conn.transaction(force_rollback=True):
            claimed = conn.execute(CLAIM_AT.format(server), (consumer_id, partitions, positions, erasures)).fetchall()
            limit = conn.execute("show idle_in_transaction_session_timeout").fetchone()
            assert (limit == ("1min",)) == bool(claimed)
        conn.execute("select headrace.release_claims(%s, '{0,1}', '{null,null}')", (runner.consumer_id,))
        return sorted(claimed)

    assert claim([0, 1], [0, 0]) == [(0, 0), (1, 0)]
    assert claim([0, 1], [0, 1]) == [(0, 0)], "only one of them stands there"
    nothing = [
        claim([0], [1]),
        claim([-1], [0]),
        claim([7], [0]),
        claim([], []),
        claim([0], []),
        claim([], [0]),
        claim([None], [None]),
        claim(None, None),
        claim([0], None),
        claim(None, [0]),
        claim([0], [0], erasures=1),
        claim([0], [0], erasures=None),
        claim([0], [0], server=f"{SERVER} + interval '1 microsecond'"),
        claim([0], [0], server="'infinity'"),
        claim([0], [0], server="null"),
        claim([0], [0], consumer_id=None),
        claim([0], [0], consumer_id=999_999),
    ]
    assert nothing == [[]] * len(nothing)
    assert claim([0, 1], [0]) == [(0, 0)] == claim([0], [0, 0])
    with second.transaction():
        second.execute(CLAIM_AT.format(SERVER), (runner.consumer_id, [0], [0], 0))
        assert claim([0, 1], [0, 0]) == [(1, 0)], "another session holds the first"
    for change in ("state = 'stopped'", "attempts = 1", "retry_at = now()", "single_to = 5", "lost_at = position"):
        with second.transaction(force_rollback=True):
            second.execute(f"update headrace_internal.cursor set {change}")
            changed = second.execute(CLAIM_AT.format(SERVER), (runner.consumer_id, [0], [0], 0)).fetchall()
            assert changed == [], change


async def test_claim_at_that_claims_nothing_leaves_no_claim_that_looks_lost(conn: Connection, desk: Desk) -> None:
    topic(conn)
    [runner] = await desk.add(Recorder().consumer())
    publish_many(conn, 1, 1)
    drain(conn)
    conn.execute("select headrace.pause('consumer', 'orders/c')")
    with conn.transaction(force_rollback=True):
        assert conn.execute(CLAIM_AT.format(SERVER), (runner.consumer_id, [0], [0], 0)).fetchall() == []
    conn.execute("select headrace.resume('consumer', 'orders/c')")
    assert conn.execute(CLAIM_AT.format(SERVER), (runner.consumer_id, [0], [0], 0)).fetchall() == [(0, 0)]


# Latency.


@pytest.mark.parametrize("latency_ms", [-1, 60_001])
def test_latency_out_of_range_is_refused(conn: Connection, latency_ms: int) -> None:
    topic(conn)
    with pytest.raises(Exception, match=rf"latency_ms {latency_ms} is not between 0 and 60000"):
        Recorder().consumer(latency_ms=latency_ms)
    with pytest.raises(psycopg.Error, match=r"latency"):
        conn.execute("select headrace.create_consumer('orders', 'c', p_latency_ms => %s)", (latency_ms,))


async def test_patient_consumer_delays_no_other_topic(conn: Connection, desk: Desk) -> None:
    """Not even one whose topic falls asleep and wakes up while events of the patient one gather."""
    topic(conn)
    create_topic(conn, "urgent")
    patient, urgent = Recorder(), Recorder()
    await desk.add(patient.consumer(latency_ms=60_000), Consumer(topic="urgent", name="u", handler=urgent.handle, latency_ms=0))
    desk.run()
    for n in range(1, 11):
        publish(conn, n)
        await until(lambda n=n: len(numbers(conn)) == n)  # type: ignore[misc]
        publish(conn, n, topic="urgent")
        await until(lambda n=n: len(urgent.calls) == n, within_s=5)  # type: ignore[misc]
    await until(lambda: len(patient.calls) == 10, within_s=10)


@pytest.mark.parametrize("latency_ms", [0, 10])
async def test_event_right_after_another_is_handled_within_a_step_or_two(conn: Connection, desk: Desk, latency_ms: int) -> None:
    topic(conn)
    recorder = Recorder()
    await desk.add(recorder.consumer(latency_ms=latency_ms))
    steps = 0
    sequence = desk.sequencer._sequence

    async def count() -> Any:
        nonlocal steps
        topics = await sequence()
        steps += bool(topics)
        return topics

    desk.sequencer._sequence = count  # type: ignore[method-assign]
    desk.run()
    await desk.idle()
    for n in range(0, 20, 2):
        publish(conn, n)
        publish(conn, n + 1)
        await until(lambda n=n: len(recorder.calls) == n + 2, within_s=5)  # type: ignore[misc]
    assert 10 <= steps <= 20 and recorder.numbers == list(range(20))
