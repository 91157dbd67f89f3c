"""Samples: the last half hour of numbers that pages show as charts.

They are kept in the console's memory and recorded when a page is rendered, also while it is open and live. A console that was
just started shows lines that grow from then on."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from itertools import pairwise
from threading import Lock
from time import time

KEEP_S = 1_800
EVERY_S = 4.0
SERIES_MAX = 5_000
"""The series used least recently is forgotten beyond this."""


class Samples:
    """Numbers over time, by key: shard, role, namespace, and what was counted."""

    def __init__(self) -> None:
        self._series: OrderedDict[tuple[str, ...], deque[tuple[float, float]]] = OrderedDict()
        self._lock = Lock()

    def record(self, key: tuple[str, ...], values: Mapping[str, float], *, at: float | None = None) -> None:
        """Adds a sample of each value, unless the last one is younger than EVERY_S."""
        at = at or time()
        with self._lock:
            for name, value in values.items():
                series = self._series.setdefault((*key, name), deque(maxlen=int(KEEP_S / EVERY_S)))
                self._series.move_to_end((*key, name))
                if not series or at - series[-1][0] >= EVERY_S:
                    series.append((at, float(value)))
            while len(self._series) > SERIES_MAX:
                self._series.popitem(last=False)

    def values(self, *key: str) -> list[tuple[float, float]]:
        """The samples of a series: time and value."""
        with self._lock:
            return list(self._series.get(key, ()))

    def rates(self, *key: str) -> list[tuple[float, float]]:
        """The growth of a series per second, between samples."""
        samples = self.values(*key)
        return [
            (after[0], max(after[1] - before[1], 0) / (after[0] - before[0]))
            for before, after in pairwise(samples)
            if after[0] > before[0]
        ]
