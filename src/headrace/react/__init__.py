"""React: rules and correlators, which turn events into actions and further events.

Owns: rules, correlators, their versions, firings, and where the keys of correlators stand. Promises: each version fires exactly
once per position, whatever crashes, since firings, states, actions and the cursor commit together; every event ends as matched or
unmatched; user text is never executed."""

from headrace.react._carry import Carried
from headrace.react._corpus import Observed, Run, observe, run_cases
from headrace.react._correlate import Correlated, WatchedCorrelator
from headrace.react._correlator import (
    Correlator,
    CorrelatorState,
    alter_correlator,
    create_correlator,
    drop_correlator,
    find_correlator,
    list_correlators,
)
from headrace.react._correlator_file import (
    CorrelatorChange,
    CorrelatorPlan,
    apply_correlators,
    load_correlators,
    plan_correlators,
)
from headrace.react._correlators import Correlators
from headrace.react._explain import KeyState, key_state
from headrace.react._history import PastOutput, list_correlations
from headrace.react._instance import (
    Correlation,
    Instance,
    deliver_correlations,
    from_us,
    instance_arrays,
    instance_of,
    output_arrays,
    read_instances,
    to_us,
    write_instances,
)
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
from headrace.react._output import ActionOutput, EventOutput, Output, read_outputs
from headrace.react._plan import Change, Plan
from headrace.react._reactor import Reacted, Reactor, Watched
from headrace.react._rule import Rule, RuleState, alter_rule, create_rule, drop_rule, get_rule, list_rules
from headrace.react._rule_file import RulePlan, apply, load_rules, plan
from headrace.react._step import Batch, Classified
from headrace.react._tester import database_engine
from headrace.react._trace import Firing, Look, Pushed, Trace, trace
from headrace.react._version import RuleVersion, list_versions

__all__ = [
    "ActionName",
    "ActionOutput",
    "Batch",
    "Carried",
    "Change",
    "Classified",
    "Correlated",
    "Correlation",
    "Correlator",
    "CorrelatorChange",
    "CorrelatorPlan",
    "CorrelatorState",
    "Correlators",
    "EventOutput",
    "EventType",
    "Firing",
    "Instance",
    "KeyState",
    "Look",
    "Observed",
    "Output",
    "PastOutput",
    "Plan",
    "Pushed",
    "Reacted",
    "Reactor",
    "Rule",
    "RulePlan",
    "RuleState",
    "RuleVersion",
    "Run",
    "Trace",
    "Watched",
    "WatchedCorrelator",
    "alter_correlator",
    "alter_rule",
    "apply",
    "apply_correlators",
    "create_correlator",
    "create_rule",
    "database_engine",
    "deliver_correlations",
    "drop_correlator",
    "drop_rule",
    "find_correlator",
    "from_us",
    "get_rule",
    "instance_arrays",
    "instance_of",
    "key_state",
    "list_actions",
    "list_correlations",
    "list_correlators",
    "list_event_types",
    "list_rules",
    "list_versions",
    "load_correlators",
    "load_rules",
    "observe",
    "output_arrays",
    "plan",
    "plan_correlators",
    "read_instances",
    "read_outputs",
    "register_action",
    "register_event_type",
    "run_cases",
    "to_us",
    "trace",
    "unregister_action",
    "unregister_event_type",
    "write_instances",
]
