"""Correlators at work: the loops of a node that compile and run them on one database.

Owns: one node's share of it. Promises: a correlator written by whatever means runs within a second; a batch of events, the
instances of its keys, its outputs, what these become and the cursor are one transaction, so any number of nodes may run, and any
may die. A timer fires also when no event comes, and never before an event of an earlier time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial

import psycopg
from psycopg.rows import class_row

from headrace.db import AsyncConnection, Pool, Subscription, persist, query, transient
from headrace.react._correlate import Correlated, Stepper, WatchedCorrelator
from headrace.react._correlator_compile import compile_correlator, pending_correlators

logger = logging.getLogger(__name__)

IDLE_S = 1.0
AT_ONCE = 2
"""Correlators that one node works on side by side."""


class Correlators:
    """Compiles correlators and runs them until told to stop, each by itself."""

    def __init__(self, pool: Pool, bell: Subscription, log_bell: Subscription, stop: asyncio.Event) -> None:
        self._pool = pool
        self._bell = bell
        self._log_bell = log_bell
        self._stop = stop
        self._woken: dict[int, asyncio.Event] = {}
        self._in_force: dict[int, WatchedCorrelator] = {}
        self._compiled = asyncio.Event()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._stepper = Stepper()
        self.events = 0
        """How many events these correlators have passed."""
        self.outputs = 0
        self.failures = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._compile())
            group.create_task(self._hear())
            await self._watch(group)

    async def _compile(self) -> None:
        while not self._stop.is_set():
            if not await persist("correlator compiler", self.compile_once):
                await self._bell.wait(IDLE_S)

    async def _hear(self) -> None:
        while not self._stop.is_set():
            await self._log_bell.wait(IDLE_S)
            self._wake()
        self._compiled.set()

    def _wake(self) -> None:
        for woken in self._woken.values():
            woken.set()

    async def _watch(self, group: asyncio.TaskGroup) -> None:
        """Finds correlators in force and gives each a loop of its own."""
        while not self._stop.is_set():
            self._in_force = {one.correlator_id: one for one in await persist("correlators", self.watched)}
            for watched in self._in_force.values():
                if watched.correlator_id not in self._woken:
                    self._woken[watched.correlator_id] = asyncio.Event()
                    group.create_task(self._run(watched))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._compiled.wait(), IDLE_S)
            self._compiled.clear()

    async def _run(self, watched: WatchedCorrelator) -> None:
        name, woken = f"correlator {watched.namespace}/{watched.correlator}", self._woken[watched.correlator_id]
        while not self._stop.is_set():
            woken.clear()
            async with self._turns:
                if await persist(name, partial(self.step_once, watched)):
                    continue
                if await persist(name, partial(self.tick_once, watched)):
                    continue
                if watched.correlator_id not in self._in_force:
                    break
                watched = self._in_force[watched.correlator_id]
                rest_s = await persist(name, partial(self._rest_s, watched))
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), rest_s)
        del self._woken[watched.correlator_id]

    async def watched(self) -> list[WatchedCorrelator]:
        """The correlators in force."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(WatchedCorrelator)) as cursor:
            return await (await cursor.execute(query("react/watched_correlators"))).fetchall()

    async def compile_once(self) -> int:
        """Compiles what is pending, and returns how many versions that were."""
        async with self._pool.connection() as conn:
            compiled = sum([await compile_correlator(conn, one) for one in await pending_correlators(conn)])
            await conn.execute("select headrace.show_correlator_status()")
        if compiled:
            self._compiled.set()
            self._wake()
        return compiled

    async def step_once(self, watched: WatchedCorrelator, *, most: int | None = None) -> Correlated | None:
        """One batch of events; None when nothing is due here."""
        async with self._pool.connection() as conn:
            try:
                async with conn.transaction():
                    done = await self._stepper.step(conn, watched, most or watched.batch)
            except psycopg.Error as error:
                if transient(error):
                    raise
                await self._fail(conn, watched, str(error))
                return None
        if done:
            self.events += done.events
            self.outputs += done.outputs
        return done

    async def tick_once(self, watched: WatchedCorrelator) -> int:
        """Fires timers that are due though no event comes; returns of how many keys."""
        if watched.simple:
            return 0
        async with self._pool.connection() as conn:
            try:
                given = {"correlator_id": watched.correlator_id}
                if await (await conn.execute(query("react/any_due"), given)).fetchone() is None:
                    return 0
                # In a transaction of its own: the sequencer must not wait for the firing.
                settled = await (await conn.execute("select headrace.settle_time(%s)", (watched.topic_id,))).fetchone()
                if settled is None or settled[0] is None:
                    return 0
                async with conn.transaction():
                    fired = await self._stepper.fire(conn, watched, settled[0])
            except psycopg.Error as error:
                if transient(error):
                    raise
                await self._fail(conn, watched, str(error))
                return 0
        self.outputs += fired.outputs
        return fired.events

    async def _rest_s(self, watched: WatchedCorrelator) -> float:
        """Until the next timer is due, at most IDLE_S."""
        if watched.simple:
            return IDLE_S
        async with self._pool.connection() as conn:
            row = await (await conn.execute(query("react/next_due_s"), {"correlator_id": watched.correlator_id})).fetchone()
        return IDLE_S if row is None or row[0] is None else min(max(float(row[0]), 0.02), IDLE_S)

    async def _fail(self, conn: AsyncConnection, watched: WatchedCorrelator, error: str) -> None:
        """A batch that the database refuses is tried again, event by event and with growing pauses; the others go on."""
        self.failures += 1
        given = {"topic_id": watched.topic_id, "consumer_id": watched.consumer_id, "max": watched.batch, "error": error}
        await conn.execute(query("react/fail"), given)
        logger.error("correlator %s/%s failed: %s; it will be tried again", watched.namespace, watched.correlator, error)
