"""Evaluate: rules and patterns over Arrow columns, in one process or in a task of Spark.

Owns: the classification of events by whole columns, and the stepping of their patterns in the fastest way that a table allows, compiled
by numba where it is installed. Promises: the firings, outputs and evidence of the database's engines. Importing this room imports
neither pyarrow nor numba."""

from typing import TYPE_CHECKING

from headrace.evaluate.specs import CorrelatorSpec, RuleSpec

if TYPE_CHECKING:
    from headrace.evaluate.classification import Classifier, Group, make_groups
    from headrace.evaluate.rows import BOTH_SCHEMA, OUTPUT, OUTPUT_SCHEMA, STATE, STATE_SCHEMA, Rows, Stepped, concatenate, tagged
    from headrace.evaluate.sorting import sort_rows
    from headrace.evaluate.stepping import NUMBERED_SCHEMA, make_run, step
    from headrace.evaluate.stream_chunks import CHUNK, CHUNK_SCHEMA, HEAD, run_chunks, run_heads, unreadable
    from headrace.evaluate.warm_states import WarmStates

__all__ = [
    "BOTH_SCHEMA",
    "CHUNK",
    "CHUNK_SCHEMA",
    "HEAD",
    "NUMBERED_SCHEMA",
    "OUTPUT",
    "OUTPUT_SCHEMA",
    "STATE",
    "STATE_SCHEMA",
    "Classifier",
    "CorrelatorSpec",
    "Group",
    "Rows",
    "RuleSpec",
    "Stepped",
    "WarmStates",
    "concatenate",
    "make_groups",
    "make_run",
    "run_chunks",
    "run_heads",
    "sort_rows",
    "step",
    "tagged",
    "unreadable",
]

_MODULES = {
    "BOTH_SCHEMA": "rows",
    "CHUNK": "stream_chunks",
    "CHUNK_SCHEMA": "stream_chunks",
    "Classifier": "classification",
    "Group": "classification",
    "HEAD": "stream_chunks",
    "NUMBERED_SCHEMA": "stepping",
    "OUTPUT": "rows",
    "OUTPUT_SCHEMA": "rows",
    "Rows": "rows",
    "STATE": "rows",
    "STATE_SCHEMA": "rows",
    "Stepped": "rows",
    "WarmStates": "warm_states",
    "concatenate": "rows",
    "make_groups": "classification",
    "make_run": "stepping",
    "run_chunks": "stream_chunks",
    "run_heads": "stream_chunks",
    "sort_rows": "sorting",
    "step": "stepping",
    "tagged": "rows",
    "unreadable": "stream_chunks",
}
"""The modules that need pyarrow, by the names they give."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
