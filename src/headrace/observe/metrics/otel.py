"""OpenTelemetry: the same metrics by instruments of the package opentelemetry-api, where it is installed.

The instruments are created once per process: OpenTelemetry cannot remove one. Most of them observe the nodes that run now, and cost
nothing unless the application has set up a meter provider with a reader. A histogram cannot be observed: that of the handlers records
every call, which costs next to nothing without a meter provider."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from headrace.core import DURATION_BUCKETS_S, DurationHistogram
from headrace.observe.metrics.families import FAMILIES, Family, Sample, limit_series, metric_family

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Histogram, Observation

COLLECT_S = 10.0
Collection = tuple[Mapping[str, list[Sample]], Mapping[tuple[str, ...], DurationHistogram]]


class MetricSource(Protocol):
    """What can be observed: a node."""

    async def collect(self) -> Collection: ...
    def known_samples(self) -> Mapping[str, list[Sample]]: ...
    def durations(self) -> Mapping[tuple[str, ...], DurationHistogram]: ...
    def histograms(self) -> Iterable[tuple[tuple[str, str], DurationHistogram]]: ...


class Observer:
    """Answers the instruments on behalf of one node, whose event loop runs in another thread than the exporter."""

    def __init__(self, source: MetricSource, loop: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._loop = loop
        self._thread_id = threading.get_ident()

    def collect(self) -> Collection:
        """Reads the database anew, unless the exporter runs on the node's own thread, which must not wait for itself."""
        if threading.get_ident() != self._thread_id and self._loop.is_running():
            try:
                return asyncio.run_coroutine_threadsafe(self._source.collect(), self._loop).result(COLLECT_S)
            except (TimeoutError, RuntimeError):
                pass  # The node is busy or has just ended.
        return self._source.known_samples(), self._source.durations()


_observers: set[Observer] = set()
_durations: Histogram | None = None
"""The histogram of the handlers; None until the instruments are created."""


@contextmanager
def observed(source: MetricSource) -> Iterator[None]:
    """Shows the metrics of a node by OpenTelemetry while the block runs; does nothing where the package is not installed."""
    if find_spec("opentelemetry") is None:
        yield
        return
    durations = _register()
    observer = Observer(source, asyncio.get_running_loop())
    _observers.add(observer)
    histograms = list(source.histograms())
    for (kind, handler), histogram in histograms:
        histogram.recorder = partial(durations.record, attributes={"kind": kind, "handler": handler})
    try:
        yield
    finally:
        _observers.discard(observer)
        for _, histogram in histograms:
            histogram.recorder = None


def _register() -> Histogram:
    """Creates the instruments, once; returns the histogram of the handlers."""
    global _durations
    if _durations is None:
        from opentelemetry.metrics import get_meter

        meter = get_meter("headrace")
        duration = metric_family("headrace_handler_duration_seconds")
        _durations = meter.create_histogram(
            duration.name, unit="s", description=duration.help, explicit_bucket_boundaries_advisory=DURATION_BUCKETS_S
        )
        for family in FAMILIES:
            if family.kind == "counter":
                meter.create_observable_counter(family.name, [_observe(family)], description=family.help)
            elif family.kind == "gauge":
                meter.create_observable_gauge(family.name, [_observe(family)], description=family.help)
    return _durations


def _observe(family: Family) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        for observer in list(_observers):
            samples, _ = observer.collect()
            for shard, own in samples.items():
                for sample in limit_series(family, (sample for sample in own if sample.family is family)):
                    yield Observation(sample.value, {"shard": shard, **dict(zip(family.labels, sample.labels, strict=True))})

    return observe
