"""The loops of a node that compile and run the correlators of one database.

Promises: a correlator runs within a second after it was written, however that was done; a batch of events, the instances of its
keys, its outputs, their actions and events, and the cursor are one transaction, so any number of nodes may run, and any may die. A
timer fires also when no event comes, and never before an event of an earlier time."""

from __future__ import annotations

import asyncio

from psycopg.rows import class_row

from headrace.correlators.batches import BatchResult, Stepper, WatchedCorrelator
from headrace.correlators.compiler import compile_correlator, pending_correlators
from headrace.db import Pool, Subscription, query
from headrace.definitions import IDLE_S, DefinitionLoops, Failures

AT_ONCE = 2
"""Correlators that one node runs concurrently."""


class CorrelatorEngine:
    """Compiles correlators and runs each one in its own loop until `stop` is set."""

    noun = "correlator"

    def __init__(self, pool: Pool, bell: Subscription, log_bell: Subscription, stop: asyncio.Event) -> None:
        self._pool = pool
        self._watch: DefinitionLoops[WatchedCorrelator] = DefinitionLoops(self, bell, log_bell, stop)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._stepper = Stepper()
        self._failures = Failures()
        self.events = 0
        """How many events these correlators have processed."""
        self.outputs = 0

    @property
    def failures(self) -> int:
        return self._failures.count

    async def run(self) -> None:
        await self._watch.run()

    async def watched(self) -> list[WatchedCorrelator]:
        """The correlators with an active version."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(WatchedCorrelator)) as cursor:
            return await (await cursor.execute(query("correlators/watched_correlators"))).fetchall()

    async def compile_once(self) -> int:
        """Compiles the pending versions, and returns how many there were."""
        async with self._pool.connection() as conn:
            compiled = sum([await compile_correlator(conn, correlator_id) for correlator_id in await pending_correlators(conn)])
            await conn.execute("select headrace_internal.show_correlator_status()")
        return compiled

    async def turn(self, watched: WatchedCorrelator) -> float:
        """One batch, or else the due timers; returns how many seconds the loop may wait."""
        async with self._turns:
            if await self.step_once(watched) or await self.tick_once(watched):
                return 0
            return await self._wait_s(watched)

    async def step_once(self, watched: WatchedCorrelator, *, most: int | None = None) -> BatchResult | None:
        """One batch of events; None when nothing is due here."""
        done: BatchResult | None = None
        async with self._pool.connection() as conn, self._failures.recorded(conn, watched), conn.transaction():
            done = await self._stepper.step(conn, watched, most or watched.batch)
        if done:
            self.events += done.events
            self.outputs += done.outputs
        return done

    async def tick_once(self, watched: WatchedCorrelator) -> int:
        """Fires the timers that are due without an event; returns of how many keys."""
        if watched.simple:
            return 0
        async with self._pool.connection() as conn, self._failures.recorded(conn, watched):
            parameters = {"correlator_id": watched.correlator_id}
            if await (await conn.execute(query("correlators/any_due"), parameters)).fetchone() is None:
                return 0
            # In a transaction of its own: the sequencer must not wait for the firing.
            settled = await (await conn.execute("select headrace_internal.settle_time(%s)", (watched.topic_id,))).fetchone()
            if settled is None or settled[0] is None:
                return 0
            async with conn.transaction():
                fired = await self._stepper.fire(conn, watched, settled[0])
            self.outputs += fired.outputs
            return fired.events
        return 0

    async def _wait_s(self, watched: WatchedCorrelator) -> float:
        """Until the next timer is due, at most IDLE_S."""
        if watched.simple:
            return IDLE_S
        async with self._pool.connection() as conn:
            row = await (await conn.execute(query("correlators/next_due_s"), {"correlator_id": watched.correlator_id})).fetchone()
        return IDLE_S if row is None or row[0] is None else min(max(float(row[0]), 0.02), IDLE_S)
