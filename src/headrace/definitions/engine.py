"""The engine of one kind of definition on a node: compiles pending versions and runs the active ones, each in a loop of its own.

Owns: which loops run, and when they rest. Promises: a definition, written by whatever means, is compiled at once and has a loop
within a second; a loop never sleeps through a notification; the loop of a dropped definition ends; a definition that fails, to
compile or to run, is recorded and tried again with growing pauses, and the others go on."""

from __future__ import annotations

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Generic, Protocol, TypeVar

import psycopg
from psycopg.rows import class_row

from headrace.db import (
    AsyncConnection,
    LoopSteps,
    Pool,
    Subscription,
    Unit,
    clear_failure,
    error_line,
    is_transient,
    is_unreachable,
    query,
    record_failure,
)

logger = logging.getLogger(__name__)

IDLE_S = 1.0
"""Longest wait without a notification: one may be lost with its connection, and retries fall due. Of the engine: its loops wait for
ever, and one statement finds those that have something to do."""
WATCH_S = 5.0
"""How often the list of active definitions is read, if none was written."""


class InternalConsumer(Protocol):
    """A reserved consumer of the log. `str()` is its name in logs."""

    @property
    def unit(self) -> Unit:
        """What its failures are recorded under."""

    @property
    def topic_id(self) -> int: ...

    @property
    def consumer_id(self) -> int: ...

    @property
    def batch(self) -> int:
        """How many events a batch has at most."""


Consumer = TypeVar("Consumer", bound=InternalConsumer)


