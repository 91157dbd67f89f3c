"""History: what happened to an event or an action, and why a rule did not fire.

Promises: it only reads."""

from headrace.observe.history.action_overview import ActionOverview, action_overview
from headrace.observe.history.event_history import (
    ActionHistory,
    ConsumerProgress,
    CorrelatorOutput,
    EventHistory,
    Firing,
    RuleEvaluation,
    event_history,
)
from headrace.observe.history.why_not import RuleWhyNot, explain_rule

__all__ = [
    "ActionHistory",
    "ActionOverview",
    "ConsumerProgress",
    "CorrelatorOutput",
    "EventHistory",
    "Firing",
    "RuleEvaluation",
    "RuleWhyNot",
    "action_overview",
    "event_history",
    "explain_rule",
]
