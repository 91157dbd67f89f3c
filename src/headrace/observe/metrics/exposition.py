"""Exposition: samples in the text format of Prometheus, by prometheus-client.

Every series has the label `shard`, the name of its database. A registry of its own: what else the process has registered with
prometheus-client is not shown here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core import DurationHistogram
from headrace.observe.metrics.families import FAMILIES, OTHER, SERIES_MAX, Family, Sample, limit_series, metric_family

if TYPE_CHECKING:
    from prometheus_client import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Durations = Mapping[tuple[str, ...], DurationHistogram]
_DURATIONS = metric_family("headrace_handler_duration_seconds")


def render(samples: Mapping[str, Iterable[Sample]], durations: Durations | None = None) -> bytes:
    """The text of a scrape: the samples of each shard, and the durations of the handlers of the process by kind and handler."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class Scrape(Collector):
        def collect(self) -> Iterator[Metric]:
            return _metrics(samples, durations or {})

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Scrape())
    return generate_latest(registry)


def _metrics(samples: Mapping[str, Iterable[Sample]], durations: Durations) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    by_family: dict[Family, dict[str, list[Sample]]] = {family: {} for family in FAMILIES}
    for shard, own in samples.items():
        for sample in own:
            by_family[sample.family].setdefault(shard, []).append(sample)
    for family, shards in by_family.items():
        if family is _DURATIONS:
            yield _histogram(durations)
            continue
        kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        metric = kind(family.name, family.help, labels=("shard", *family.labels))
        for shard, own in shards.items():
            for sample in limit_series(family, own):
                metric.add_metric((shard, *sample.labels), sample.value)
        yield metric


def _histogram(durations: Durations) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    metric = HistogramMetricFamily(_DURATIONS.name, _DURATIONS.help, labels=_DURATIONS.labels)
    for labels, histogram in limit_histograms(durations).items():
        metric.add_metric(labels, histogram.cumulative(), histogram.sum_s)
    return metric


def limit_histograms(durations: Durations, *, series_max: int = SERIES_MAX // 16) -> Durations:
    """The histograms; those beyond `series_max` in one with the label value `other`. A histogram has a series for each bucket."""
    if len(durations) <= series_max:
        return durations
    named: Sequence[tuple[tuple[str, ...], DurationHistogram]] = list(durations.items())
    rest = DurationHistogram()
    for _, histogram in named[series_max:]:
        rest.add(histogram)
    return {**dict(named[:series_max]), (OTHER,) * len(_DURATIONS.labels): rest}
