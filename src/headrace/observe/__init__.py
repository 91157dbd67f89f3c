"""Observe: the history of an event or action, and checks of a database.

Owns: event histories, action overviews and the checks of the doctor. Promises: it only reads; a check that cannot be made is itself a finding,
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

__all__ = [
    "ActionHistory",
    "ActionOverview",
    "Check",
    "ConsumerProgress",
    "CorrelatorOutput",
    "EventHistory",
    "Firing",
    "Level",
    "RuleEvaluation",
    "action_overview",
    "compare_shards",
    "event_history",
    "examine",
]
