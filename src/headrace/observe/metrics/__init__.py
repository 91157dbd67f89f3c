"""Metrics: the numbers of a database and of a node, for Prometheus and OpenTelemetry.

Owns: the list of metrics, and how they are read and shown. Promises: reading them is one round trip, never on the path of an event;
the number of series is bounded."""

from headrace.observe.metrics.families import (
    DatabaseMetrics as DatabaseMetrics,
    MetricsMemory as MetricsMemory,
    Sample as Sample,
    metric_family as metric_family,
    read_metrics as read_metrics,
)
from headrace.observe.metrics.otel import observed as observed
from headrace.observe.metrics.prometheus import (
    CONTENT_TYPE as CONTENT_TYPE,
    alert_rules as alert_rules,
    dashboard_json as dashboard_json,
    render as render,
)
