"""Observe: the history of an event, and checks of a database.

Owns: event histories and the checks of the doctor. Promises: it only reads; a check that cannot be made is itself a finding,
never a crash."""

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
    "Check",
    "ConsumerProgress",
    "CorrelatorOutput",
    "EventHistory",
    "Firing",
    "Level",
    "RuleEvaluation",
    "compare_shards",
    "event_history",
    "examine",
]
