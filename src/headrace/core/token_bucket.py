"""Token buckets: the one way in which rates are limited, of clients of HTTP in and of workers alike."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable


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
