"""The engine of one kind of definition on a node: compiles pending versions and runs the active ones, each in a loop of its own.

Owns: which loops run, and when they rest. Promises: a definition, written by whatever means, is compiled at once and has a loop
within a second; a loop never sleeps through a notification; the loop of a dropped definition ends; a batch that the database
rejects is recorded and tried again, and ends no loop."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Generic, Protocol, TypeVar

import psycopg
from psycopg.rows import class_row

from headrace.db import AsyncConnection, Pool, Subscription, is_transient, query, retry_until_connected

logger = logging.getLogger(__name__)

IDLE_S = 1.0
"""Longest wait without a notification: one may be lost with its connection, and retries fall due."""


class InternalConsumer(Protocol):
    """A reserved consumer of the log. `str()` is its name in logs."""

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
        self.events = 0
        """How many events this engine has processed."""
        self.failures = 0
        """How many batches the database has rejected."""

    @abstractmethod
    async def compile_once(self) -> int:
        """Compiles pending versions, and returns how many there were."""

    @abstractmethod
    async def turn(self, consumer: Consumer) -> float:
        """Does what is due; returns for how many seconds the consumer may rest: 0 while there may be more to do."""

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
        async with asyncio.TaskGroup() as group:
            group.create_task(self._compile())
            group.create_task(self._wake_on_append())
            await self._start_loops(group)

    async def _compile(self) -> None:
        while not self._stop.is_set():
            if await retry_until_connected(f"{self.noun} compiler", self.compile_once):
                self._compiled.set()
                self._wake_all()
            else:
                await self._written.wait(IDLE_S)

    async def _wake_on_append(self) -> None:
        while not self._stop.is_set():
            await self._appended.wait(IDLE_S)
            self._wake_all()
        self._compiled.set()

    def _wake_all(self) -> None:
        for wake_up in self._wake_ups.values():
            wake_up.set()

    async def _start_loops(self, group: asyncio.TaskGroup) -> None:
        """Finds the active consumers and gives each a loop of its own."""
        while not self._stop.is_set():
            consumers = await retry_until_connected(f"{self.noun}s", self.watched)
            self._active = {consumer.consumer_id: consumer for consumer in consumers}
            for consumer_id in self._active.keys() - self._wake_ups.keys():
                self._wake_ups[consumer_id] = asyncio.Event()
                group.create_task(self._run_consumer(consumer_id))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._compiled.wait(), IDLE_S)
            self._compiled.clear()

    async def _run_consumer(self, consumer_id: int) -> None:
        wake_up = self._wake_ups[consumer_id]
        while not self._stop.is_set() and (consumer := self._active.get(consumer_id)) is not None:
            # Before the turn: a notification that comes during it may have come too late for it.
            wake_up.clear()
            rest_s = await retry_until_connected(str(consumer), partial(self.turn, consumer))
            if rest_s:
                with suppress(TimeoutError):
                    await asyncio.wait_for(wake_up.wait(), rest_s)
        del self._wake_ups[consumer_id]
