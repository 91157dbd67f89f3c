"""Reactor: runs the rules of every topic on one database.

Owns: one node's share of compiling and matching. Promises: a rule written by whatever means is in force within a second; a batch
of events, its firings, its actions and the cursor are one transaction, so any number of reactors may run, and any may die."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from headrace.db import TRANSIENT, AsyncConnection, Pool, Subscription, persist, query
from headrace.react._compile import compile_topic, pending_topics

logger = logging.getLogger(__name__)

BATCH = 2000
IDLE_S = 1.0
"""Longest wait without a notification: for a ring lost with a connection, and for retries that fall due."""


@dataclass(frozen=True)
class Watched:
    """A topic with rules, and the reserved consumer that runs them."""

    topic_id: int
    consumer_id: int
    topic: str
    namespace: str


@dataclass(frozen=True)
class Reacted:
    """What one batch did: events passed, rules fired, and the position it came to."""

    events: int
    firings: int
    position: int


class Reactor:
    """Compiles rules and evaluates them until told to stop, each topic by itself."""

    def __init__(self, pool: Pool, rule_bell: Subscription, log_bell: Subscription, stop: asyncio.Event) -> None:
        self._pool = pool
        self._rule_bell = rule_bell
        self._log_bell = log_bell
        self._stop = stop
        self._woken: dict[int, asyncio.Event] = {}
        self._compiled = asyncio.Event()
        self.events = 0
        """How many events this reactor has passed."""
        self.firings = 0
        self.failures = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._compile())
            group.create_task(self._hear())
            await self._watch(group)

    async def _compile(self) -> None:
        while not self._stop.is_set():
            if not await persist("rule compiler", self.compile_once):
                await self._rule_bell.wait(IDLE_S)

    async def _hear(self) -> None:
        while not self._stop.is_set():
            await self._log_bell.wait(IDLE_S)
            self._wake()
        self._compiled.set()

    def _wake(self) -> None:
        for woken in self._woken.values():
            woken.set()

    async def _watch(self, group: asyncio.TaskGroup) -> None:
        """Finds topics with rules and gives each a loop of its own."""
        while not self._stop.is_set():
            for watched in await persist("rules", self.watched):
                if watched.topic_id not in self._woken:
                    self._woken[watched.topic_id] = asyncio.Event()
                    group.create_task(self._react(watched))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._compiled.wait(), IDLE_S)
            self._compiled.clear()

    async def _react(self, watched: Watched) -> None:
        name, woken = f"rules of {watched.namespace}/{watched.topic}", self._woken[watched.topic_id]
        while not self._stop.is_set():
            woken.clear()
            if await persist(name, lambda: self.react_once(watched)):
                continue
            if watched not in await persist(name, self.watched):
                break
            await woken.wait()
        del self._woken[watched.topic_id]

    async def watched(self) -> list[Watched]:
        """The topics with rules."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(Watched)) as cursor:
            return await (await cursor.execute(query("react/watched_topics"))).fetchall()

    async def compile_once(self) -> int:
        """Compiles what is pending, and returns how many versions that were."""
        async with self._pool.connection() as conn:
            compiled = sum([await compile_topic(conn, topic_id) for topic_id in await pending_topics(conn)])
            if not compiled:
                await conn.execute("select headrace.show_status()")
        if compiled:
            self._compiled.set()
            self._wake()
        return compiled

    async def react_once(self, watched: Watched) -> Reacted | None:
        """One batch of a topic; None when nothing is due here."""
        async with self._pool.connection() as conn:
            try:
                reacted = await self._batch(conn, watched)
            except TRANSIENT:
                raise
            except psycopg.Error as error:
                await self._fail(conn, watched, str(error))
                return None
        if reacted:
            self.events += reacted.events
            self.firings += reacted.firings
        return reacted

    async def _batch(self, conn: AsyncConnection, watched: Watched) -> Reacted | None:
        async with conn.transaction(), conn.cursor(row_factory=class_row(Reacted)) as cursor:
            return await (await cursor.execute(query("react/react"), {"topic_id": watched.topic_id, "max": BATCH})).fetchone()

    async def _fail(self, conn: AsyncConnection, watched: Watched, error: str) -> None:
        """A batch that the database refuses is tried again, event by event and with growing pauses; the other topics go on."""
        self.failures += 1
        given = {"topic_id": watched.topic_id, "consumer_id": watched.consumer_id, "max": BATCH, "error": error}
        await conn.execute(query("react/fail"), given)
        logger.error("rules of %s/%s failed: %s; they will be tried again", watched.namespace, watched.topic, error)
