"""Correlators: patterns → outputs → actions or events.

Owns: correlators, their versions, and the instance state of every key. Promises: each version produces its outputs exactly once
per position and deadline, because states, outputs and the cursor commit together; user text is never executed."""

from headrace.correlators.batches import BatchResult, WatchedCorrelator
from headrace.correlators.corpus import run_cases
from headrace.correlators.correlator import (
    CORRELATORS,
    Correlator,
    CorrelatorState,
    CorrelatorVersion,
    KeyEffect,
    alter_correlator,
    create_correlator,
    drop_correlator,
    get_correlator,
    list_correlator_versions,
    list_correlators,
    load_correlators,
    outputs_of_pattern,
)
from headrace.correlators.engine import CorrelatorEngine
from headrace.correlators.explanation import KeyState, key_state
from headrace.correlators.history import EvidenceEvent, PastOutput, list_correlations
from headrace.correlators.instances import deliver_correlations, instance_of, read_instances, write_instances
from headrace.correlators.outputs import ActionOutput, EventOutput, Output
from headrace.correlators.transition_counts import TransitionCounts, count_transitions
from headrace.correlators.why_not import KeyStep, MissingChange, WhyNot, explain_silence

__all__ = [
    "CORRELATORS",
    "ActionOutput",
    "BatchResult",
    "Correlator",
    "CorrelatorEngine",
    "CorrelatorState",
    "CorrelatorVersion",
    "EventOutput",
    "EvidenceEvent",
    "KeyEffect",
    "KeyState",
    "KeyStep",
    "MissingChange",
    "Output",
    "PastOutput",
    "TransitionCounts",
    "WatchedCorrelator",
    "WhyNot",
    "alter_correlator",
    "count_transitions",
    "create_correlator",
    "deliver_correlations",
    "drop_correlator",
    "explain_silence",
    "get_correlator",
    "instance_of",
    "key_state",
    "list_correlations",
    "list_correlator_versions",
    "list_correlators",
    "load_correlators",
    "outputs_of_pattern",
    "read_instances",
    "run_cases",
    "write_instances",
]
