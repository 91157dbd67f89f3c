"""Watch: the loops in which a node compiles one kind of thing and runs what is in force, each by itself.

Owns: which loops run, and when they rest. Promises: what is written by whatever means is compiled at once and has a loop within a
second; a loop never sleeps through a ring, and one whose thing is gone ends. Rules and correlators are such kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, Protocol, TypeVar

from headrace.db import Subscription, retry_until_connected

IDLE_S = 1.0
"""Longest wait without a notification: for a ring lost with a connection, and for retries that fall due."""


class InternalConsumer(Protocol):
    """What a reserved consumer runs. As text it is how logs name it."""

    @property
    def topic_id(self) -> int: ...

    @property
    def consumer_id(self) -> int: ...

    @property
    def batch(self) -> int:
        """How many events one batch has at most."""


Thing = TypeVar("Thing", bound=InternalConsumer)


class DefinitionKind(Protocol[Thing]):
    """What differs between rules and correlators."""

    noun: str

    async def compile_once(self) -> int:
        """Compiles what is pending, and returns how many versions that were."""

    async def watched(self) -> Sequence[Thing]:
        """What is in force."""

    async def turn(self, thing: Thing) -> float:
        """Does what is due; returns for how many seconds it may rest: none while there may be more to do."""


class Watch(Generic[Thing]):
    """Compiles a kind and runs what is in force until told to stop."""

    def __init__(self, kind: DefinitionKind[Thing], written: Subscription, appended: Subscription, stop: asyncio.Event) -> None:
        self._kind = kind
        self._written = written
        self._appended = appended
        self._stop = stop
        self._compiled = asyncio.Event()
        self._in_force: dict[int, Thing] = {}
        self._woken: dict[int, asyncio.Event] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._compile())
            group.create_task(self._hear())
            await self._look(group)

    async def _compile(self) -> None:
        while not self._stop.is_set():
            if await retry_until_connected(f"{self._kind.noun} compiler", self._kind.compile_once):
                self._compiled.set()
                self._wake()
            else:
                await self._written.wait(IDLE_S)

    async def _hear(self) -> None:
        while not self._stop.is_set():
            await self._appended.wait(IDLE_S)
            self._wake()
        self._compiled.set()

    def _wake(self) -> None:
        for woken in self._woken.values():
            woken.set()

    async def _look(self, group: asyncio.TaskGroup) -> None:
        """Finds what is in force and gives each a loop of its own."""
        while not self._stop.is_set():
            self._in_force = {
                thing.consumer_id: thing for thing in await retry_until_connected(f"{self._kind.noun}s", self._kind.watched)
            }
            for consumer_id in self._in_force.keys() - self._woken.keys():
                self._woken[consumer_id] = asyncio.Event()
                group.create_task(self._follow(consumer_id))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._compiled.wait(), IDLE_S)
            self._compiled.clear()

    async def _follow(self, consumer_id: int) -> None:
        woken = self._woken[consumer_id]
        while not self._stop.is_set() and (thing := self._in_force.get(consumer_id)) is not None:
            # Before the turn: what rings meanwhile may have come too late for it.
            woken.clear()
            rest_s = await retry_until_connected(str(thing), partial(self._kind.turn, thing))
            if rest_s:
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), rest_s)
        del self._woken[consumer_id]
