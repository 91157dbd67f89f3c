"""Observe: what became of an event, and what is wrong with a database.

Owns: event histories and the checks of the doctor. Promises: it only reads; a check that
cannot be made is itself a finding, never a crash."""

from headrace.observe.doctor.check import Check, Level
from headrace.observe.doctor.examination import compare_shards, examine
from headrace.observe.event_history import ActionHistory, EventHistory, event_history
from headrace.observe.lineage import Firing, Pushed, RuleEvaluation, Trace, trace

__all__ = [
    "ActionHistory",
    "Check",
    "EventHistory",
    "Firing",
    "Level",
    "Pushed",
    "RuleEvaluation",
    "Trace",
    "compare_shards",
    "event_history",
    "examine",
    "trace",
]
