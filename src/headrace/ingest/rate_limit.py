"""Rate limit: a token bucket that may go into debt, so that a batch larger than the bucket passes and is paid for afterwards."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable


class RateLimit:
    """Events per second of one client, with `burst` at once."""

    __slots__ = ("_at", "_left", "burst", "rate_per_s")

    def __init__(self, rate_per_s: float, burst: float | None = None) -> None:
        self.rate_per_s = rate_per_s
        self.burst = max(2 * rate_per_s if burst is None else burst, 1.0)
        self._left = self.burst
        self._at = time.monotonic()

    def wait_s(self) -> float:
        """Seconds until something may be taken; 0 if it may now."""
        now = time.monotonic()
        self._left = min(self.burst, self._left + (now - self._at) * self.rate_per_s)
        self._at = now
        return 0.0 if self._left >= 1 else (1 - self._left) / self.rate_per_s

    def take(self, count: float) -> None:
        """Takes a number of events, also more than are left."""
        self._left -= count


class RateLimits:
    """The limits of many clients; those not seen for longest are forgotten."""

    def __init__(self, clients_max: int = 10_000) -> None:
        self._limits: OrderedDict[Hashable, RateLimit] = OrderedDict()
        self._clients_max = clients_max

    def of(self, client: Hashable, rate_per_s: float) -> RateLimit:
        limit = self._limits.get(client)
        if limit is None or limit.rate_per_s != rate_per_s:
            limit = self._limits[client] = RateLimit(rate_per_s)
        self._limits.move_to_end(client)
        if len(self._limits) > self._clients_max:
            self._limits.popitem(last=False)
        return limit
