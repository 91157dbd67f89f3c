"""Turns by namespace: what one namespace has waiting or running delays no other by more than one turn."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class NamespaceTurns:
    """A semaphore whose waiters take turns by namespace: a free place goes to the namespace whose last turn began longest ago, and
    there to whoever waits longest."""

    def __init__(self, at_once: int, *, reserve: int = 0) -> None:
        """`reserve`: how many of the places are only for namespaces that hold none: where turns may be long, one namespace alone never
        takes them all."""
        self._free = at_once
        self._reserve = reserve
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._turns = 0
        self._last_turn: dict[str, int] = {}

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """A place for the block."""
        if self._may_begin(namespace):
            self._begin(namespace)
        else:
            await self._wait(namespace)
        try:
            yield
        finally:
            self._release(namespace)

    def _may_begin(self, namespace: str) -> bool:
        return self._free > (self._reserve if self._held[namespace] else 0)

    def _begin(self, namespace: str) -> None:
        self._free -= 1
        self._held[namespace] += 1
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
                self._release(namespace)
            raise

    def _release(self, namespace: str) -> None:
        self._free += 1
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        while waiting := [each for each in self._waiting if self._may_begin(each)]:
            chosen = min(waiting, key=lambda each: self._last_turn.get(each, 0))
            place = self._waiting[chosen].popleft()
            if not self._waiting[chosen]:
                del self._waiting[chosen]
            if not place.done():
                self._begin(chosen)
                place.set_result(None)