class DefinitionEngine(ABC, Generic[Consumer]):
    """Compiles one kind of definition and runs the active ones until `stop` is set."""

    noun: str
    consumer_type: type[Consumer]
    watched_query: str
    """The name of the query that lists the consumers of all active definitions."""

    def __init__(self, pool: Pool, written: Subscription, appended: Subscription, stop: asyncio.Event) -> None:
        self._pool = pool
        self._written = written
        self._appended = appended
        self._stop = stop
        self._compiled = asyncio.Event()
        self._active: dict[int, Consumer] = {}
        self._wake_ups: dict[int, asyncio.Event] = {}
        self._late: set[Unit] = set()
        """Definitions whose last compilation met a transient error."""
        self.events = 0
        """How many events this engine has processed."""
        self.failures = 0
        """How many batches and compilations have failed."""

    @abstractmethod
    async def compile_once(self) -> int:
        """Compiles pending versions, each definition by `_compile_unit`, and returns how many there were."""

    async def _compile_unit(self, unit: Unit, compile_pending: Callable[[AsyncConnection], Awaitable[int]]) -> int:
        """Compiles one definition; returns how many versions it had. If it fails, that is recorded, and it pauses."""
        try:
            async with self._pool.connection() as conn:
                compiled = await compile_pending(conn)
        except Exception as error:
            if is_unreachable(error):
                raise
            if is_transient(error) and unit not in self._late:
                # A lock that another transaction holds, most of the time.
                self._late.add(unit)
                return 0
            self.failures += 1
            logger.error(
                "%s failed: %s; it will be tried again", unit, error_line(error), exc_info=not isinstance(error, psycopg.Error)
            )
            await record_failure(self._pool, unit, error)
            return 0
        self._late.discard(unit)
        await clear_failure(self._pool, unit)
        return compiled

    @abstractmethod
    async def turn(self, consumer: Consumer) -> float:
        """Does what is due; returns for how many seconds the consumer may rest: 0 while there may be more to do, infinity until it is
        woken."""

    async def watched(self) -> list[Consumer]:
        """The consumers of all active definitions."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(self.consumer_type)) as cursor:
            return await (await cursor.execute(query(self.watched_query))).fetchall()

    @asynccontextmanager
    async def _record_failures(self, conn: AsyncConnection, consumer: Consumer) -> AsyncIterator[None]:
        """A batch that fails in here is tried again, event by event and with growing pauses; other consumers go on.

        Enter it outside of the batch's transaction. A transient error passes: `retry_until_connected` handles it."""
        try:
            yield
        except psycopg.Error as error:
            if is_transient(error):
                raise
            self.failures += 1
            batch = {"topic_id": consumer.topic_id, "consumer_id": consumer.consumer_id, "max": consumer.batch}
            await conn.execute(query("definitions/fail"), batch | {"error": str(error)})
            logger.error("%s failed: %s; the batch will be tried again", consumer, error)

    async def run(self) -> None:
        self._wake_ups = {}
        async with asyncio.TaskGroup() as group:
            group.create_task(self._compile())
            group.create_task(self._wake_on_append())
            group.create_task(self._wake_due())
            await self._start_loops(group)

    async def _compile(self) -> None:
        steps = LoopSteps(f"{self.noun} compiler", self._stop, pool=self._pool)
        while not self._stop.is_set():
            if await steps.run(self.compile_once):
                self._compiled.set()
                self._wake_all()
            elif await self._written.wait(IDLE_S):
                # Another node may have compiled it.
                self._compiled.set()

    async def _wake_on_append(self) -> None:
        """Wakes the consumers of the topics that a notification names."""
        while not self._stop.is_set():
            if await self._appended.wait(IDLE_S):
                names = self._appended.take_names()
                if names is None:
                    self._wake_all()
                else:
                    self._wake({int(name) for name in names}, ())
        self._compiled.set()
        self._wake_all()

    async def _wake_due(self) -> None:
        """Wakes the consumers that may have something to do without a notification, by one statement for all of them."""
        steps = LoopSteps(f"due {self.noun}s", self._stop, pool=self._pool)
        while not self._stop.is_set():
            due = await steps.attempt(self._find_due) or []
            topic_ids = {topic_id for topic_id, consumer_id in due if consumer_id is None}
            consumer_ids = {consumer_id for _, consumer_id in due}
            self._wake(topic_ids, consumer_ids)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), IDLE_S)

    async def _find_due(self) -> list[tuple[int, int | None]]:
        async with self._pool.connection() as conn:
            return await (await conn.execute("select topic_id, consumer_id from headrace_internal.find_due()")).fetchall()

    def _wake(self, topic_ids: Container[int], consumer_ids: Container[int | None]) -> None:
        for consumer_id, consumer in self._active.items():
            if consumer_id in self._wake_ups and (consumer.topic_id in topic_ids or consumer_id in consumer_ids):
                self._wake_ups[consumer_id].set()

    def _wake_all(self) -> None:
        for wake_up in self._wake_ups.values():
            wake_up.set()

    async def _start_loops(self, group: asyncio.TaskGroup) -> None:
        """Finds the active consumers and gives each a loop of its own."""
        steps = LoopSteps(f"{self.noun}s", self._stop, pool=self._pool)
        while not self._stop.is_set():
            consumers = await steps.run(self.watched)
            if consumers is None:
                return
            self._active = {consumer.consumer_id: consumer for consumer in consumers}
            for consumer_id in self._wake_ups.keys() - self._active.keys():
                # Dropped: its loop ends.
                self._wake_ups[consumer_id].set()
            for consumer_id in self._active.keys() - self._wake_ups.keys():
                self._wake_ups[consumer_id] = asyncio.Event()
                group.create_task(self._run_consumer(consumer_id))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._compiled.wait(), WATCH_S)
            self._compiled.clear()

    async def _run_consumer(self, consumer_id: int) -> None:
        wake_up = self._wake_ups[consumer_id]
        first = self._active[consumer_id]
        steps = LoopSteps(str(first), self._stop, pool=self._pool, unit=first.unit, is_wanted=lambda: consumer_id in self._active)
        while not self._stop.is_set() and (consumer := self._active.get(consumer_id)) is not None:
            # Before the turn: a notification that comes during it may have come too late for it.
            wake_up.clear()
            rest_s = await steps.run(partial(self.turn, consumer))
            if rest_s:
                with suppress(TimeoutError):
                    await asyncio.wait_for(wake_up.wait(), None if math.isinf(rest_s) else rest_s)
        del self._wake_ups[consumer_id]
