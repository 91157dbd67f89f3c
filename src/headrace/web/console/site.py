"""Site: what all requests share: databases, settings, templates, values that are read once for many, and the numbers of the charts."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from time import monotonic, time
from typing import Any, TypeAlias, TypeVar

from jinja2 import Environment

from headrace.web.console.databases import Databases
from headrace.web.console.login import EndedSessions
from headrace.web.console.settings import ConsoleSettings

T = TypeVar("T")

CACHE_MAX = 500
SAMPLES_KEEP_S = 1_800
SAMPLES_EVERY_S = 4.0
SERIES_MAX = 5_000
"""The series used least recently is forgotten beyond this."""


class Samples:
    """Numbers over time, by key: shard, role, namespace, and what was counted.

    They are recorded when a page is rendered, also while it is open and live. A console that was just started shows lines that grow
    from then on."""

    def __init__(self) -> None:
        self._series: OrderedDict[tuple[str, ...], deque[tuple[float, float]]] = OrderedDict()
        self._lock = Lock()

    def record(self, key: tuple[str, ...], values: Mapping[str, float], *, at: float | None = None) -> None:
        """Adds a sample of each value, unless the last one is younger than SAMPLES_EVERY_S."""
        at = at or time()
        with self._lock:
            for name, value in values.items():
                series = self._series.setdefault((*key, name), deque(maxlen=int(SAMPLES_KEEP_S / SAMPLES_EVERY_S)))
                self._series.move_to_end((*key, name))
                if not series or at - series[-1][0] >= SAMPLES_EVERY_S:
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


@dataclass(frozen=True)
class Link:
    """An entry of the sidebar; `key` opens the page after `g`."""

    label: str
    path: str
    key: str


Navigation: TypeAlias = Sequence[tuple[str, Sequence[Link]]]
"""Groups of entries: heading and links."""


@dataclass
class _Cached:
    """A value that requests share. The lock is held while it is built: others wait instead of building it too."""

    lock: Lock = field(default_factory=Lock)
    at: float = float("-inf")
    value: Any = None


class Site:
    """What all requests share."""

    def __init__(self, databases: Databases, settings: ConsoleSettings, templates: Environment, navigation: Navigation) -> None:
        self.databases = databases
        self.ended_sessions = EndedSessions(databases)
        self.settings = settings
        self.templates = templates
        self.navigation = navigation
        self.samples = Samples()
        self._cache: dict[tuple[object, ...], _Cached] = {}
        self._lock = Lock()

    def cached(self, key: tuple[object, ...], seconds: float, build: Callable[[], T]) -> T:
        """A value that is built again when it is older than this number of seconds. Ten open consoles ask the database once."""
        with self._lock:
            if key not in self._cache and len(self._cache) >= CACHE_MAX:
                self._cache.clear()
            entry = self._cache.setdefault(key, _Cached())
        with entry.lock:
            now = monotonic()
            if now - entry.at >= seconds:
                entry.value, entry.at = build(), now
            return entry.value  # type: ignore[no-any-return]
