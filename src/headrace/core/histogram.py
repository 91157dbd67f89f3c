"""Durations: a histogram that a loop fills, and that a scrape of the metrics reads.

Counting is two additions and a binary search: no lock (one event loop writes), no label, no look-up of a name."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate

DURATION_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds; there is one more bucket without a bound."""


class DurationHistogram:
    """Counts durations by buckets."""

    __slots__ = ("counts", "recorder", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATION_BUCKETS_S) + 1)
        self.sum_s = 0.0
        self.recorder: Callable[[float], None] | None = None
        """Gets the duration of every single call, for OpenTelemetry; None if nobody wants it."""

    def observe(self, duration_s: float) -> None:
        """Counts one call and passes it on to the recorder."""
        self.counts[bisect_left(DURATION_BUCKETS_S, duration_s)] += 1
        self.sum_s += duration_s
        if self.recorder is not None:
            self.recorder(duration_s)

    def count_calls(self, total_s: float, calls: int) -> None:
        """Counts some calls that took `total_s` together, each as their mean. The recorder has got them one by one."""
        if calls:
            self.counts[bisect_left(DURATION_BUCKETS_S, total_s / calls)] += calls
            self.sum_s += total_s

    @contextmanager
    def record_call(self) -> Iterator[None]:
        """Passes the duration of the block on to the recorder, also if it raises."""
        started = time.perf_counter()
        try:
            yield
        finally:
            if self.recorder is not None:
                self.recorder(time.perf_counter() - started)

    def add(self, other: DurationHistogram) -> None:
        """Adds what another histogram has recorded."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum_s += other.sum_s

    def cumulative(self) -> list[tuple[str, int]]:
        """The upper bound of each bucket as Prometheus writes it, and how many durations are not above it."""
        bounds = [*map(str, DURATION_BUCKETS_S), "+Inf"]
        return list(zip(bounds, accumulate(self.counts), strict=True))
