"""Runner: delivers the events of a topic to a consumer's handler.

Owns: one consumer on one node. Promises: events of a partition reach the handler in order, one batch at a time; the cursor
moves in the handler's transaction, so effects made through it happen exactly once; a dead process holds nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import LiteralString

import psycopg.errors

from headrace.consume.claims import Claim, ClaimedBatch
from headrace.consume.conditions import compile_if_allowed
from headrace.consume.connections import HandlerConnection, TransactionSource
from headrace.consume.consumer import SINGLE_MAX, Consumer, register_consumer
from headrace.consume.due_poll import DuePoll
from headrace.consume.failures import HandlerError
from headrace.consume.handler_calls import HandlerGroup, call_handlers, handler_error, run_after_commit
from headrace.consume.sources import Sources
from headrace.core import DurationHistogram, LoggedEvent
from headrace.db import (
    LoopSteps,
    Pace,
    Parameter,
    Pool,
    Subscription,
    Unit,
    fetch_value_async,
    is_transient,
    query,
)

logger = logging.getLogger(__name__)

PAUSE_MAX_S = 0.05
"""The longest pause of a worker after a batch that was not full."""
REDRIVE_POLL_S = 0.1
"""Shortest time between two checks for dead letters to redrive."""
SINGLES_S = 1.0
"""After this time no further event of a batch of single events is handled in its transaction."""
TOPIC_CHECK_S = 5.0
"""How often an idle consumer without a due poll checks that its topic was not dropped and created again."""
IDLE_S = 1.0
"""Longest wait without a notification: of a consumer without a due poll, and while other workers hold what is due."""

CLAIM_EVENTS: LiteralString = """select position, partition, event_id, topic, type, key, payload, headers, emitted_at, appended_at, producer
from headrace.claim_events(%s::integer, %s::integer, %s::integer, %s::float8, %s::integer)"""
_ADVANCE: LiteralString = "select headrace.advance(%s, %s, %s)"
_ADVANCE_PARTITIONS: LiteralString = "select headrace.advance_partitions(%s, %s::integer[], %s::bigint[])"
_RELEASE_CLAIMS = "select headrace.release_claims(%s, %s::integer[], %s::bigint[])"
_FORGET_LOST = """select headrace.release_claims(%s, array_agg(partition), array_agg(position)) from headrace.cursor where consumer_id = %s"""
_FAIL = "select headrace.fail(%s, %s, %s, %s, %s, %s, %s, %s, %s)"
_CLAIM_REDRIVE = "select dead_letter_id from headrace.claim_redrive(%s)"
_END_REDRIVE = "select headrace.end_redrive(%s, %s, %s, %s)"


@dataclass(frozen=True)
class HandlerFailure:
    """The handler raised on these events; those of the claims before them are done."""

    claims: Sequence[Claim]
    error: HandlerError
    moved_to: Mapping[int, int] = field(default_factory=dict)
    """Where the cursors go: behind the events that are done."""
    outcome: str | None = None
    """What headrace.fail said follows; None: it was not called yet."""


@dataclass(frozen=True)
class HandledBatch:
    """What one step of a worker did."""

    size: int
    """How many events were claimed."""
    pause_s: float
    """How long to wait before the next claim, if the batch was not full."""
    may_have_more: bool
    """More events may be due than were claimed."""
    is_held: bool = False
    """Events are due, but other workers hold their partitions."""


NOTHING = HandledBatch(0, 0.0, may_have_more=False)


class ConsumerRunner:
    """Runs one consumer on one database until `stop` is set, with `concurrency` workers."""

    _claim_statement: LiteralString = CLAIM_EVENTS

    def __init__(
        self,
        consumer: Consumer,
        pool: Pool,
        subscription: Subscription,
        stop: asyncio.Event,
        *,
        sources: Sources | None = None,
        due: DuePoll | None = None,
    ) -> None:
        """`due` wakes the runner when something becomes due that nobody notifies of; without it the runner polls by itself."""
        self._consumer = consumer
        self._handlers = HandlerGroup(
            handlers=(consumer.handler,), session=consumer.session, destination=consumer.topic, consumer=consumer.name
        )
        self._pool = pool
        self._sources = sources or Sources(pool)
        self._subscription = subscription
        self._stop = stop
        self._consumer_id = 0
        self._topic_id = 0
        self._max = consumer.batch.max if consumer.batch else consumer.batch_size or SINGLE_MAX
        self._pace = Pace(pause_max_s=PAUSE_MAX_S)
        self._handler_s = float("inf")
        """How long the handler took for the last batch."""
        self._wakes = 0
        """How often a notification has woken a worker."""
        self.handled = 0
        """How many events this runner has handled."""
        self.handled_by_partition: Counter[int] = Counter()
        """How many events of each partition; -1 for the cursor over the whole topic."""
        self.durations = DurationHistogram()
        self.failures = 0
        self._rolled_back: list[Claim] = []
        """Claims whose transaction was rolled back without a failure of the handler, and which must not count as lost."""
        self._redrive_checked_at = 0.0
        self._redrives = self._steps("dead letters")
        self._topic = (consumer.topic, consumer.namespace)
        self._topic_checks = self._steps("topic")
        self._topic_checked_at = time.monotonic()
        self._is_polled = due is not None
        self._must_check_topic = False
        self._woken_at = time.monotonic()
        if due is not None:
            due.add(self)

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
    def namespace(self) -> str | None:
        return self._consumer.namespace

    @property
    def topic(self) -> str:
        return self._consumer.topic

    @property
    def topic_id(self) -> int:
        return self._topic_id

    @property
    def consumer_id(self) -> int:
        return self._consumer_id

    def wake(self) -> None:
        """Lets one worker look for events, retries and dead letters to redrive."""
        self._subscription.notify()

    def check_topic_soon(self) -> None:
        """Lets a worker register with the topic, if it was dropped and created again."""
        self._must_check_topic = True
        self._subscription.notify()

    @property
    def name(self) -> str:
        return f"consumer {self._consumer.topic}/{self._consumer.name}"

    async def run(self) -> None:
        if not self._consumer_id:
            await self._steps("registration").run(self.register)
        workers = 1 if self._consumer.ordered_by == "topic" else self._consumer.concurrency
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                steps = self._steps("events")
                group.create_task(steps.keep_running(partial(self._work, steps)))

    async def register(self) -> None:
        """Registers the consumer with the database."""
        self._consumer_id = await register_consumer(self._pool, self._consumer)
        self._topic_id = await fetch_value_async(self._pool, "select headrace.topic_id(%s, %s)", self._topic)
        self._subscription.filter = str(self._topic_id)
        await self._compile_condition()

    async def _compile_condition(self) -> None:
        if self._consumer.where is not None:
            await compile_if_allowed(self._pool, self._consumer_id, self._consumer.where)

    async def _work(self, steps: LoopSteps) -> None:
        is_notified = False
        while not self._stop.is_set():
            wakes = self._wakes
            batch = await steps.run(partial(self._handle_or_check, is_notified=is_notified)) or NOTHING
            is_notified = False
            if batch.size and batch.size < self._max:
                await asyncio.sleep(batch.pause_s)
            # A worker that was woken meanwhile may have found these partitions held by this one.
            if batch.may_have_more or (batch.size and wakes != self._wakes):
                continue
            if batch.size or not await self._redrive():
                is_notified = await self._wait(IDLE_S if batch.is_held else self._idle_s())
        self._subscription.notify()

    async def _wait(self, idle_s: float | None) -> bool:
        """Waits for a notification, at most for this long; returns whether there was one."""
        is_time = not self._is_polled and time.monotonic() - self._topic_checked_at > TOPIC_CHECK_S
        if is_time or self._must_check_topic:
            self._topic_checked_at, self._must_check_topic = time.monotonic(), False
            await self._topic_checks.attempt(self._check_topic)
        is_notified = await self._subscription.wait(idle_s)
        if is_notified:
            self._wakes += 1
            self._woken_at = time.monotonic()
        return is_notified

    async def _handle_or_check(self, *, is_notified: bool) -> HandledBatch:
        try:
            return await self.handle_batch(is_notified=is_notified)
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

    def _idle_s(self) -> float | None:
        """How long a worker may wait for a notification; None: for ever."""
        batch = self._consumer.batch
        if batch and batch.min > 1 and (not self._is_polled or time.monotonic() - self._woken_at < batch.wait_s + IDLE_S):
            # Too few events may wait, and are due when the oldest of them has waited long enough.
            return min(IDLE_S, max(batch.wait_s / 2, 0.01))
        return None if self._is_polled else IDLE_S

    async def handle_once(self) -> int:
        """Handles one batch if one is due; returns its number of events."""
        batch = await self.handle_batch()
        while not batch.size and batch.may_have_more:
            batch = await self.handle_batch()
        return batch.size

    async def handle_batch(self, *, is_notified: bool = False) -> HandledBatch:
        """Handles one batch if one is due. After a notification that was for more events it wakes another worker too."""
        await self._release_claims()
        started = time.monotonic()
        async with self._source.connect() as conn:
            is_batch = self._consumer.batch is not None
            parameters, raw = self._claim_parameters(), self._consumer.raw_payload
            rows = await conn.begin_events(self._claim_statement, parameters, raw=raw, savepoint=is_batch)
            if not len(rows):
                await conn.commit()
                return NOTHING
            claim_s = time.monotonic() - started
            batch = ClaimedBatch(rows)
            if not batch.size:
                # Events that do not match were passed, or other workers hold what is due.
                await conn.commit()
                return HandledBatch(0, 0.0, may_have_more=batch.is_partial, is_held=batch.is_held)
            if (is_notified and batch.is_partial) or batch.size >= self._max:
                self._subscription.notify()  # There may be more: another worker can claim another partition.
            try:
                failure = await self._handle(conn, batch)
            except BaseException:
                self._rolled_back += batch.claims
                raise
        self._count_handled(batch, failure)
        if failure:
            await self._report(failure, failure.outcome or await self._fail(failure))
        elapsed_s = time.monotonic() - started
        # Advance and commit cost about as much CPU as the claim. What they take longer is waiting for the disk.
        commit_s = min(elapsed_s - claim_s - self._handler_s, claim_s)
        pause_s = self._pace.pause_s(claim_s + commit_s, events=batch.size, elapsed_s=elapsed_s)
        return HandledBatch(batch.size, pause_s, may_have_more=batch.is_partial or failure is not None)

    async def _handle(self, conn: HandlerConnection, batch: ClaimedBatch) -> HandlerFailure | None:
        """Calls the handler and commits what is done."""
        called = time.monotonic()
        failure = await self._deliver(conn, batch)
        self._handler_s = time.monotonic() - called
        self.durations.count_calls(self._handler_s, 1 if self._consumer.batch else batch.size)
        return await (self._commit(conn, batch) if failure is None else self._commit_failure(conn, batch, failure))

    async def forget_lost_claims(self) -> None:
        """For the test kit, which rolls back what it claims: the next test must not take that for a lost session."""
        await fetch_value_async(self._pool, _FORGET_LOST, (self._consumer_id, self._consumer_id))

    async def _release_claims(self) -> None:
        if not self._rolled_back:
            return
        claims, self._rolled_back = self._rolled_back, []
        places = ([claim.partition for claim in claims], [claim.position for claim in claims])
        try:
            await fetch_value_async(self._pool, _RELEASE_CLAIMS, (self._consumer_id, *places))
        except BaseException:
            self._rolled_back += claims
            raise

    def _claim_parameters(self) -> tuple[Parameter, ...]:
        batch = self._consumer.batch
        # Several partitions at once block each other's events, so only while that costs less time than a claim for each.
        partitions = self._consumer.partitions_max if self._handler_s <= self._pace.cost_s else 1
        return (self._consumer_id, self._max, batch.min if batch else 1, batch.wait_s if batch else 0, partitions)

    async def _deliver(self, conn: HandlerConnection, batch: ClaimedBatch) -> HandlerFailure | None:
        try:
            events = batch.events
        except Exception as error:
            if is_transient(error):
                raise
            # An event that cannot be read, for example with a time after the year 9999, must not stop other partitions.
            return HandlerFailure(_whole(batch), handler_error(conn, error))
        if self._consumer.batch:
            try:
                if events:
                    await self._call(conn, events)
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                return HandlerFailure(_whole(batch), handler_error(conn, error))
            return None
        started = time.monotonic()
        for number, event in enumerate(events):
            if number and (self._stop.is_set() or time.monotonic() - started > SINGLES_S):
                # What is done is committed now: a node that stops throws nothing away, and nobody waits long for a commit.
                batch.cut_before(event.position)
                return None
            try:
                async with conn.savepoint():
                    await self._call(conn, event)
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                problem = handler_error(conn, error)
                if not conn.is_open:
                    # The effects of earlier events are gone with the transaction, so the cursor may not pass them.
                    return HandlerFailure(_whole(batch), problem)
                moved_to = batch.ends_before(event.position)
                claim = batch.claim_of(event)
                before, attempts = moved_to.get(claim.partition, claim.position), claim.attempts
                attempts = attempts if before == claim.position else 0
                return HandlerFailure([Claim(claim.partition, before, event.position, 1, attempts)], problem, moved_to)
        return None

    async def _call(self, conn: HandlerConnection, argument: LoggedEvent | Sequence[LoggedEvent]) -> None:
        if self.durations.recorder is None:
            await call_handlers([(self._handlers, argument)], conn)
            return
        with self.durations.record_call():
            await call_handlers([(self._handlers, argument)], conn)

    async def _commit(self, conn: HandlerConnection, batch: ClaimedBatch) -> HandlerFailure | None:
        """Moves the cursors and commits. A failure if the commit rejects what the handler wrote, for example by a deferred constraint."""
        try:
            await conn.commit(*self._advance(batch.ends()))
        except Exception as error:
            if is_transient(error):
                raise
            failure = HandlerFailure(_whole(batch), handler_error(conn, error))
            await conn.rollback()
            return failure
        await run_after_commit(conn)
        return None

    async def _commit_failure(self, conn: HandlerConnection, batch: ClaimedBatch, failure: HandlerFailure) -> HandlerFailure:
        """Records a failure in the transaction that holds the claims, so that no other worker repeats the events before it is recorded.
        If the transaction is gone, the failure has no outcome yet."""
        is_held = await conn.rollback_to_savepoint() if self._consumer.batch else conn.is_open
        if not is_held:
            await conn.rollback()
            return replace(failure, moved_to={})
        try:
            if failure.moved_to:
                await conn.execute(*self._advance(failure.moved_to))
            outcomes = [await conn.execute(_FAIL, self._fail_parameters(claim, failure.error)) for claim in failure.claims]
            await conn.commit()
        except Exception as error:
            if is_transient(error):
                raise
            # With effects of earlier events it may be those that the commit rejected; otherwise it fails because the handler did.
            problem = handler_error(conn, error) if failure.moved_to else failure.error
            await conn.rollback()
            return HandlerFailure(_whole(batch), problem)
        if failure.moved_to:
            await run_after_commit(conn)
        return replace(failure, outcome=outcomes[-1][0][0])

    def _advance(self, moved_to: Mapping[int, int]) -> tuple[LiteralString, tuple[Parameter, ...]]:
        if len(moved_to) == 1:
            [(partition, position)] = moved_to.items()
            return _ADVANCE, (self._consumer_id, partition, position)
        arrays = ("{" + ",".join(map(str, numbers)) + "}" for numbers in (moved_to.keys(), moved_to.values()))
        return _ADVANCE_PARTITIONS, (self._consumer_id, *arrays)

    def _count_handled(self, batch: ClaimedBatch, failure: HandlerFailure | None) -> None:
        moved_to = batch.ends() if failure is None else failure.moved_to
        if failure is None and not batch.held and not batch.is_cut:
            handled = {claim.partition: claim.events for claim in batch.claims}
        else:
            handled = dict(
                Counter(
                    batch.claim_of(event).partition
                    for event in (batch.events if moved_to else ())
                    if event.position <= moved_to.get(batch.claim_of(event).partition, 0)
                )
            )
        self.handled += sum(handled.values())
        self.handled_by_partition.update(handled)

    def _fail_parameters(self, claim: Claim, error: HandlerError) -> tuple[Parameter, ...]:
        place = (self._consumer_id, claim.partition, claim.position, claim.upto, claim.events)
        return (*place, error.summary, error.traceback, error.verdict, error.after_s)

    async def _fail(self, failure: HandlerFailure) -> str | None:
        """Records a failure whose transaction is gone, in one of its own."""
        outcome: str | None = None
        for claim in failure.claims:
            outcome = await fetch_value_async(self._pool, _FAIL, self._fail_parameters(claim, failure.error))
        return outcome

    async def _report(self, failure: HandlerFailure, outcome: str | None) -> None:
        self.failures += 1
        claim, error = failure.claims[-1], failure.error
        fields = self._log_fields(claim.upto, claim.attempts + 1, error)
        follows, message = _OUTCOMES.get(outcome, outcome), "%s failed at position %s: %s; %s"
        logger.warning(message, self.name, claim.upto, error.line, follows, exc_info=error.exc_info, extra=fields)

    def _log_fields(self, position: int, attempt: int | None, error: HandlerError) -> dict[str, object]:
        fields: dict[str, object] = {"topic": self._consumer.topic, "consumer": self._consumer.name, "position": position}
        return fields | {"attempt": attempt, "error": error.line}

    async def redrive_once(self) -> bool:
        """Handles one dead letter marked for redrive; returns False if there is none."""
        problem: HandlerError | None = None
        position = 0
        async with self._source.connect() as conn:
            rows = await conn.begin(_CLAIM_REDRIVE, (self._consumer_id,))
            if not rows:
                await conn.commit()
                return False
            [(letter_id,)] = rows
            try:
                raw = self._consumer.raw_payload
                # None for an event that waited behind another one of its key, and that the consumer's condition leaves out.
                for event in await conn.fetch_events(query("consume/read_dead_letter"), {"dead_letter_id": letter_id}, raw=raw):
                    position = event.position
                    await self._call(conn, [event] if self._consumer.batch else event)
                await conn.commit(_END_REDRIVE, (letter_id, None, None, False))
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                problem = handler_error(conn, error)
                await conn.rollback()
            else:
                await run_after_commit(conn)
        if problem is not None:
            await self._fail_redrive(letter_id, position, problem)
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


def _whole(batch: ClaimedBatch) -> list[Claim]:
    """The claims of a batch that failed as a whole: only if it was a single event, that one is to blame."""
    return [replace(claim, events=batch.size) for claim in batch.claims]
