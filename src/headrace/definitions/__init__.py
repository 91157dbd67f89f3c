"""Definitions: what rules, correlators and schedules share.

Owns: files of definitions, plan and apply, the registries of event types and actions, and the loops in which a node compiles
and runs definitions. Promises: a file is applied whole or not at all; a plan shows exactly what apply does."""

from headrace.definitions.definition import Definition as Definition, Field as Field
from headrace.definitions.engine import (
    DefinitionEngine as DefinitionEngine,
    TooLong as TooLong,
    limit_lock_waits as limit_lock_waits,
)
from headrace.definitions.files import load_definitions as load_definitions
from headrace.definitions.names import (
    ActionName as ActionName,
    EventType as EventType,
    list_actions as list_actions,
    list_event_types as list_event_types,
    register_action as register_action,
    register_event_type as register_event_type,
    unregister_action as unregister_action,
    unregister_event_type as unregister_event_type,
)
from headrace.definitions.pass_members import PassResult as PassResult
from headrace.definitions.plans import (
    AppliedChange as AppliedChange,
    Change as Change,
    Operation as Operation,
    Plan as Plan,
    apply as apply,
    plan as plan,
)
from headrace.definitions.store import AnyKind as AnyKind, DefinitionKind as DefinitionKind, StoredDefinition as StoredDefinition
