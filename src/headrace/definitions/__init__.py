"""Definitions: what rules, correlators and schedules share: versions, files, plan and apply, the names a namespace knows.

Owns: files of definitions, plans, the registries of event types and actions, and the loops that compile and run definitions.
Promises: a file is applied whole or not at all; a plan shows exactly what apply does."""

from headrace.definitions.definition import state_row
from headrace.definitions.failures import Failures
from headrace.definitions.files import FileKind
from headrace.definitions.loops import IDLE_S, Watch
from headrace.definitions.names import (
    ActionName,
    EventType,
    list_actions,
    list_event_types,
    register_action,
    register_event_type,
    unregister_action,
    unregister_event_type,
)
from headrace.definitions.plans import Change, Plan, compare

__all__ = [
    "IDLE_S",
    "ActionName",
    "Change",
    "EventType",
    "Failures",
    "FileKind",
    "Plan",
    "Watch",
    "compare",
    "list_actions",
    "list_event_types",
    "register_action",
    "register_event_type",
    "state_row",
    "unregister_action",
    "unregister_event_type",
]
