"""Runner: delivers the events of a topic to a consumer's handler.

Owns: one consumer on one node. Promises: events of a partition reach the handler in order, one batch at a time; the cursor
moves in the handler's transaction, so effects made through it happen exactly once; a dead process holds nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import partial

import psycopg.errors

from headrace.consume.connections import HandlerConnection, TransactionSource, concurrency_error
from headrace.consume.consumer import CREATE_CONSUMER, SINGLE_MAX, Consumer, create_parameters
from headrace.consume.failures import HandlerError, describe_error
from headrace.consume.handler_calls import HandlerGroup, call_handlers, run_after_commit
from headrace.consume.sources import Sources
from headrace.core import DurationHistogram, LoggedEvent
from headrace.db import (
    LoopSteps,
    Pool,
    Subscription,
    Unit,
    connection_lost_error,
    fetch_value_async,
    is_transient,
    query,
)

logger = logging.getLogger(__name__)

GATHER_S, GATHER_MAX_S = 0.00005, 0.05
"""Pause after a batch that was not full: this times the square of its events, up to the maximum. At a high rate batches fill up
and share their cost; at a low rate nobody waits."""
REDRIVE_POLL_S = 0.1
"""Shortest time between two checks for dead letters to redrive."""
TOPIC_CHECK_S = 5.0
"""How often an idle consumer checks that its topic was not dropped and created again."""
IDLE_S = 1.0
"""Longest wait without a notification: for retries that become due, and for a notification lost with its connection."""

_CLAIM = "select partition, position, upto, events, attempts from headrace.claim(%s, p_max => %s, p_min => %s, p_wait_s => %s)"
_HOLD_BACK = "select headrace.hold_back(%s, %s, %s, %s)"
_ADVANCE = "select headrace.advance(%s, %s, %s)"
_FAIL = "select headrace.fail(%s, %s, %s, %s, %s, %s, %s, %s, %s)"
_CLAIM_REDRIVE = "select dead_letter_id from headrace.claim_redrive(%s)"
_END_REDRIVE = "select headrace.end_redrive(%s, %s, %s, %s)"


@dataclass(frozen=True)
class Claim:
    """The events of one partition after `position` up to `upto`, held by this transaction."""

    partition: int
    position: int
    upto: int
    events: int
    attempts: int = 0
    """How often the first of them has failed."""


@dataclass(frozen=True)
class HandlerFailure:
    """The handler raised on these events; those of the claim before them are done."""

    events: Claim
    error: HandlerError


class ConsumerRunner:
    """Runs one consumer on one database until `stop` is set, with `concurrency` workers."""

    def __init__(
        self,
        consumer: Consumer,
        pool: Pool,
        subscription: Subscription,
        stop: asyncio.Event,
        *,
        sources: Sources | None = None,
    ) -> None:
        self._consumer = consumer
        self._handlers = HandlerGroup(handlers=(consumer.handler,), session=consumer.session)
        self._pool = pool
        self._sources = sources or Sources(pool)
        self._subscription = subscription
        self._stop = stop
        self._consumer_id = 0
        self._topic_id = 0
        self._max = consumer.batch.max if consumer.batch else consumer.batch_size or SINGLE_MAX
        self._holds_keys = consumer.failure.then == "dead_letter" and consumer.failure.key_order == "hold"
        self.handled = 0
        """How many events this runner has handled."""
        self.handled_by_partition: Counter[int] = Counter()
        """How many events of each partition; -1 for the cursor over the whole topic."""
        self.durations = DurationHistogram()
        self.failures = 0
        self._redrive_checked_at = 0.0
        self._redrives = self._steps("dead letters")
        self._topic = (consumer.topic, consumer.namespace)
        self._topic_checks = self._steps("topic")
        self._topic_checked_at = time.monotonic()

    @property
    def _source(self) -> TransactionSource:
        return self._sources.source(self._handlers.source)

    def _steps(self, kind: str) -> LoopSteps:
        unit = Unit(f"consumer {kind}", self._consumer.namespace, f"{self._consumer.topic}/{self._consumer.name}")
        return LoopSteps(f"{self.name}: {kind}", self._stop, pool=self._pool, unit=unit)

    @property
    def consumer(self) -> Consumer:
        return self._consumer

    @property
    def name(self) -> str:
        return f"consumer {self._consumer.topic}/{self._consumer.name}"

    async def run(self) -> None:
        if not self._consumer_id:
            await self._steps("registration").run(self.register)
        workers = 1 if self._consumer.ordered_by == "topic" else self._consumer.concurrency
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work())

    async def register(self) -> None:
        """Registers the consumer with the database."""
        self._consumer_id = await fetch_value_async(self._pool, CREATE_CONSUMER, create_parameters(self._consumer))
        self._topic_id = await fetch_value_async(self._pool, "select headrace.topic_id(%s, %s)", self._topic)
        self._subscription.filter = str(self._topic_id)

    async def _work(self) -> None:
        is_notified = False
        steps = self._steps("events")
        while not self._stop.is_set():
            events = await steps.run(partial(self._handle_or_check, is_notified=is_notified)) or 0
            is_notified = False
            if events >= self._max:
                continue
            if events:
                await asyncio.sleep(min(GATHER_S * events**2, GATHER_MAX_S))
            elif not await self._redrive():
                if time.monotonic() - self._topic_checked_at > TOPIC_CHECK_S:
                    self._topic_checked_at = time.monotonic()
                    await self._topic_checks.attempt(self._check_topic)
                is_notified = await self._subscription.wait(self._idle_s())
        self._subscription.notify()

    async def _handle_or_check(self, *, is_notified: bool) -> int:
        try:
            return await self.handle_once(is_notified=is_notified)
        except psycopg.errors.InsufficientPrivilege:
            # What a role that is not the owner sees when the topic was dropped.
            await self._check_topic()
            raise

    async def _check_topic(self) -> None:
        """Registers with a topic that was dropped and created again; a consumer that was dropped stays dropped."""
        topic_id = await fetch_value_async(self._pool, "select headrace.topic_id(%s, %s)", self._topic)
        if topic_id != self._topic_id:
            await self.register()

    async def _redrive(self) -> bool:
        if time.monotonic() - self._redrive_checked_at < REDRIVE_POLL_S:
            return False
        is_redriven = bool(await self._redrives.attempt(self.redrive_once))
        self._redrive_checked_at = 0.0 if is_redriven else time.monotonic()
        return is_redriven

    def _idle_s(self) -> float:
        batch = self._consumer.batch
        return min(IDLE_S, max(batch.wait_s / 2, 0.01)) if batch and batch.min > 1 else IDLE_S

    async def handle_once(self, *, is_notified: bool = False) -> int:
        """Handles one batch if one is due; returns its number of events. After a notification it wakes another worker too."""
        failure: HandlerFailure | None = None
        async with self._source.connect() as conn:
            rows = await conn.begin(_CLAIM, self._claim_parameters())
            if not rows:
                await conn.commit()
                return 0
            claim = Claim(*rows[0])
            if is_notified or claim.events == self._max:
                self._subscription.notify()  # There may be more: another worker can claim another partition.
            events: list[LoggedEvent] = []
            try:
                events, held = await self._read(conn, claim)
            except Exception as error:
                if is_transient(error):
                    raise
                # An event that cannot be read, for example with a time after the year 9999, must not stop other partitions.
                failure = HandlerFailure(claim, _handler_error(conn, error))
            else:
                started = time.perf_counter()
                failure = await self._deliver(conn, events, held, claim)
                self.durations.observe_calls(time.perf_counter() - started, 1 if self._consumer.batch else len(events))
            moved_to = failure.events.position if failure else claim.upto
            if moved_to == claim.position:
                await conn.rollback()
            else:
                try:
                    await conn.commit(_ADVANCE, (self._consumer_id, claim.partition, moved_to))
                except Exception as error:
                    if is_transient(error):
                        raise
                    # The commit rejected what the handler wrote, for example by a deferred constraint.
                    failure, moved_to = HandlerFailure(claim, _handler_error(conn, error)), claim.position
                    await conn.rollback()
                else:
                    await run_after_commit(conn)
        handled = sum(event.position <= moved_to for event in events) if failure else len(events)
        self.handled += handled
        self.handled_by_partition[claim.partition] += handled
        if failure:
            await self._fail(failure)
        return claim.events

    def _claim_parameters(self) -> tuple[object, ...]:
        batch = self._consumer.batch
        return (self._consumer_id, self._max, batch.min if batch else 1, batch.wait_s if batch else 0)

    async def _read(self, conn: HandlerConnection, claim: Claim) -> tuple[list[LoggedEvent], set[int]]:
        """The claimed events to handle, and the positions of those that wait behind a dead letter of their key."""
        parameters = {
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
            held = {position for (position,) in await conn.execute(query("consume/held_positions"), parameters)}
        statement = query("consume/read_topic" if claim.partition < 0 else "consume/read_partition")
        events = await conn.fetch_events(statement, parameters, raw=self._consumer.raw_payload)
        return [event for event in events if event.position not in held] if held else events, held

    async def _deliver(
        self, conn: HandlerConnection, events: Sequence[LoggedEvent], held: Set[int], claim: Claim
    ) -> HandlerFailure | None:
        if not events:
            return None
        if self._consumer.batch:
            try:
                await self._call(conn, events)
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                return HandlerFailure(claim, _handler_error(conn, error))
            return None
        done = claim.position
        for event in events:
            try:
                async with conn.savepoint():
                    await self._call(conn, event)
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                handler_error = _handler_error(conn, error)
                if not conn.is_open:
                    # The effects of earlier events are gone with the transaction, so the cursor may not pass them.
                    return HandlerFailure(claim, handler_error)
                # Held events before this one are among the dead letters already, so the cursor passes them.
                passed = max((position for position in held if position < event.position), default=done)
                before = max(done, passed)
                attempts = claim.attempts if before == claim.position else 0
                return HandlerFailure(Claim(claim.partition, before, event.position, 1, attempts), handler_error)
            done = event.position
        return None

    async def _call(self, conn: HandlerConnection, argument: LoggedEvent | Sequence[LoggedEvent]) -> None:
        await call_handlers([(self._handlers, argument)], conn)

    async def _fail(self, failure: HandlerFailure) -> None:
        self.failures += 1
        events, error = failure.events, failure.error
        place = (self._consumer_id, events.partition, events.position, events.upto, events.events)
        parameters = (*place, error.summary, error.traceback, error.verdict, error.after_s)
        outcome = await fetch_value_async(self._pool, _FAIL, parameters)
        follows = _OUTCOMES.get(outcome, outcome)
        fields = self._log_fields(events.upto, events.attempts + 1, error)
        message = "%s failed at position %s: %s; %s"
        logger.warning(message, self.name, events.upto, error.line, follows, exc_info=error.exc_info, extra=fields)

    def _log_fields(self, position: int, attempt: int | None, error: HandlerError) -> dict[str, object]:
        fields: dict[str, object] = {"topic": self._consumer.topic, "consumer": self._consumer.name, "position": position}
        return fields | {"attempt": attempt, "error": error.line}

    async def redrive_once(self) -> bool:
        """Handles one dead letter marked for redrive; returns False if there is none."""
        handler_error: HandlerError | None = None
        position = 0
        async with self._source.connect() as conn:
            rows = await conn.begin(_CLAIM_REDRIVE, (self._consumer_id,))
            if not rows:
                await conn.commit()
                return False
            [(letter_id,)] = rows
            try:
                statement, raw = query("consume/read_dead_letter"), self._consumer.raw_payload
                [event] = await conn.fetch_events(statement, {"dead_letter_id": letter_id}, raw=raw)
                position = event.position
                await self._call(conn, [event] if self._consumer.batch else event)
                await conn.commit(_END_REDRIVE, (letter_id, None, None, False))
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                handler_error = _handler_error(conn, error)
                await conn.rollback()
            else:
                await run_after_commit(conn)
        if handler_error is not None:
            await self._fail_redrive(letter_id, position, handler_error)
        return True

    async def _fail_redrive(self, letter_id: int, position: int, error: HandlerError) -> None:
        is_discarded = error.verdict == "discard"
        await fetch_value_async(self._pool, _END_REDRIVE, (letter_id, error.summary, error.traceback, is_discarded))
        follows = _OUTCOMES["discarded" if is_discarded else "dead_letter"]
        fields = self._log_fields(position, None, error)
        message = "%s failed again at position %s: %s; %s"
        logger.warning(message, self.name, position, error.line, follows, exc_info=error.exc_info, extra=fields)


_OUTCOMES = {
    "single": "its batch is now handled event by event",
    "retry": "it will be retried",
    "dead_letter": "it was moved to the dead letters",
    "discarded": "it was discarded",
    "stopped": "the partition stops until `headrace consumer resume`",
    None: "another node has moved on",
}


def _handler_error(conn: HandlerConnection, error: Exception) -> HandlerError:
    """What to record of a handler's own error. An error that the database caused is raised again: it is no failed attempt."""
    if conn.is_lost:
        raise connection_lost_error(error) from error
    if (cause := concurrency_error(error)) is not None:
        raise cause from error
    return describe_error(error)
