"""Pace: how long a loop pauses between two steps.

A step has a price of its own, however few events it moves: the time that client and server work for it, without waiting for the disk
and without a share for each event. While that is about what the cheapest steps cost, the server is not busy, and the next step comes
at once. When it is several times as much, the pauses grow with the cube of it, and the batches fill up. See docs/adr/0062."""

from __future__ import annotations

import time
from collections import deque

WEIGHT = 0.3
"""Of the newest step in the mean of the costs: one slow step is forgotten after a few."""
RISE = 1.00002
"""Of the price of the cheapest steps, per step: what was cheap once is forgotten after an hour or so."""
BUSY = 3.0
"""The server counts as busy when a step takes this many times as long as the cheapest ones."""
EVENT_S = 20e-6
"""What an event adds to the price of a step on a quiet server, generously: larger batches must not look like a busy server."""
CHEAPEST_S = 0.0002
"""No step is taken to be cheaper than this."""


class Pace:
    """The pauses of one loop. Pure: it gets the times as parameters, and neither measures nor sleeps."""

    def __init__(self, *, pause_max_s: float, share: float = 1.0) -> None:
        """`share`: the part of its time, above 0 and at most 1, that a loop may spend on the price of its steps even when the server
        is not busy."""
        if not 0 < share <= 1 or pause_max_s < 0:
            raise ValueError(f"share {share}, pause_max_s {pause_max_s}: need 0 < share ≤ 1 and pause_max_s ≥ 0")
        self._share = share
        self._pause_max_s = pause_max_s
        self._cost_s: float | None = None
        self._own_s = 0.0
        self._cheapest_s = float("inf")

    @property
    def cost_s(self) -> float:
        """The mean price of a step; 0 before the first."""
        return self._cost_s or 0.0

    def pause_s(self, cost_s: float, *, events: int = 0, elapsed_s: float | None = None) -> float:
        """The pause after a step of this price that moved this number of events. `elapsed_s` is how long the step took, if there was more than
        its price, for example a handler: events have gathered meanwhile, so the pause is shorter by that."""
        cost_s = max(cost_s, 0.0)
        own_s = max(cost_s - events * EVENT_S, CHEAPEST_S)
        if self._cost_s is None:
            self._cost_s, self._own_s = cost_s, own_s
        self._cost_s += WEIGHT * (cost_s - self._cost_s)
        self._own_s += WEIGHT * (own_s - self._own_s)
        self._cheapest_s = min(self._own_s, self._cheapest_s * RISE)
        slowness = max(self._own_s / (BUSY * self._cheapest_s), 1.0)
        elapsed_s = max(self._cost_s, elapsed_s or 0.0)
        return min(max(self._cost_s * slowness**2 / self._share - elapsed_s, 0.0), self._pause_max_s)


NOTIFIED_MAX, NOTIFIED_AGAIN = 50, 25
"""Up to so many events in a second a loop waits to be notified of each, because a notification costs less than many polls. A loop that polls
waits for notifications again below the second number."""


class EventRate:
    """How many events a loop has had in the last second, to choose between notifications and polls."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, int]] = deque()
        self._is_low = True

    def count(self, events: int) -> None:
        """Events that the loop has just had."""
        self._recent.append((time.monotonic(), events))

    @property
    def is_low(self) -> bool:
        """True while a notification of each event is cheaper than polls."""
        since = time.monotonic() - 1
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        events = sum(count for _, count in self._recent)
        self._is_low = events <= (NOTIFIED_MAX if self._is_low else NOTIFIED_AGAIN)
        return self._is_low
