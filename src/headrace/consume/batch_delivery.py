"""Batch delivery: hands the events of one claim, as headrace.claim_events returns it, to the handler and ends the transaction that holds them.

Owns: that transaction, from the first event to its commit. Promises: what the handler has finished commits together with the cursors; its
failure is recorded in the same transaction; whatever else breaks the batch off leaves no claim that looks lost, unless the connection is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, starmap
from operator import attrgetter
from typing import Any, LiteralString

from headrace.consume.appended import AppendedRun, RowSlice
from headrace.consume.consumer import Consumer
from headrace.consume.handler_calls import (
    HandlerError,
    HandlerGroup,
    call_handlers,
    handler_error,
    is_session_ended,
    run_after_commit,
)
from headrace.core import ERASED_HEADER, DurationHistogram, LoggedEvent, RawJSON, decode
from headrace.db import Parameter, is_transient
from headrace.drivers import EventRows, HandlerConnection

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Claim:
    """The events of one partition after `position` up to `upto`, held by this transaction."""

    partition: int
    """-1: the cursor over the whole topic."""
    position: int
    upto: int
    events: int
    attempts: int = 0
    """How often the first of them has failed."""
    end: int | None = None
    """Where the cursor goes when they are handled, if that is behind `upto`: the events between do not match the condition."""


class ClaimedBatch:
    """Claimed partitions with their events. The claims can be read even if an event cannot be."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self._slices: list[Sequence[RowSlice]] = []
        """The rows of the events of each claim."""
        self.is_partial = False
        """More events may be due than were claimed."""
        self.is_held = False
        """Events are due, but other workers hold their partitions."""
        self.has_suspect = False
        """An event that may have killed its process was left out: it is to be handled alone."""
        self._cut_at: int | None = None
        self.interruption: Exception | None = None
        """An error that is not the handler's, and that cut the batch; to be raised when what is before it is committed."""
        self.held: Set[int] = frozenset()
        """Positions of events that are dead letters or wait behind one of their key."""

    @classmethod
    def from_log(cls, rows: EventRows) -> ClaimedBatch:
        """All that one call of headrace.claim_events returned."""
        batch = cls()
        held: list[int] = []
        end = len(rows)
        while end > 0:
            # The row of a claim comes behind its events.
            last = end - 1
            [(position, partition, _, _, _, _, payload, *_)] = rows.load(last, end)
            details: Any = decode(bytes(payload)) if isinstance(payload, RawJSON) else payload
            end = last - details["events"]
            batch.is_partial |= details["partial"]
            if end == last:
                batch.is_held |= details.get("locked", False)
                batch.has_suspect |= details.get("alone", False)
                continue
            upto, attempts = rows.position(last - 1), details["attempts"]
            batch.claims.append(Claim(partition, position, upto, details["events"], attempts, details.get("upto")))
            batch._slices.append((RowSlice(rows, end, last),))
            held += details["held"] or []
        batch.held = frozenset(held)
        return batch

    @classmethod
    def from_appended(cls, rows: EventRows, runs: Sequence[AppendedRun], *, raw: bool) -> ClaimedBatch:
        """The events that this node has in hand, of those cursors that headrace.claim_at has claimed."""
        batch = cls()
        claimed = {rows.partition(index) for index in range(len(rows))}
        for run in runs:
            if run.partition in claimed:
                batch.claims.append(Claim(run.partition, run.position, run.upto, len(run.events)))
                batch._slices.append(tuple(run.slices(raw=raw)))
        batch.is_partial = len(claimed) < len(runs)
        return batch

    def cut_before(self, position: int, interruption: Exception | None = None) -> None:
        """Leaves the events from this position on for another batch."""
        self._cut_at = position
        self.interruption = interruption
        self.is_partial = True

    @property
    def is_cut(self) -> bool:
        return self._cut_at is not None

    @property
    def size(self) -> int:
        """How many events were claimed."""
        return sum(claim.events for claim in self.claims)

    @cached_property
    def events(self) -> Sequence[LoggedEvent]:
        """The events to handle, by position, without erased ones; raises what decoding them raises."""
        events: list[LoggedEvent] = []
        for part in chain.from_iterable(self._slices):
            events += starmap(LoggedEvent, part.rows.load(part.start, part.end))
        if len(self._slices) > 1:
            events.sort(key=attrgetter("position"))
        # Nothing is left of an erased event that a handler could work on.
        events = [event for event in events if not _is_erased(event.headers)]
        return [event for event in events if event.position not in self.held] if self.held else events

    def ends(self) -> dict[int, int]:
        """Where the cursor of each partition goes if all events are handled."""
        if self._cut_at is not None:
            return self.ends_before(self._cut_at)
        return {claim.partition: claim.end or claim.upto for claim in self.claims}

    def ends_before(self, position: int) -> dict[int, int]:
        """Where the cursors go if only the events before a position are handled; only those that move."""
        ends: dict[int, int] = {}
        for claim, parts in zip(self.claims, self._slices, strict=True):
            positions = (part.rows.position(index) for part in parts for index in range(part.start, part.end))
            passed = [each for each in positions if each < position]
            if passed:
                ends[claim.partition] = passed[-1]
        return ends

    def claim_of(self, event: LoggedEvent) -> Claim:
        """The claim that an event belongs to."""
        return next(claim for claim in self.claims if claim.partition in (event.partition, -1))


