"""OpenTelemetry: the same metrics by observable instruments of the package opentelemetry-api, where it is installed.

The instruments are created once per process and observe the nodes that run now: OpenTelemetry cannot remove an instrument. They cost
nothing unless the application has set up a meter provider with a reader. A histogram cannot be observed, so that of the handlers is shown
as two counters, the number of calls and the sum of seconds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from headrace.core import DurationHistogram
from headrace.observe.metrics.families import FAMILIES, Family, Sample, limit_series

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

COLLECT_S = 10.0
Collection = tuple[Mapping[str, list[Sample]], Mapping[tuple[str, ...], DurationHistogram]]


class MetricSource(Protocol):
    """What can be observed: a node."""

    async def collect(self) -> Collection: ...
    def known_samples(self) -> Mapping[str, list[Sample]]: ...
    def durations(self) -> Mapping[tuple[str, ...], DurationHistogram]: ...


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
_is_registered = False


@contextmanager
def observed(source: MetricSource) -> Iterator[None]:
    """Shows the metrics of a node by OpenTelemetry while the block runs; does nothing where the package is not installed."""
    if find_spec("opentelemetry") is None:
        yield
        return
    _register()
    observer = Observer(source, asyncio.get_running_loop())
    _observers.add(observer)
    try:
        yield
    finally:
        _observers.discard(observer)


def _register() -> None:
    global _is_registered
    if _is_registered:
        return
    from opentelemetry.metrics import get_meter

    _is_registered = True
    meter = get_meter("headrace")
    for family in FAMILIES:
        if family.kind == "histogram":
            counts, sums = _observe_durations(lambda histogram: sum(histogram.counts)), _observe_durations(_sum_s)
            meter.create_observable_counter(f"{family.name}_count", [counts], description=family.help)
            meter.create_observable_counter(f"{family.name}_sum", [sums], unit="s", description=family.help)
        elif family.kind == "counter":
            meter.create_observable_counter(family.name, [_observe(family)], description=family.help)
        else:
            meter.create_observable_gauge(family.name, [_observe(family)], description=family.help)


def _sum_s(histogram: DurationHistogram) -> float:
    return histogram.sum_s


def _observe(family: Family) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        for observer in list(_observers):
            samples, _ = observer.collect()
            for shard, own in samples.items():
                for sample in limit_series(family, (sample for sample in own if sample.family is family)):
                    yield Observation(sample.value, {"shard": shard, **dict(zip(family.labels, sample.labels, strict=True))})

    return observe


def _observe_durations(
    value: Callable[[DurationHistogram], float],
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        for observer in list(_observers):
            _, durations = observer.collect()
            for (kind, handler), histogram in durations.items():
                yield Observation(value(histogram), {"kind": kind, "handler": handler})

    return observe
