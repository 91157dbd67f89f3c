"""Observe: the history of an event or action, checks of a database, and metrics.

Owns: event histories, action overviews, the checks of the doctor, and the list of metrics. Promises: it only reads; a check that cannot be made is itself a finding,
never a crash."""

from headrace.observe.action_overview import ActionOverview, action_overview
from headrace.observe.doctor import Check, Level
from headrace.observe.doctor.examination import compare_shards, examine
from headrace.observe.event_history import (
    ActionHistory,
    ConsumerProgress,
    CorrelatorOutput,
    EventHistory,
    Firing,
    RuleEvaluation,
    event_history,
)
from headrace.observe.metrics import (
    CONTENT_TYPE,
    DatabaseMetrics,
    MetricsMemory,
    Sample,
    alert_rules,
    dashboard_json,
    metric_family,
    observed,
    read_metrics,
    render,
)
from headrace.observe.why_not import RuleWhyNot, explain_rule

__all__ = [
    "CONTENT_TYPE",
    "ActionHistory",
    "ActionOverview",
    "Check",
    "ConsumerProgress",
    "CorrelatorOutput",
    "DatabaseMetrics",
    "EventHistory",
    "Firing",
    "Level",
    "MetricsMemory",
    "RuleEvaluation",
    "RuleWhyNot",
    "Sample",
    "action_overview",
    "alert_rules",
    "compare_shards",
    "dashboard_json",
    "event_history",
    "examine",
    "explain_rule",
    "metric_family",
    "observed",
    "read_metrics",
    "render",
]
