"""React: rules that turn events into actions.

Owns: rules, their versions, and firings. Promises: each version fires exactly once per position, whatever crashes, since firings,
actions and the cursor commit together; every event ends as matched or unmatched; user text is never executed."""

from headrace.react._file import load_rules
from headrace.react._plan import Change, Plan, apply, plan
from headrace.react._reactor import Reacted, Reactor, Watched
from headrace.react._rule import Rule, RuleState, alter_rule, create_rule, drop_rule, list_rules
from headrace.react._trace import Firing, Look, Trace, trace

__all__ = [
    "Change",
    "Firing",
    "Look",
    "Plan",
    "Reacted",
    "Reactor",
    "Rule",
    "RuleState",
    "Trace",
    "Watched",
    "alter_rule",
    "apply",
    "create_rule",
    "drop_rule",
    "list_rules",
    "load_rules",
    "plan",
    "trace",
]
