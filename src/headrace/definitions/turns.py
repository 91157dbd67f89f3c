"""Turns by namespace: what one namespace has waiting delays no other by more than one turn.

Two forms of the same law: places of running work (`NamespaceTurns`), and rounds of a list of waiting work (`rounds_by_namespace`)."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


class TooLong(Exception):
    """Something takes longer than others in the line can be made to wait. `work`, if it is known, is what takes long: once it was done
    beside the line, the next attempt is short. Otherwise another transaction holds a lock."""

    def __init__(self, work: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self.work = work


def rounds_by_namespace(waiting: Iterable[T], namespace_of: Callable[[T], str]) -> list[list[T]]:
    """What waits, in rounds: the first has the first of each namespace, the second the second of those that have more, and so on."""
    rounds: list[list[T]] = []
    counts: Counter[str] = Counter()
    for item in waiting:
        number = counts[namespace_of(item)]
        counts[namespace_of(item)] += 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(item)
    return rounds


class NamespaceTurns:
    """A semaphore whose waiters take turns by namespace: a free place goes to the namespace whose last turn began longest ago, and
    there to whoever waits longest."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._turns = 0
        self._last_turn: dict[str, int] = {}

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """A place for the block."""
        if self._free:
            self._free -= 1
            self._begin(namespace)
        else:
            await self._wait(namespace)
        try:
            yield
        finally:
            self._release()

    def _begin(self, namespace: str) -> None:
        self._turns += 1
        self._last_turn[namespace] = self._turns

    async def _wait(self, namespace: str) -> None:
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                # The place came together with the cancellation: others wait for it.
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            namespace = min(self._waiting, key=lambda each: self._last_turn.get(each, 0))
            places = self._waiting[namespace]
            place = places.popleft()
            if not places:
                del self._waiting[namespace]
            if not place.done():
                self._begin(namespace)
                place.set_result(None)
                return
        self._free += 1
