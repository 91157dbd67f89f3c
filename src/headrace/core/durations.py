"""Durations: their text, and a histogram of them."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import accumulate

_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_NAMES = {
    "us": ("us", "microsecond", "microseconds"),
    "ms": ("ms", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_UNIT_OF = {name: unit for unit, names in _NAMES.items() for name in names}
UNITS = ", ".join(_UNITS_US)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def parse_duration(text: str) -> int:
    """`10 s`, `1.5h`, `2 days`, `1h 30min` → microseconds. ValueError says what is wrong with the text."""
    total = Fraction(0)
    end = 0
    for part in _PART.finditer(text):
        if text[end : part.start()].strip():
            break
        unit = _UNIT_OF.get(part[2])
        if unit is None:
            raise ValueError(f"unknown unit {part[2]!r}; units are {UNITS}")
        total += Fraction(part[1]) * _UNITS_US[unit]
        end = part.end()
    if not end or text[end:].strip():
        raise ValueError(f"{text!r} is not a duration; write a number and a unit ({UNITS})")
    if total.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of microseconds")
    return int(total)


def print_duration(duration_us: int) -> str:
    """The largest unit that divides evenly; weeks stay days, since few count in weeks."""
    for unit in ("d", "h", "min", "s", "ms"):
        if duration_us % _UNITS_US[unit] == 0:
            return f"{duration_us // _UNITS_US[unit]} {unit}"
    return f"{duration_us} us"


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
