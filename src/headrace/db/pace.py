"""Pace: how long a loop pauses between two steps.

A step has a price of its own, however few events it moves: the time that client and server work for it, without waiting for the disk.
The pause follows from that price, so that it takes at most a share of the loop's time. On a quiet server a step is cheap and the
next one comes soon; on a busy one every step takes longer, the pauses grow with it, and the batches fill up."""

from __future__ import annotations

WEIGHT = 0.3
"""Of the newest step in the mean of the costs: one slow step is forgotten after a few."""


class Pace:
    """The pauses of one loop. Pure: it is told the times and neither measures nor sleeps."""

    def __init__(self, *, share: float, pause_max_s: float) -> None:
        """`share`: the part of its time, above 0 and at most 1, that a loop may spend on the price of its steps."""
        if not 0 < share <= 1 or pause_max_s < 0:
            raise ValueError(f"share {share}, pause_max_s {pause_max_s}: need 0 < share ≤ 1 and pause_max_s ≥ 0")
        self._share = share
        self._pause_max_s = pause_max_s
        self._cost_s: float | None = None

    @property
    def cost_s(self) -> float:
        """The mean price of a step; 0 before the first."""
        return self._cost_s or 0.0

    def pause_s(self, cost_s: float, *, elapsed_s: float | None = None) -> float:
        """The pause after a step of this price. `elapsed_s` is how long the step took, if there was more than its price, for example
        a handler: events have gathered meanwhile, so the pause is shorter by that."""
        cost_s = max(cost_s, 0.0)
        self._cost_s = cost_s if self._cost_s is None else self._cost_s + WEIGHT * (cost_s - self._cost_s)
        elapsed_s = cost_s if elapsed_s is None else elapsed_s
        return min(max(self._cost_s / self._share - elapsed_s, 0.0), self._pause_max_s)
