"""Evaluate: rules and patterns over Arrow columns, in one process or in a task of Spark.

Owns: the classification of events by whole columns, and the stepping of their patterns in the fastest way that a table allows, compiled
by numba where it is installed. Promises: the firings, outputs and evidence of the database's engines. Importing this room imports
neither pyarrow nor numba."""

from importlib import import_module
from typing import TYPE_CHECKING

from headrace.evaluate.specs import CorrelatorSpec, RuleSpec

if TYPE_CHECKING:
    from headrace.evaluate.classification import Classifier, Group, make_groups
    from headrace.evaluate.conditions import truth_table
    from headrace.evaluate.rows import (
        OUTPUT_SCHEMA,
        STATE_SCHEMA,
        Rows,
        Stepped,
        sort_rows,
    )
    from headrace.evaluate.stepping import NUMBERED_SCHEMA, WarmStates, make_run, step
    from headrace.evaluate.stream_chunks import CHUNK, CHUNK_SCHEMA, HEAD, OUTPUT, run_chunks, run_heads

__all__ = [
    "CHUNK",
    "CHUNK_SCHEMA",
    "HEAD",
    "NUMBERED_SCHEMA",
    "OUTPUT",
    "OUTPUT_SCHEMA",
    "STATE_SCHEMA",
    "Classifier",
    "CorrelatorSpec",
    "Group",
    "Rows",
    "RuleSpec",
    "Stepped",
    "WarmStates",
    "make_groups",
    "make_run",
    "run_chunks",
    "run_heads",
    "sort_rows",
    "step",
    "truth_table",
]

_MODULES = ("classification", "rows", "stepping", "stream_chunks", "conditions")
"""They need pyarrow, and are imported when one of their names is used."""


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in (import_module(f"{__name__}.{module}") for module in _MODULES):
            if name in vars(module):
                return vars(module)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
