"""The loops of a node that compile and run the correlators of one database.

Promises: a correlator runs within a second after it was written, however that was done; a batch of events, the instances of its
keys, its outputs, their actions and events, and the cursor are one transaction, so any number of nodes may run, and any may die. A
timer fires also when no event comes, and never before an event of an earlier time."""

from __future__ import annotations

import math
import time
from collections import Counter
from contextlib import nullcontext
from decimal import Decimal

from headrace.correlators.analysis_process import KnownAnswers
from headrace.correlators.batches import BatchResult, Stepper, WatchedCorrelator
from headrace.correlators.compiler import compile_correlator
from headrace.db import AsyncConnection, Pool, StopSignal, Subscription, query
from headrace.definitions import DefinitionEngine

AT_ONCE = 2
"""Correlators that one node runs concurrently."""
TIMER_S = 3600.0
"""Longest wait for a timer: a loop's clock cannot count for years."""


class CorrelatorEngine(DefinitionEngine[WatchedCorrelator]):
    """Compiles correlators and runs each one in its own loop until `stop` is set."""

    noun = "correlator"
    consumer_type = WatchedCorrelator
    watched_query = "correlators/watched_correlators"
    pending_query = "correlators/pending_correlators"

    def __init__(self, pool: Pool, written: Subscription, appended: Subscription, stop: StopSignal) -> None:
        super().__init__(pool, written, appended, stop, at_once=AT_ONCE)
        self._stepper = Stepper()
        self._known_answers: dict[int, KnownAnswers] = {}
        """By the correlator that is being compiled."""
        self.outputs = 0
        """How many tokens were pushed here."""
        self.outputs_by_correlator: Counter[tuple[str, str]] = Counter()
        """By namespace and correlator."""

    async def compile_pending(self, conn: AsyncConnection, pending_id: int, *, lock_ms: int) -> int:
        known = self._known_answers.setdefault(pending_id, KnownAnswers())
        versions = await compile_correlator(conn, correlator_id=pending_id, known=known, lock_ms=lock_ms)
        del self._known_answers[pending_id]
        return versions

    async def show_status(self, *, after_compiling: bool) -> None:
        async with self._pool.connection() as conn:
            await conn.execute("select headrace_internal.show_status('correlator')")

    async def turn(self, watched: WatchedCorrelator) -> float:
        """One batch, or else the due timers; returns how many seconds the loop may wait."""
        batch = await self.step_once(watched)
        # Whatever is appended after this read notifies.
        if (batch and batch.has_more) or await self.tick_once(watched):
            return 0
        return await self._wait_s(watched)

    async def step_once(self, watched: WatchedCorrelator, *, limit: int | None = None) -> BatchResult | None:
        """One batch of events; None when nothing is due here."""
        done: BatchResult | None = None
        started = 0.0
        async with (
            self._pool.connection() as conn,
            self._record_failures(conn, watched),
            # A simple table is stepped by one statement.
            nullcontext() if watched.simple else conn.transaction(),
        ):
            started = time.monotonic()
            done = await self._stepper.step(conn, watched, limit or watched.batch)
        if done:
            self.take_batch(watched, done, time.monotonic() - started)
        return done

    def pass_number(self, consumer: WatchedCorrelator) -> int | None:
        return consumer.correlator_id if consumer.simple else None

    def count_batch(self, consumer: WatchedCorrelator, events: int, outputs: int) -> None:
        self.events += events
        self.outputs += outputs
        self.outputs_by_correlator[consumer.namespace, consumer.correlator] += outputs

    async def tick_once(self, watched: WatchedCorrelator) -> int:
        """Fires the timers that are due without an event; returns of how many keys."""
        if watched.simple:
            return 0
        async with self._pool.connection() as conn, self._record_failures(conn, watched):
            due_s, _ = await self._next_due(conn, watched)
            if due_s is None or due_s > 0:
                return 0
            # Use a transaction of its own: the sequencer must not wait for the firing.
            settled = await (await conn.execute("select headrace_internal.settle_time(%s)", (watched.topic_id,))).fetchone()
            if settled is None or settled[0] is None:
                return 0
            async with conn.transaction():
                fired = await self._stepper.fire(conn, watched, settled[0])
            self.outputs += fired.outputs
            self.outputs_by_correlator[watched.namespace, watched.correlator] += fired.outputs
            return fired.events
        return 0

    async def _wait_s(self, watched: WatchedCorrelator) -> float:
        """Until the next timer is due; infinity if there is none."""
        if watched.simple:
            return math.inf
        async with self._pool.connection() as conn:
            due_s, by_server = await self._next_due(conn, watched)
        return math.inf if due_s is None or not by_server else min(max(float(due_s), 0.02), TIMER_S)

    async def _next_due(self, conn: AsyncConnection, watched: WatchedCorrelator) -> tuple[Decimal | None, bool]:
        """In how many seconds of the topic's time its next timer is due, and whether that time passes without events."""
        row = await (await conn.execute(query("correlators/next_due_s"), {"correlator_id": watched.correlator_id})).fetchone()
        return row or (None, False)
