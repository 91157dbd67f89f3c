"""Events that the sequencer of a node gives straight to its consumers: handled as if they had been claimed, once, in order, and never lost.

Nothing polls in these tests: the poll for due consumers never runs, so an event that nobody is woken for is never handled."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from headrace.actions import list_dead_letters
from headrace.consume import Batch, Consumer, ConsumerRunner, DuePoll, Failure, seek_consumer
from headrace.consume.appended import WAITING_MAX
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, Listener, StopSignal, Subscription, Target, cancel_tasks, create_pool
from headrace.log.topics import Sequencer, alter_topic, create_topic, drop_topic
from tests.builders import drain, numbers, publish, topic, wait_until
from tests.consume.conftest import run_dry

ONCE = Failure.dead_letter(attempts=1, key_order="skip")
CLAIM_AT = "select partition, position from headrace.claim_at(%s::bigint, %s::int[], %s::bigint[], %s::int, {})"
SERVER = "pg_postmaster_start_time()"


class CountingRunner(ConsumerRunner):
    """Counts its claims of both kinds."""

    claims = 0
    claims_at = 0

    async def _claim(self, *args: Any, **options: Any) -> Any:
        self.claims += 1
        return await super()._claim(*args, **options)

    async def _claim_at(self, *args: Any, **options: Any) -> Any:
        self.claims_at += 1
        return await super()._claim_at(*args, **options)


@dataclass
class Recorder:
    """A handler that writes down its calls, and does what it is told before it returns."""

    calls: list[object] = field(default_factory=list)
    events: list[LoggedEvent] = field(default_factory=list)
    then: Callable[[LoggedEvent], Any] = lambda event: None

    async def handle(self, event: LoggedEvent, tx: AsyncConnection) -> None:
        self.calls.append(event.payload)
        self.events.append(event)
        done = self.then(event)
        if done is not None:
            await done

    async def handle_batch(self, events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        self.calls.append([event.payload for event in events])
        self.events += events
        for event in events:
            done = self.then(event)
            if done is not None:
                await done

    def consumer(self, *, batch: Batch | None = None, name: str = "c", **options: Any) -> Consumer:
        handler: Any = self.handle_batch if batch else self.handle
        return Consumer(topic="orders", name=name, handler=handler, batch=batch, **options)

    @property
    def numbers(self) -> list[object]:
        return [event.payload for event in self.events]


class Desk:
    """The sequencer and the consumers of a node."""

    def __init__(self, database: Target) -> None:
        self.pool = create_pool(database, size=10)
        self.stop = StopSignal()
        self.listener = Listener(database)
        self._due = DuePoll(self.pool, self.listener.subscribe("headrace_log"), self.stop)
        self.runners: list[CountingRunner] = []
        self.subscriptions: list[Subscription] = []
        self.sequencer = Sequencer(self.pool, self.listener, self.stop)
        self._tasks: list[asyncio.Task[None]] = []

    async def add(self, *consumers: Consumer) -> list[CountingRunner]:
        for consumer in consumers:
            self.subscriptions.append(self.listener.subscribe("headrace_log"))
            runner = CountingRunner(consumer, self.pool, self.subscriptions[-1], self.stop, due=self._due)
            await runner.register()
            self.runners.append(runner)
        self.sequencer = Sequencer(self.pool, self.listener, self.stop, readers=self.runners)
        return self.runners

    async def caught_up(self, consumer: Consumer) -> CountingRunner:
        """A runner that is stepped by hand, and that gets the events of the next step."""
        runner = (await self.add(consumer))[-1]
        await run_dry(runner)
        assert runner.takes_appended
        return runner

    async def sequence(self) -> None:
        """A step of the sequencer, without its pauses. The server's notification does not come: nothing listens."""
        await self.sequencer._sequence()

    def run(self, *, sequencer: bool = True) -> None:
        """Starts the workers, and a sequencer that runs by itself."""
        steps = [runner.run() for runner in self.runners]
        if sequencer:
            steps += [self.sequencer.loop.run(), self.listener.run()]
        self._tasks += [asyncio.create_task(step) for step in steps]

    async def idle(self) -> None:
        """Waits until all that is running is caught up and has claimed for the last time."""
        claims = -1
        while claims != (claims := sum(runner.claims for runner in self.runners)) or not all(
            runner.takes_appended for runner in self.runners
        ):
            for _ in range(20):
                await self.pool_turn()

    async def pool_turn(self) -> None:
        async with self.pool.connection() as conn:
            await conn.execute("select 1")

    async def close(self) -> None:
        self.stop.set()
        await asyncio.wait_for(cancel_tasks(*self._tasks), 10)
        await self.pool.close()


@asynccontextmanager
async def desk_of(database: Target) -> AsyncIterator[Desk]:
    desk = Desk(database)
    await desk.pool.open()
    try:
        yield desk
    finally:
        await desk.close()


@pytest.fixture
async def desk(database: Target) -> AsyncIterator[Desk]:
    async with desk_of(database) as desk:
        yield desk


async def until(condition: Callable[[], bool], *, within_s: float = 20) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.005)


def cursors(conn: Connection) -> list[tuple[Any, ...]]:
    statement = (
        "select partition, position, state, attempts, retry_at is null from headrace.cursor order by consumer_id, partition"
    )
    return conn.execute(statement).fetchall()


def letters(conn: Connection) -> list[tuple[object, int, str]]:
    return [(letter.payload, letter.attempts, str(letter.error).partition(":")[0]) for letter in list_dead_letters(conn)]


def publish_many(conn: Connection, first: int, count: int, *, keys: int = 1) -> None:
    conn.execute(
        "select headrace.publish('orders', 'placed', to_jsonb(n), p_key => 'k' || n %% %s::int) from generate_series(%s::int, %s::int) n",
        (keys, first, first + count - 1),
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


@pytest.fixture
async def in_hand(conn: Connection, desk: Desk) -> tuple[CountingRunner, Recorder]:
    """A consumer that has handled the events 1 and 2, and has 3 to 6, with the keys k0 and k1, in hand."""
    topic(conn)
    recorder = Recorder()
    runner = await desk.caught_up(recorder.consumer(failure=Failure.dead_letter(attempts=1, key_order="hold")))
    for first, count in ((1, 2), (3, 3), (6, 1)):
        publish_many(conn, first, count, keys=2)
        await desk.sequence()
        if first == 1:
            await run_dry(runner)
    assert recorder.numbers == [1, 2] and runner.takes_appended
    return runner, recorder


InHand = tuple[CountingRunner, Recorder]


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
