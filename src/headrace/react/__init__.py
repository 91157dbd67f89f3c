"""React: rules that turn events into actions.

Owns: rules, their versions, and firings. Promises: each version fires exactly once per position, whatever crashes, since firings,
actions and the cursor commit together; every event ends as matched or unmatched; user text is never executed."""

from headrace.react._file import load_rules
from headrace.react._names import (
    ActionName,
    EventType,
    list_actions,
    list_event_types,
    register_action,
    register_event_type,
    unregister_action,
    unregister_event_type,
)
from headrace.react._plan import Change, Plan, apply, plan
from headrace.react._reactor import Reacted, Reactor, Watched
from headrace.react._rule import Rule, RuleState, alter_rule, create_rule, drop_rule, get_rule, list_rules
from headrace.react._tester import database_engine
from headrace.react._trace import Firing, Look, Trace, trace
from headrace.react._version import RuleVersion, list_versions

__all__ = [
    "ActionName",
    "Change",
    "EventType",
    "Firing",
    "Look",
    "Plan",
    "Reacted",
    "Reactor",
    "Rule",
    "RuleState",
    "RuleVersion",
    "Trace",
    "Watched",
    "alter_rule",
    "apply",
    "create_rule",
    "database_engine",
    "drop_rule",
    "get_rule",
    "list_actions",
    "list_event_types",
    "list_rules",
    "list_versions",
    "load_rules",
    "plan",
    "register_action",
    "register_event_type",
    "trace",
    "unregister_action",
    "unregister_event_type",
]
