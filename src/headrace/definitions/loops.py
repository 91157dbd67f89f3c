"""The loops in which a node compiles one kind of definition and runs the active ones, each in a loop of its own.

Owns: which loops run, and when they rest. Promises: a definition, written by whatever means, is compiled at once and has a loop
within a second; a loop never sleeps through a notification; the loop of a dropped definition ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, Protocol, TypeVar

from headrace.db import Subscription, retry_until_connected

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


class DefinitionEngine(Protocol[Consumer]):
    """What differs between rules and correlators."""

    noun: str

    async def compile_once(self) -> int:
        """Compiles pending versions, and returns how many there were."""

    async def watched(self) -> Sequence[Consumer]:
        """The consumers of all active definitions."""

    async def turn(self, consumer: Consumer) -> float:
        """Does what is due; returns for how many seconds the consumer may rest: 0 while there may be more to do."""


class DefinitionLoops(Generic[Consumer]):
    """Compiles one kind of definition and runs the active ones until `stop` is set."""

    def __init__(
        self, engine: DefinitionEngine[Consumer], written: Subscription, appended: Subscription, stop: asyncio.Event
    ) -> None:
        self._engine = engine
        self._written = written
        self._appended = appended
        self._stop = stop
        self._compiled = asyncio.Event()
        self._active: dict[int, Consumer] = {}
        self._wake_ups: dict[int, asyncio.Event] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._compile())
            group.create_task(self._wake_on_append())
            await self._start_loops(group)

    async def _compile(self) -> None:
        while not self._stop.is_set():
            if await retry_until_connected(f"{self._engine.noun} compiler", self._engine.compile_once):
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
            consumers = await retry_until_connected(f"{self._engine.noun}s", self._engine.watched)
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
            rest_s = await retry_until_connected(str(consumer), partial(self._engine.turn, consumer))
            if rest_s:
                with suppress(TimeoutError):
                    await asyncio.wait_for(wake_up.wait(), rest_s)
        del self._wake_ups[consumer_id]
