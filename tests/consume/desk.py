"""The sequencer and the consumers of a node, stepped by hand or running, and no poll for due consumers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.actions import list_dead_letters
from headrace.consume import Batch, Consumer, ConsumerRunner, DuePoll, Failure
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, Listener, StopSignal, Subscription, Target, cancel_tasks, create_pool
from headrace.log.topics import Sequencer

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
        while await runner.handle_once():
            pass
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


InHand = tuple[CountingRunner, Recorder]
