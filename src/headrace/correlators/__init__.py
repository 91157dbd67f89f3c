"""Correlators: patterns → outputs → actions or events.

Owns: correlators, their versions, and the instance state of every key. Promises: each version produces its outputs exactly once
per position and deadline, because states, outputs and the cursor commit together; user text is never executed."""

from headrace.correlators.batches import BatchResult as BatchResult, WatchedCorrelator as WatchedCorrelator
from headrace.correlators.corpus import run_cases as run_cases
from headrace.correlators.correlator import (
    CORRELATORS as CORRELATORS,
    Correlator as Correlator,
    CorrelatorState as CorrelatorState,
    CorrelatorVersion as CorrelatorVersion,
    KeyEffect as KeyEffect,
    alter_correlator as alter_correlator,
    create_correlator as create_correlator,
    drop_correlator as drop_correlator,
    get_correlator as get_correlator,
    list_correlator_versions as list_correlator_versions,
    list_correlators as list_correlators,
    load_correlators as load_correlators,
    outputs_of_pattern as outputs_of_pattern,
)
from headrace.correlators.engine import CorrelatorEngine as CorrelatorEngine
from headrace.correlators.explanation import KeyState as KeyState, key_state as key_state
from headrace.correlators.history import (
    EvidenceEvent as EvidenceEvent,
    PastOutput as PastOutput,
    list_correlations as list_correlations,
)
from headrace.correlators.instances import (
    deliver_correlations as deliver_correlations,
    instance_of as instance_of,
    read_instances as read_instances,
    write_instances as write_instances,
)
from headrace.correlators.outputs import ActionOutput as ActionOutput, EventOutput as EventOutput, Output as Output
from headrace.correlators.transition_counts import TransitionCounts as TransitionCounts, count_transitions as count_transitions
from headrace.correlators.why_not import (
    KeyStep as KeyStep,
    MissingChange as MissingChange,
    WhyNot as WhyNot,
    explain_silence as explain_silence,
)
