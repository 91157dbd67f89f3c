"""Definitions: what rules, correlators and schedules share.

Owns: files of definitions, plan and apply, the registries of event types and actions, and the loops in which a node compiles
and runs definitions. Promises: a file is applied whole or not at all; a plan shows exactly what apply does."""

from headrace.definitions.definition import Definition, Field
from headrace.definitions.engine import DefinitionEngine, TooLong, limit_lock_waits
from headrace.definitions.files import load_definitions
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
from headrace.definitions.pass_members import PassResult
from headrace.definitions.plans import AppliedChange, Change, Operation, Plan, apply, plan
from headrace.definitions.store import AnyKind, DefinitionKind, StoredDefinition

__all__ = [
    "ActionName",
    "AnyKind",
    "AppliedChange",
    "Change",
    "Definition",
    "DefinitionEngine",
    "DefinitionKind",
    "EventType",
    "Field",
    "Operation",
    "PassResult",
    "Plan",
    "StoredDefinition",
    "TooLong",
    "apply",
    "limit_lock_waits",
    "list_actions",
    "list_event_types",
    "load_definitions",
    "plan",
    "register_action",
    "register_event_type",
    "unregister_action",
    "unregister_event_type",
]