_ERASED = f'"{ERASED_HEADER}"'.encode()


def _is_erased(headers: Mapping[str, object] | RawJSON) -> bool:
    return _ERASED in bytes(headers) if isinstance(headers, RawJSON) else ERASED_HEADER in headers


SINGLES_S = 1.0
"""After this time no further event of a batch of single events is handled in its transaction."""

_ADVANCE: LiteralString = "select headrace.advance(%s, %s, %s)"
_ADVANCE_PARTITIONS: LiteralString = "select headrace.advance_partitions(%s, %s::integer[], %s::bigint[])"
FAIL: LiteralString = "select headrace.fail(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s::integer)"


@dataclass(frozen=True)
class HandlerFailure:
    """The handler raised on these events; those of the claims before them are done."""

    claims: Sequence[Claim]
    error: HandlerError
    moved_to: Mapping[int, int] = field(default_factory=dict)
    """Where the cursors go: behind the events that are done."""
    outcome: str | None = None
    """What headrace.fail said follows; None: it was not called yet."""


class BatchDelivery:
    """Delivers batches of one consumer, one after the other or at the same time, each on a connection of its own."""

    def __init__(self, consumer: Consumer, durations: DurationHistogram, stop: asyncio.Event) -> None:
        self._consumer = consumer
        self.consumer_id = 0
        """Set when the consumer is registered."""
        self.handlers = HandlerGroup(
            handlers=(consumer.handler,), session=consumer.session, destination=consumer.topic, consumer=consumer.name
        )
        self._durations = durations
        self._stop = stop
        self.handler_s = float("inf")
        """How long the handler took for the last batch."""

    async def handle(self, conn: HandlerConnection, batch: ClaimedBatch) -> HandlerFailure | None:
        """Calls the handler and commits what is done. Raises what is no fault of the handler's, after it has ended the transaction."""
        called = time.monotonic()
        try:
            failure = await self._deliver(conn, batch)
            self.handler_s = time.monotonic() - called
            self._durations.count_calls(self.handler_s, 1 if self._consumer.batch else batch.size)
            if failure is None:
                return await self._commit(conn, batch, is_overdue=self._is_overdue(called))
            return await self._commit_failure(conn, batch, failure)
        except Exception:
            await give_back(conn)
            raise

    async def _deliver(self, conn: HandlerConnection, batch: ClaimedBatch) -> HandlerFailure | None:
        try:
            events = batch.events
        except Exception as error:
            if is_transient(error):
                raise
            # An event that cannot be read, for example with a time after the year 9999, must not stop other partitions.
            return HandlerFailure(_whole(batch), handler_error(conn, error))
        if not self._consumer.batch:
            return await self._deliver_singly(conn, batch, events)
        called = time.monotonic()
        try:
            if events:
                await self.call(conn, events)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            return HandlerFailure(_whole(batch), handler_error(conn, error, is_overdue=self._is_overdue(called)))
        return None

    async def _deliver_singly(
        self, conn: HandlerConnection, batch: ClaimedBatch, events: Sequence[LoggedEvent]
    ) -> HandlerFailure | None:
        started = time.monotonic()
        for number, event in enumerate(events):
            called = time.monotonic()
            if number and (self._stop.is_set() or called - started > SINGLES_S):
                # What is done is committed now: a node that stops throws nothing away, and nobody waits long for a commit.
                batch.cut_before(event.position)
                return None
            try:
                async with conn.savepoint():
                    await self.call(conn, event)
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                try:
                    problem = handler_error(conn, error, is_overdue=self._is_overdue(called))
                except Exception as interruption:
                    if not conn.is_open:
                        raise
                    batch.cut_before(event.position, interruption)
                    return None
                if not conn.is_open:
                    # The effects of earlier events are gone with the transaction, so the cursor may not pass them.
                    return HandlerFailure(_whole(batch), problem)
                return _failure_at(batch, event, problem)
        return None

    def _is_overdue(self, called: float) -> bool:
        return time.monotonic() - called >= self._consumer.session_limit_s

    async def call(self, conn: HandlerConnection, argument: LoggedEvent | Sequence[LoggedEvent]) -> None:
        """Calls the handler with an event or a batch of events."""
        if self._durations.recorder is None:
            await call_handlers([(self.handlers, argument)], conn)
            return
        with self._durations.record_call():
            await call_handlers([(self.handlers, argument)], conn)

    async def _commit(self, conn: HandlerConnection, batch: ClaimedBatch, *, is_overdue: bool) -> HandlerFailure | None:
        """Moves the cursors and commits. A failure if the commit rejects what the handler wrote, for example by a deferred constraint,
        or if the server has ended the session because the handler took too long."""
        ends = batch.ends()
        try:
            await (conn.commit(*self._advance(ends)) if ends else conn.commit())
        except Exception as error:
            if is_transient(error) and not is_session_ended(conn, error, is_overdue=is_overdue):
                raise
            failure = HandlerFailure(_whole(batch), handler_error(conn, error, is_overdue=is_overdue))
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
            outcomes = [
                await conn.execute(FAIL, fail_parameters(self.consumer_id, claim, failure.error)) for claim in failure.claims
            ]
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
            return _ADVANCE, (self.consumer_id, partition, position)
        arrays = ("{" + ",".join(map(str, numbers)) + "}" for numbers in (moved_to.keys(), moved_to.values()))
        return _ADVANCE_PARTITIONS, (self.consumer_id, *arrays)


