"""Correlators: patterns → outputs → actions or events.

Owns: correlators, their versions, and the instance state of every key. Promises: each version produces its outputs exactly once
per position and deadline, because states, outputs and the cursor commit together; user text is never executed."""

from headrace.correlators.batches import Correlated, WatchedCorrelator
from headrace.correlators.carrying import Carried
from headrace.correlators.corpus import Observed, Run, observe, run_cases
from headrace.correlators.correlator import (
    Correlator,
    CorrelatorState,
    alter_correlator,
    create_correlator,
    drop_correlator,
    get_correlator,
    list_correlators,
)
from headrace.correlators.correlator_file import (
    CorrelatorChange,
    CorrelatorPlan,
    apply_correlators,
    load_correlators,
    plan_correlators,
)
from headrace.correlators.engine import CorrelatorEngine
from headrace.correlators.explanation import KeyState, key_state
from headrace.correlators.history import PastOutput, list_correlations
from headrace.correlators.instances import (
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
from headrace.correlators.outputs import ActionOutput, EventOutput, Output, read_outputs
from headrace.correlators.stepping import Batch, Classified

__all__ = [
    "ActionOutput",
    "Batch",
    "Carried",
    "Classified",
    "Correlated",
    "Correlation",
    "Correlator",
    "CorrelatorChange",
    "CorrelatorEngine",
    "CorrelatorPlan",
    "CorrelatorState",
    "EventOutput",
    "Instance",
    "KeyState",
    "Observed",
    "Output",
    "PastOutput",
    "Run",
    "WatchedCorrelator",
    "alter_correlator",
    "apply_correlators",
    "create_correlator",
    "deliver_correlations",
    "drop_correlator",
    "from_us",
    "get_correlator",
    "instance_arrays",
    "instance_of",
    "key_state",
    "list_correlations",
    "list_correlators",
    "load_correlators",
    "observe",
    "output_arrays",
    "plan_correlators",
    "read_instances",
    "read_outputs",
    "run_cases",
    "to_us",
    "write_instances",
]
