"""Durations: a histogram that a loop fills, and that a scrape of the metrics reads.

Recording is two additions and a binary search: no lock (one event loop writes), no label, no look-up of a name."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds; there is one more bucket without a bound."""


class DurationHistogram:
    """Counts durations by buckets."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def observe(self, duration_s: float, times: int = 1) -> None:
        """Records `times` calls that took `duration_s` each."""
        self.counts[bisect_left(BUCKETS_S, duration_s)] += times
        self.sum_s += duration_s * times

    def observe_calls(self, total_s: float, calls: int) -> None:
        """Records some calls that took `total_s` together, each as their mean."""
        if calls:
            self.observe(total_s / calls, calls)

    def add(self, other: DurationHistogram) -> None:
        """Adds what another histogram has recorded."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum_s += other.sum_s

    def cumulative(self) -> list[tuple[str, int]]:
        """The upper bound of each bucket as Prometheus writes it, and how many durations are not above it."""
        bounds = [*map(str, BUCKETS_S), "+Inf"]
        return list(zip(bounds, accumulate(self.counts), strict=True))
