"""Runner: carries claimed events to a consumer's handler.

Owns: one consumer on one node. Promises: events of a partition reach the handler in order, one batch at a time; the cursor
moves in the handler's transaction, so effects made through it happen exactly once; a dead process holds nothing."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Sequence, Set
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import psycopg
import psycopg.errors
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row

from headrace.consume.consumer import Consumer, create_parameters
from headrace.consume.handler_calls import call
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Pool, Subscription, as_lost, is_transient, query, retry_until_connected
from headrace.log import logged_event

logger = logging.getLogger(__name__)

SINGLE_MAX = 100
"""Events a one-at-a-time handler gets per transaction; each runs in a savepoint of its own."""
GATHER_S, GATHER_MAX_S = 0.00005, 0.05
"""Pause after a batch that was not full, by the square of its events, and at most: at a high rate batches fill up and their cost
is shared, at a low one nobody waits."""
REDRIVE_LOOK_S = 0.1
"""Shortest time between two looks for dead letters to be tried again."""
IDLE_S = 1.0
"""Longest wait without a notification: for retries that fall due, and for a ring lost with a connection."""

_CLAIM = query("consume/claim")
_READ_PARTITION = query("consume/read_partition")
_READ_TOPIC = query("consume/read_topic")
_READ_DEAD_LETTER = query("consume/read_dead_letter")
_HELD = query("consume/held_positions")
_HOLD_BACK = "select headrace_internal.hold_back(%s, %s, %s, %s)"
_ADVANCE = "select headrace.advance(%s, %s, %s)"
_END_REDRIVE = "select headrace_internal.end_redrive(%s, %s)"


@dataclass(frozen=True)
class Claim:
    """The events of one partition after `position` up to `upto`, held by this transaction."""

    partition: int
    position: int
    upto: int
    events: int
    attempts: int


@dataclass(frozen=True)
class Failed:
    """The handler raised on the events after `position` up to `upto`; those up to `position` are done."""

    partition: int
    position: int
    upto: int
    events: int
    error: str


class ConsumerRunner:
    """Runs one consumer on one database until told to stop, with `concurrency` workers side by side."""

    def __init__(self, consumer: Consumer, pool: Pool, bell: Subscription, stop: asyncio.Event) -> None:
        self._consumer = consumer
        self._pool = pool
        self._bell = bell
        self._stop = stop
        self._consumer_id = 0
        self._topic_id = 0
        self._max = consumer.batch.max if consumer.batch else SINGLE_MAX
        self._holds_keys = consumer.failure.then == "dead_letter" and consumer.failure.key_order == "hold"
        self.handled = 0
        """How many events this runner has handled."""
        self.failures = 0
        self._redrive_looked_at = 0.0

    @property
    def name(self) -> str:
        return f"consumer {self._consumer.topic}/{self._consumer.name}"

    async def run(self) -> None:
        await retry_until_connected(self.name, self.register)
        workers = 1 if self._consumer.ordered_by == "topic" else self._consumer.concurrency
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work())

    async def register(self) -> None:
        """Makes the consumer known to the database."""
        async with self._pool.connection() as conn:
            made = await conn.execute(query("consume/create_consumer"), create_parameters(self._consumer))
            self._consumer_id = (await made.fetchone() or (0,))[0]
            given = (self._consumer.topic, self._consumer.namespace)
            found = await conn.execute("select headrace_internal.topic_id(%s, %s)", given)
            self._topic_id = (await found.fetchone() or (0,))[0]
        self._bell.word = str(self._topic_id)

    async def _work(self) -> None:
        woken = False
        while not self._stop.is_set():
            events = await retry_until_connected(self.name, partial(self.handle_once, woken=woken))
            woken = False
            if events >= self._max:
                continue
            if events:
                await asyncio.sleep(min(GATHER_S * events**2, GATHER_MAX_S))
            elif not await self._redrive():
                woken = await self._bell.wait(self._idle_s())
        self._bell.ring()

    async def _redrive(self) -> bool:
        if time.monotonic() - self._redrive_looked_at < REDRIVE_LOOK_S:
            return False
        redriven = await retry_until_connected(self.name, self.redrive_once)
        self._redrive_looked_at = 0.0 if redriven else time.monotonic()
        return redriven

    def _idle_s(self) -> float:
        batch = self._consumer.batch
        return min(IDLE_S, max(batch.wait_s / 2, 0.01)) if batch and batch.min > 1 else IDLE_S

    async def handle_once(self, *, woken: bool = False) -> int:
        """Handles one batch, if one is due; says how many events it had. `woken`: other workers may be needed as well."""
        try:
            return await self._handle_once(woken)
        except psycopg.Rollback as error:
            # It comes out where the connection broke before the rollback; the server has rolled back by itself.
            raise as_lost(error) from None

    async def _handle_once(self, woken: bool) -> int:
        failed: Failed | None = None
        async with self._pool.connection() as conn:
            async with AsyncExitStack() as transaction:
                # Begin travels with the claim, commit with the cursor's move: two round trips less per batch.
                # Not conn.transaction(): in a pipeline that would keep the pipeline open around the handler.
                async with conn.pipeline():
                    await transaction.enter_async_context(psycopg.AsyncTransaction(conn))
                    claimed = await self._claim(conn)
                claim = await claimed.fetchone()
                if claim is None:
                    return 0
                if woken or claim.events == self._max:
                    self._bell.ring()  # There is more: the other workers may take other partitions.
                events, held = await self._read(conn, claim)
                failed = await self._deliver(conn, events, held, claim)
                moved_to = failed.position if failed else claim.upto
                if moved_to == claim.position:
                    raise psycopg.Rollback
                try:
                    async with conn.pipeline():
                        await conn.execute(_ADVANCE, (self._consumer_id, claim.partition, moved_to))
                        await transaction.aclose()
                except psycopg.Error as error:
                    if is_transient(error):
                        raise
                    # What the handler wrote does not hold, such as a deferred constraint.
                    failed, moved_to = _all_failed(claim, _told(conn, error)), claim.position
                    await conn.rollback()
            self.handled += sum(event.position <= moved_to for event in events) if failed else len(events)
            if failed:
                await self._fail(conn, failed)
        return claim.events

    async def _claim(self, conn: AsyncConnection) -> psycopg.AsyncCursor[Claim]:
        batch = self._consumer.batch
        given = {
            "consumer_id": self._consumer_id,
            "max": self._max,
            "min": batch.min if batch else 1,
            "wait_s": batch.wait_s if batch else 0,
        }
        return await conn.cursor(row_factory=class_row(Claim)).execute(_CLAIM, given)

    async def _read(self, conn: AsyncConnection, claim: Claim) -> tuple[list[LoggedEvent], set[int]]:
        """The claimed events, without those whose key is held back by a dead letter; and the positions of those."""
        given = {
            "consumer_id": self._consumer_id,
            "topic": self._consumer.topic,
            "topic_id": self._topic_id,
            "partition": claim.partition,
            "position": claim.position,
            "upto": claim.upto,
        }
        held: set[int] = set()
        if self._holds_keys:
            await conn.execute(_HOLD_BACK, (self._consumer_id, claim.partition, claim.position, claim.upto))
            held = {row[0] for row in await (await conn.execute(_HELD, given)).fetchall()}
        async with conn.cursor(row_factory=logged_event, binary=True) as cursor:
            read = _READ_TOPIC if claim.partition < 0 else _READ_PARTITION
            events = await (await cursor.execute(read, given)).fetchall()
        return [event for event in events if event.position not in held] if held else events, held

    async def _deliver(self, conn: AsyncConnection, events: Sequence[LoggedEvent], held: Set[int], claim: Claim) -> Failed | None:
        if not events:
            return None
        if self._consumer.batch:
            try:
                await self._call(conn, events)
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                return _all_failed(claim, _told(conn, error))
            return None
        done = claim.position
        for event in events:
            try:
                async with conn.transaction():
                    await self._call(conn, event)
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                told = _told(conn, error)
                if conn.info.transaction_status != TransactionStatus.INTRANS:
                    return _all_failed(claim, told)  # What the events before it did is no longer ours to commit.
                # Those held back before it are put aside already, and the cursor passes them with their letters.
                passed = max((position for position in held if position < event.position), default=done)
                return Failed(claim.partition, max(done, passed), event.position, 1, told)
            done = event.position
        return None

    async def _call(self, conn: AsyncConnection, given: LoggedEvent | Sequence[LoggedEvent]) -> None:
        await call(self._consumer.handler, given, conn)

    async def _fail(self, conn: AsyncConnection, failed: Failed) -> None:
        self.failures += 1
        given = (self._consumer_id, failed.partition, failed.position, failed.upto, failed.events, failed.error)
        row = await (await conn.execute("select headrace.fail(%s, %s, %s, %s, %s, %s)", given)).fetchone()
        follows = row[0] if row else None
        last_line = failed.error.strip().rsplit("\n", 1)[-1]
        logger.warning("%s failed at position %s: %s; %s", self.name, failed.upto, last_line, _FOLLOWS.get(follows, follows))

    async def redrive_once(self) -> bool:
        """Handles one dead letter that is to be tried again, if there is one; says whether there was."""
        async with self._pool.connection() as conn:
            letter_id = None
            try:
                async with conn.transaction():
                    claimed = await conn.execute("select * from headrace_internal.claim_redrive(%s)", (self._consumer_id,))
                    row = await claimed.fetchone()
                    if row is None:
                        return False
                    async with conn.cursor(row_factory=logged_event, binary=True) as cursor:
                        letter = await (await cursor.execute(_READ_DEAD_LETTER, {"dead_letter_id": row[0]})).fetchone()
                    assert letter is not None
                    letter_id = row[0]
                    await self._call(conn, [letter] if self._consumer.batch else letter)
                    await conn.execute(_END_REDRIVE, (letter_id, None))
            except Exception as error:
                if letter_id is None:
                    raise
                await conn.execute(_END_REDRIVE, (letter_id, _told(conn, error)))
        return True


_FOLLOWS = {
    "single": "its batch is handled one by one now",
    "retry": "it will be tried again",
    "dead_letter": "it was put aside as a dead letter",
    "stopped": "the partition stops until `headrace consumer resume`",
    None: "another node has moved on",
}


def _all_failed(claim: Claim, error: str) -> Failed:
    """Nothing of the claim is done: of several events nobody knows yet which one is at fault."""
    return Failed(claim.partition, claim.position, claim.upto, claim.events, error)


def _told(conn: AsyncConnection, error: Exception) -> str:
    """The traceback of a handler's own error. What is the database's doing is raised again: it does not count."""
    if conn.broken or conn.closed:
        raise as_lost(error) from error
    if isinstance(error, psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure):
        raise error
    return "".join(traceback.format_exception(error))
