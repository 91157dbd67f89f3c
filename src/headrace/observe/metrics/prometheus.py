"""Prometheus: samples in its text format, by prometheus-client; and a Grafana dashboard and alert rules, built from the list of families,
so that no name can drift.

Every series has the label `shard`, the name of its database. A registry of its own: what else the process has registered with
prometheus-client is not shown here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from headrace.core import DurationHistogram
from headrace.observe.metrics.families import FAMILIES, OTHER, SERIES_MAX, Family, Sample, limit_series, metric_family

if TYPE_CHECKING:
    from prometheus_client import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Durations = Mapping[tuple[str, ...], DurationHistogram]
_DURATIONS = metric_family("headrace_handler_duration_seconds")


def render(samples: Mapping[str, Iterable[Sample]], durations: Durations | None = None) -> bytes:
    """The text of a scrape: the samples of each shard, and how long the process's handlers took, by kind and handler."""
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


WIDTH, HEIGHT = 12, 8
"""The size of a panel on Grafana's grid of 24 columns."""


@dataclass(frozen=True)
class Panel:
    """One chart of one metric. `rate`: per second, for counters."""

    title: str
    metric: str
    unit: str = "short"
    rate: bool = False

    @property
    def expression(self) -> str:
        """The query: of the database, where all nodes tell the same, the maximum over the nodes; of the nodes, the sum."""
        family = metric_family(f"headrace_{self.metric}")
        if family.kind == "histogram":
            labels = ", ".join(("le", *family.labels))
            return f"histogram_quantile(0.95, sum by ({labels}) (rate({family.name}_bucket[$__rate_interval])))"
        combine = "max" if family.source == "database" or family.name == "headrace_database_up" else "sum"
        own = ("instance",) if family.name == "headrace_database_up" else ()
        matcher = '{shard=~"$shard"}'
        value = f"rate({family.name}{matcher}[$__rate_interval])" if self.rate else f"{family.name}{matcher}"
        return f"{combine} by ({', '.join(('shard', *own, *family.labels))}) ({value})"

    @property
    def legend(self) -> str:
        family = metric_family(f"headrace_{self.metric}")
        return " ".join(f"{{{{{label}}}}}" for label in family.labels or ("instance", "shard"))


PANELS: tuple[Panel, ...] = (
    Panel("Lag of consumers (seconds)", "consumer_lag_seconds", "s"),
    Panel("Lag of consumers (events)", "consumer_lag_events"),
    Panel("Sequenced events per second", "sequenced_events_total", "ops", rate=True),
    Panel("Events that wait for the sequencer", "outbox_waiting"),
    Panel("Actions in the queue", "action_queue"),
    Panel("Wait of the oldest due action", "action_wait_seconds", "s"),
    Panel("Dead letters", "dead_letters"),
    Panel("Firings of rules per second", "rule_firings_total", "ops", rate=True),
    Panel("Outputs of correlators per second", "correlator_outputs_total", "ops", rate=True),
    Panel("Duration of handlers (95 % are below)", "handler_duration_seconds", "s"),
    Panel("Failures of loops per second", "loop_failures_total", "ops", rate=True),
    Panel("Nodes that are up", "node_up"),
    Panel("Databases that nodes can read", "database_up"),
    Panel("Size of the log", "log_bytes", "bytes"),
    Panel("Fill of the notification queue", "notification_queue_usage", "percentunit"),
)


def dashboard_json(panels: Sequence[Panel] = PANELS) -> str:
    """The dashboard, to import into Grafana."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    variables = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        {
            "name": "shard",
            "label": "Shard",
            "type": "query",
            "datasource": source,
            "query": {"query": "label_values(headrace_database_up, shard)", "refId": "shard"},
            "includeAll": True,
            "multi": True,
            "current": {"text": "All", "value": "$__all"},
            "refresh": 2,
        },
    ]
    dashboard = {
        "uid": "headrace",
        "title": "headrace",
        "tags": ["headrace"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": variables},
        "panels": [_panel(number, panel, source) for number, panel in enumerate(panels)],
    }
    return json.dumps(dashboard, indent=2) + "\n"


def _panel(number: int, panel: Panel, source: dict[str, str]) -> dict[str, object]:
    grid_position = {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": metric_family(f"headrace_{panel.metric}").help,
        "datasource": source,
        "gridPos": grid_position,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": panel.expression, "legendFormat": panel.legend}],
    }


def alert_rules() -> str:
    """The alert rules, for a file that Prometheus reads."""
    return (files("headrace") / "observe" / "metrics" / "files" / "alerts.yml").read_text(encoding="utf-8")
