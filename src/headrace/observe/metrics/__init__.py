"""Metrics: the numbers of a database and of a node, for Prometheus and OpenTelemetry.

Owns: the list of metrics, and how they are read and shown. Promises: reading them is one round trip, never on the path of an event;
the number of series is bounded."""

from headrace.observe.metrics.families import DatabaseMetrics, MetricsMemory, Sample, metric_family, read_metrics
from headrace.observe.metrics.otel import observed
from headrace.observe.metrics.prometheus import CONTENT_TYPE, alert_rules, dashboard_json, render

__all__ = [
    "CONTENT_TYPE",
    "DatabaseMetrics",
    "MetricsMemory",
    "Sample",
    "alert_rules",
    "dashboard_json",
    "metric_family",
    "observed",
    "read_metrics",
    "render",
]
