"""Runner: delivers the events of a topic to a consumer's handler.

Owns: one consumer on one node. Promises: events of a partition reach the handler in order, one batch at a time; the cursor
moves in the handler's transaction, so effects made through it happen exactly once; a dead process holds nothing."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import LiteralString

import psycopg.errors

from headrace.consume.appended import AppendedQueue, AppendedRun
from headrace.consume.batch_delivery import FAIL, BatchDelivery, ClaimedBatch, HandlerFailure, fail_parameters, give_back
from headrace.consume.conditions import compile_if_allowed
from headrace.consume.consumer import SINGLE_MAX, Consumer, register_consumer
from headrace.consume.due_poll import DuePoll
from headrace.consume.handler_calls import HandlerError, handler_error, handler_gate, run_after_commit
from headrace.core import DurationHistogram
from headrace.db import (
    Loop,
    Pace,
    Parameter,
    Pool,
    StopSignal,
    Subscription,
    Unit,
    fetch_value_async,
    query,
)
from headrace.drivers import SAVEPOINT, HandlerConnection, Sources, TransactionSource
from headrace.log.topics import AppendedEvents

logger = logging.getLogger(__name__)

PAUSE_MAX_S = 0.05
"""The longest pause of a worker after a batch that was not full."""
REDRIVE_POLL_S = 0.1
"""Shortest time between two checks for dead letters to redrive."""
TOPIC_CHECK_S = 5.0
"""How often an idle consumer without a due poll checks that its topic was not dropped and created again."""
IDLE_S = 1.0
"""Longest wait without a notification: of a consumer without a due poll, and while other workers hold what is due."""


_RELEASE_CLAIMS = "select headrace.release_claims(%s, %s::integer[], %s::bigint[])"
_FORGET_LOST = """select headrace.release_claims(%s, array_agg(partition), array_agg(position)) from headrace.cursor where consumer_id = %s"""
_CLAIM_REDRIVE: LiteralString = "select dead_letter_id, partition, position from headrace.claim_redrive(%s)"
_END_REDRIVE: LiteralString = "select headrace.end_redrive(%s, %s, %s, %s)"


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
    has_suspect: bool = False
    """An event is due that is to be handled alone."""
    is_whole: bool = False
    """All that was asked for was claimed and handled."""


_IN_HAND = frozenset({"in hand"})
"""What a worker is woken for by events that the sequencer has handed over."""


class ConsumerRunner:
    """Runs one consumer on one database until `stop` is set, with `concurrency` workers."""

    _claim_statement: LiteralString = query("consume/claim_events")
    _claim_at_statement: LiteralString = query("consume/claim_at")

    def __init__(
        self,
        consumer: Consumer,
        pool: Pool,
        subscription: Subscription,
        stop: StopSignal,
        *,
        sources: Sources | None = None,
        due: DuePoll | None = None,
    ) -> None:
        """`due` wakes the runner when something becomes due that nobody notifies of; without it the runner polls by itself."""
        self._consumer = consumer
        self._pool = pool
        self._sources = sources or Sources(pool)
        self._subscription = subscription
        self._stop = stop
        self._topic_id = 0
        self._max = consumer.batch.max if consumer.batch else consumer.batch_size or SINGLE_MAX
        self._pace = Pace(pause_max_s=PAUSE_MAX_S)
        self._appended = AppendedQueue(is_by_topic=consumer.ordered_by == "topic")
        self._is_caught_up = False
        """A claim has found nothing, so the next events are those that the sequencer appends."""
        self._must_claim = True
        """There may be events that only a claim finds."""
        self._wakes = 0
        """How often a notification of events that are not in hand has woken a worker."""
        self.handled = 0
        """How many events this runner has handled."""
        self.handled_by_partition: Counter[int] = Counter()
        """How many events of each partition; -1 for the cursor over the whole topic."""
        self.durations = DurationHistogram()
        self.failures = 0
        self._delivery = BatchDelivery(consumer, self.durations, stop)
        self._broken_off: list[tuple[int, int | None]] = []
        """Partitions whose claim was broken off without a failure of the handler, with their position: not lost, and not recorded."""
        self._redrive_checked_at = 0.0
        self._redrives = self._loop("dead letters")
        self._topic = (consumer.topic, consumer.namespace)
        self._topic_checks = self._loop("topic")
        self._topic_checked_at = time.monotonic()
        self._is_polled = due is not None
        self._must_check_topic = False
        self._woken_at = time.monotonic()
        if due is not None:
            due.add(self)

    @property
    def _source(self) -> TransactionSource:
        return self._sources.source(self._delivery.handlers.source)

    def _loop(self, kind: str, step: Callable[[], Awaitable[float]] | None = None) -> Loop:
        unit = Unit(f"consumer {kind}", self._consumer.namespace, f"{self._consumer.topic}/{self._consumer.name}")
        return Loop(f"{self.name}: {kind}", self._stop, step=step, wake_up=self._subscription, pool=self._pool, unit=unit)

    @property
    def consumer(self) -> Consumer:
        return self._consumer

    @property
    def topic_id(self) -> int:
        return self._topic_id

    @property
    def consumer_id(self) -> int:
        return self._delivery.consumer_id

    def wake(self) -> None:
        """Lets one worker look for events, retries and dead letters to redrive."""
        self._subscription.notify()

    @property
    def takes_appended(self) -> bool:
        """True while the events that the sequencer of this node appends are what it handles next."""
        consumer = self._consumer
        return self._is_caught_up and consumer.where is None and (consumer.batch is None or consumer.batch.min == 1)

    def take_appended(self, appended: AppendedEvents) -> Subscription | None:
        """Takes the events of a step; None if they have to be claimed."""
        if not self.takes_appended:
            return None
        if not self._appended.add(appended):
            self._is_caught_up = False
            return None
        self._subscription.notify(_IN_HAND)
        return self._subscription

    def check_topic_soon(self) -> None:
        """Lets a worker register with the topic, if it was dropped and created again."""
        self._must_check_topic = True
        self._subscription.notify()

    @property
    def name(self) -> str:
        return f"consumer {self._consumer.topic}/{self._consumer.name}"

    async def run(self) -> None:
        if not self.consumer_id:
            await self._loop("registration").retry(self.register)
        workers = 1 if self._consumer.ordered_by == "topic" else self._consumer.concurrency
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._create_worker().run())

    def _create_worker(self) -> Loop:
        loop = self._loop("events", lambda: self._work(loop))
        return loop

    async def register(self) -> None:
        """Registers the consumer with the database."""
        consumer_id = await register_consumer(self._pool, self._consumer)
        topic_id = await fetch_value_async(self._pool, "select headrace.topic_id(%s, %s)", self._topic)
        # What is in hand is of the old topic, where this one was created again, and may stand where a cursor of the new one does.
        self._appended.clear()
        self._is_caught_up, self._must_claim = False, True
        self._delivery.consumer_id, self._topic_id = consumer_id, topic_id
        self._subscription.filter = str(topic_id)
        await self._compile_condition()

    async def _compile_condition(self) -> None:
        if self._consumer.where is not None:
            await compile_if_allowed(self._pool, self.consumer_id, self._consumer.where)

    async def _work(self, loop: Loop) -> float:
        """The step of a worker; returns for how many seconds it may rest."""
        if loop.is_notified:
            self._woken_at = time.monotonic()
            # Without any name: another worker has taken the names, and does what they say.
            names = self._subscription.take_names()
            is_for_claim = names is None or not names <= _IN_HAND
            self._wakes += is_for_claim
            self._must_claim |= is_for_claim
        else:
            self._must_claim = True
        if not self._must_claim and not self._appended.is_ready:
            # Another worker has taken what was in hand.
            return self._idle_s()
        wakes = self._wakes
        try:
            batch = await self._handle_or_check(is_notified=loop.is_notified)
        except BaseException:
            # Whatever it had in hand, or would have claimed.
            self._must_claim = True
            raise
        if batch.size and batch.size < self._max:
            await asyncio.sleep(batch.pause_s)
        # A worker that was woken meanwhile may have found these partitions held by this one.
        if batch.may_have_more or (batch.size and wakes != self._wakes) or (not batch.size and await self._redrive()):
            return 0
        if self._appended.is_ready:
            self._subscription.notify(_IN_HAND)
        is_time = not self._is_polled and time.monotonic() - self._topic_checked_at > TOPIC_CHECK_S
        if is_time or self._must_check_topic:
            self._topic_checked_at, self._must_check_topic = time.monotonic(), False
            await self._topic_checks.attempt(self._check_topic)
        return IDLE_S if batch.is_held else self._idle_s()

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

    def _idle_s(self) -> float:
        """How long a worker may wait for a notification."""
        batch = self._consumer.batch
        if batch and batch.min > 1 and (not self._is_polled or time.monotonic() - self._woken_at < batch.wait_s + IDLE_S):
            # Too few events may wait, and are due when the oldest of them has waited long enough.
            return min(IDLE_S, max(batch.wait_s / 2, 0.01))
        return math.inf if self._is_polled else IDLE_S

    async def handle_once(self) -> int:
        """Handles one batch if one is due; returns its number of events."""
        batch = await self.handle_batch()
        while not batch.size and batch.may_have_more:
            batch = await self.handle_batch()
        return batch.size

    async def handle_batch(self, *, is_notified: bool = False) -> HandledBatch:
        """Handles one batch if one is due. After a notification that was for more events it wakes another worker too."""
        await self.release()
        try:
            async with handler_gate().shared():
                batch = await self._handle_batch(is_notified=is_notified)
            if batch.has_suspect:
                async with handler_gate().alone():
                    suspect = await self._handle_batch(is_notified=is_notified, is_alone=True)
                return batch if batch.size else suspect
            return batch
        except Exception:
            # At once, before another worker takes the claim for lost; and again before the next one, if that is not possible now.
            with suppress(Exception):
                await self.release()
            raise

    async def _handle_batch(self, *, is_notified: bool, is_alone: bool = False) -> HandledBatch:
        # First what only a claim finds: events may come to hand without end.
        runs = [] if is_alone or self._must_claim else self._appended.take(self._max, self._partitions_max())
        if not runs:
            return await self._handle_claimed([], is_notified=is_notified, is_alone=is_alone)
        if self._appended.is_ready:
            self._subscription.notify(_IN_HAND)  # Another worker can take another partition.
        partitions = [run.partition for run in runs]
        is_handled = False
        try:
            batch = await self._handle_claimed(runs, is_notified=is_notified, is_alone=False)
            is_handled = batch.is_whole
        finally:
            self._appended.release(partitions, is_handled=is_handled)
            if not is_handled:
                self._is_caught_up, self._must_claim = False, True
        return batch

    async def _handle_claimed(self, runs: Sequence[AppendedRun], *, is_notified: bool, is_alone: bool) -> HandledBatch:
        """Handles the events that are in hand, or else those that a claim finds."""
        started = time.monotonic()
        delivery, consumer_id = self._delivery, self.consumer_id
        async with self._source.connect() as conn:
            batch = await (self._claim_at(conn, consumer_id, runs) if runs else self._claim(conn, is_alone=is_alone))
            claim_s = time.monotonic() - started
            if not batch.size:
                # Nothing is due, events that do not match were passed, or other workers hold what is due.
                await conn.commit()
                is_held, has_suspect = batch.is_held, batch.has_suspect
                self._is_caught_up = not (runs or is_alone or batch.is_partial or is_held or has_suspect)
                return HandledBatch(0, 0.0, may_have_more=batch.is_partial, is_held=is_held, has_suspect=has_suspect)
            if (is_notified and batch.is_partial) or (batch.size >= self._max and not runs):
                self._subscription.notify()  # There may be more: another worker can claim another partition.
            try:
                failure = await delivery.handle(conn, batch)
            except BaseException as error:
                # A worker that is cancelled while its node goes on: an event did it, as one that kills its process.
                if isinstance(error, Exception) or self._stop.is_set():
                    self._broken_off += [(claim.partition, claim.position) for claim in batch.claims]
                raise
        self._count_handled(batch, failure)
        if failure:
            await self._report(failure, failure.outcome or await self._fail(failure))
        if batch.interruption is not None:
            raise batch.interruption
        elapsed_s = time.monotonic() - started
        # Advance and commit cost about as much CPU as the claim. What they take longer is waiting for the disk.
        commit_s = min(elapsed_s - claim_s - delivery.handler_s, claim_s)
        pause_s = self._pace.pause_s(claim_s + commit_s, events=batch.size, elapsed_s=elapsed_s)
        may_have_more = batch.is_partial or failure is not None
        # What a claim left behind wakes a worker, and so does what was appended meanwhile.
        self._is_caught_up = self._is_caught_up if runs else not (may_have_more or is_alone or batch.has_suspect)
        return HandledBatch(
            batch.size, pause_s, may_have_more=may_have_more, has_suspect=batch.has_suspect, is_whole=not may_have_more
        )

    async def _claim(self, conn: HandlerConnection, *, is_alone: bool) -> ClaimedBatch:
        # Alone it looks only for some events.
        self._must_claim &= is_alone
        parameters, raw, is_batch = (
            self._claim_parameters(is_alone=is_alone),
            self._consumer.raw_payload,
            bool(self._consumer.batch),
        )
        batch = ClaimedBatch.from_log(await conn.begin_events(self._claim_statement, parameters, raw=raw, savepoint=is_batch))
        self._is_caught_up = False
        return batch

    async def _claim_at(self, conn: HandlerConnection, consumer_id: int, runs: Sequence[AppendedRun]) -> ClaimedBatch:
        """Claims the cursors of events that are in hand, where these are still what comes next. `consumer_id`: who took them, which is
        another one if the topic is created again meanwhile."""
        partitions, positions = (
            "{" + ",".join(map(str, numbers)) + "}"
            for numbers in ([run.partition for run in runs], [run.position for run in runs])
        )
        parameters = (consumer_id, partitions, positions, runs[0].erasures, runs[0].server)
        raw, is_batch = self._consumer.raw_payload, bool(self._consumer.batch)
        rows = await conn.begin_events(self._claim_at_statement, parameters, raw=raw, savepoint=is_batch)
        return ClaimedBatch.from_appended(rows, runs, raw=raw)

    async def forget_lost_claims(self) -> None:
        """For the test kit, which rolls back what it claims: the next test must not take that for a lost session."""
        await fetch_value_async(self._pool, _FORGET_LOST, (self.consumer_id, self.consumer_id))

    async def release(self) -> None:
        """Says of claims that were broken off that no event did it. Otherwise the next claim takes their sessions for lost."""
        if not self._broken_off:
            return
        claims, self._broken_off = self._broken_off, []
        partitions, positions = zip(*claims, strict=True)
        try:
            await fetch_value_async(self._pool, _RELEASE_CLAIMS, (self.consumer_id, list(partitions), list(positions)))
        except BaseException:
            self._broken_off += claims
            raise

    def _claim_parameters(self, *, is_alone: bool) -> tuple[Parameter, ...]:
        batch = self._consumer.batch
        wait = (batch.min, batch.wait_s) if batch else (1, 0)
        return (self.consumer_id, self._max, *wait, self._partitions_max(), is_alone)

    def _partitions_max(self) -> int:
        """Several partitions at once block each other's events, so only while that costs less time than a claim for each."""
        return self._consumer.partitions_max if self._delivery.handler_s <= self._pace.cost_s else 1

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

    async def _fail(self, failure: HandlerFailure) -> str | None:
        """Records a failure whose transaction is gone, in one of its own."""
        outcome: str | None = None
        for claim in failure.claims:
            parameters = fail_parameters(self.consumer_id, claim, failure.error, attempts=claim.attempts)
            outcome = await fetch_value_async(self._pool, FAIL, parameters)
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
        await self.release()
        async with handler_gate().shared(), self._source.connect() as conn:
            rows = await conn.begin(_CLAIM_REDRIVE, (self.consumer_id,))
            if not rows:
                await conn.commit()
                return False
            [(letter_id, partition, position)] = rows
            await conn.execute(SAVEPOINT)
            called = time.monotonic()
            try:
                raw = self._consumer.raw_payload
                # None for an event that waited behind another one of its key, and that the consumer's condition leaves out.
                for event in await conn.fetch_events(query("consume/redriven_event"), {"dead_letter_id": letter_id}, raw=raw):
                    await self._delivery.call(conn, [event] if self._consumer.batch else event)
                await conn.commit(_END_REDRIVE, (letter_id, None, None, False))
                await run_after_commit(conn)
                return True
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                is_overdue = time.monotonic() - called >= self._consumer.session_limit_s
                problem = await self._undo_redrive(conn, error, letter_id, partition, is_overdue=is_overdue)
            except BaseException:
                if self._stop.is_set():
                    self._broken_off.append((partition, None))
                raise
        self._report_redrive(position, problem)
        return True

    async def _undo_redrive(
        self, conn: HandlerConnection, error: Exception, letter_id: int, partition: int, *, is_overdue: bool
    ) -> HandlerError:
        """Records that a redrive has failed, in its own transaction if that is still there; raises what is no fault of the handler's."""
        try:
            problem = handler_error(conn, error, is_overdue=is_overdue)
        except Exception:
            if not await give_back(conn):
                self._broken_off.append((partition, None))
            raise
        outcome = (letter_id, problem.summary, problem.traceback, problem.verdict == "discard")
        if await conn.rollback_to_savepoint():
            await conn.commit(_END_REDRIVE, outcome)
        else:
            await conn.rollback()
            self._broken_off.append((partition, None))
            await fetch_value_async(self._pool, _END_REDRIVE, outcome)
        return problem

    def _report_redrive(self, position: int, error: HandlerError) -> None:
        follows = _OUTCOMES["discarded" if error.verdict == "discard" else "dead_letter"]
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
