"""Correlators at work: the loops of a node that compile and run them on one database.

Owns: one node's share of it. Promises: a correlator written by whatever means runs within a second; a batch of events, the
instances of its keys, its outputs, what these become and the cursor are one transaction, so any number of nodes may run, and any
may die. A timer fires also when no event comes, and never before an event of an earlier time."""

from __future__ import annotations

import asyncio

from psycopg.rows import class_row

from headrace.correlators.batches import Correlated, Stepper, WatchedCorrelator
from headrace.correlators.compiler import compile_correlator, pending_correlators
from headrace.db import Pool, Subscription, query
from headrace.definitions import IDLE_S, Failures, Watch

AT_ONCE = 2
"""Correlators that one node works on side by side."""


class CorrelatorEngine:
    """Compiles correlators and runs them until told to stop, each by itself."""

    noun = "correlator"

    def __init__(self, pool: Pool, bell: Subscription, log_bell: Subscription, stop: asyncio.Event) -> None:
        self._pool = pool
        self._watch: Watch[WatchedCorrelator] = Watch(self, bell, log_bell, stop)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._stepper = Stepper()
        self._failures = Failures()
        self.events = 0
        """How many events these correlators have passed."""
        self.outputs = 0

    @property
    def failures(self) -> int:
        return self._failures.count

    async def run(self) -> None:
        await self._watch.run()

    async def watched(self) -> list[WatchedCorrelator]:
        """The correlators in force."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(WatchedCorrelator)) as cursor:
            return await (await cursor.execute(query("correlators/watched_correlators"))).fetchall()

    async def compile_once(self) -> int:
        """Compiles what is pending, and returns how many versions that were."""
        async with self._pool.connection() as conn:
            compiled = sum([await compile_correlator(conn, one) for one in await pending_correlators(conn)])
            await conn.execute("select headrace_internal.show_correlator_status()")
        return compiled

    async def turn(self, watched: WatchedCorrelator) -> float:
        """One batch or the timers that are due; returns for how many seconds the correlator may rest."""
        async with self._turns:
            if await self.step_once(watched) or await self.tick_once(watched):
                return 0
            return await self._rest_s(watched)

    async def step_once(self, watched: WatchedCorrelator, *, most: int | None = None) -> Correlated | None:
        """One batch of events; None when nothing is due here."""
        done: Correlated | None = None
        async with self._pool.connection() as conn, self._failures.recorded(conn, watched), conn.transaction():
            done = await self._stepper.step(conn, watched, most or watched.batch)
        if done:
            self.events += done.events
            self.outputs += done.outputs
        return done

    async def tick_once(self, watched: WatchedCorrelator) -> int:
        """Fires timers that are due though no event comes; returns of how many keys."""
        if watched.simple:
            return 0
        async with self._pool.connection() as conn, self._failures.recorded(conn, watched):
            given = {"correlator_id": watched.correlator_id}
            if await (await conn.execute(query("correlators/any_due"), given)).fetchone() is None:
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

    async def _rest_s(self, watched: WatchedCorrelator) -> float:
        """Until the next timer is due, at most IDLE_S."""
        if watched.simple:
            return IDLE_S
        async with self._pool.connection() as conn:
            row = await (await conn.execute(query("correlators/next_due_s"), {"correlator_id": watched.correlator_id})).fetchone()
        return IDLE_S if row is None or row[0] is None else min(max(float(row[0]), 0.02), IDLE_S)