async def give_back(conn: HandlerConnection) -> bool:
    """Undoes what happened since the savepoint of a claim, and commits: a claim that ends so does not look lost. False if there is no
    savepoint, or no transaction any more; then it is rolled back."""
    try:
        if not await conn.rollback_to_savepoint():
            return False
        await conn.commit()
    except Exception as error:  # noqa: BLE001 - the error that led here counts
        logger.debug("a claim could not be given back: %s", error)
        return False
    return True


def fail_parameters(consumer_id: int, claim: Claim, error: HandlerError, *, attempts: int | None = None) -> tuple[Parameter, ...]:
    """The parameters of FAIL. `attempts`, those at the claim, if its transaction is gone."""
    place = (consumer_id, claim.partition, claim.position, claim.upto, claim.events)
    return (*place, error.summary, error.traceback, error.verdict, error.after_s, attempts)


def _failure_at(batch: ClaimedBatch, event: LoggedEvent, problem: HandlerError) -> HandlerFailure:
    moved_to = batch.ends_before(event.position)
    claim = batch.claim_of(event)
    before = moved_to.get(claim.partition, claim.position)
    attempts = claim.attempts if before == claim.position else 0
    return HandlerFailure([Claim(claim.partition, before, event.position, 1, attempts)], problem, moved_to)


def _whole(batch: ClaimedBatch) -> list[Claim]:
    """The claims of a batch that failed as a whole: only if it was a single event, that one is to blame."""
    return [replace(claim, events=batch.size) for claim in batch.claims]
