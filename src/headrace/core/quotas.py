"""Quotas: what one client or namespace may take of what all share. Token buckets limit rates; turns limit what runs at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager


class TokenBucket:
    """Limits a rate. Tokens arrive evenly; the bucket holds at most `burst`, by default those of one second, and at least one."""

    __slots__ = ("_clock", "_refilled_at", "_tokens", "burst", "rate_per_s")

    def __init__(self, rate_per_s: float, *, burst: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate_per_s = rate_per_s
        self.burst = max(rate_per_s if burst is None else burst, 1.0)
        self._clock = clock
        self._tokens = self.burst
        self._refilled_at = clock()

    def wait_s(self) -> float:
        """Seconds until there is a whole token; 0 if there is one now."""
        self._refill()
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) / self.rate_per_s

    def take(self, count: float) -> None:
        """Takes a number of tokens. The bucket may go into debt: a batch larger than it passes and is paid for afterwards."""
        self._tokens -= count

    def take_up_to(self, limit: int) -> int:
        """Takes the whole tokens in the bucket, at most `limit`; returns how many."""
        self._refill()
        count = max(min(limit, int(self._tokens)), 0)
        self._tokens -= count
        return count

    def give_back(self, count: float) -> None:
        """Returns unused tokens to the bucket."""
        self._tokens += count

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(self.burst, self._tokens + (now - self._refilled_at) * self.rate_per_s)
        self._refilled_at = now


class TokenBuckets:
    """The buckets of many clients, twice their rate at once; those not seen for longest are forgotten."""

    def __init__(self, clients_max: int = 10_000) -> None:
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()
        self._clients_max = clients_max

    def for_client(self, client: Hashable, rate_per_s: float) -> TokenBucket:
        bucket = self._buckets.get(client)
        if bucket is None or bucket.rate_per_s != rate_per_s:
            bucket = self._buckets[client] = TokenBucket(rate_per_s, burst=2 * rate_per_s)
        self._buckets.move_to_end(client)
        if len(self._buckets) > self._clients_max:
            self._buckets.popitem(last=False)
        return bucket


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
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                # The turn came together with the cancellation: others wait for it.
                self._release(namespace)
            raise

    def _release(self, namespace: str) -> None:
        self._free += 1
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        while waiting := [each for each in self._waiting if self._may_begin(each)]:
            chosen = min(waiting, key=lambda each: self._last_turn.get(each, 0))
            waiter = self._waiting[chosen].popleft()
            if not self._waiting[chosen]:
                del self._waiting[chosen]
            if not waiter.done():
                self._begin(chosen)
                waiter.set_result(None)
