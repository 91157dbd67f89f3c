"""Correlate: patterns over DataFrames, in batches and micro-batches.

Promises: outputs, evidence and order of the database's engine. Importing this room imports neither pyspark nor pyarrow."""

from typing import TYPE_CHECKING

from headrace.spark.correlate.definitions import AnyCorrelator, correlator_specs
from headrace.spark.correlate.frames import MicroBatch, check_event_columns, correlate, state_schema, take_micro_batch
from headrace.spark.correlate.symbols import CorrelatorSpec

if TYPE_CHECKING:
    from headrace.spark.correlate.rows import Rows
    from headrace.spark.correlate.stepping import NUMBERED_SCHEMA, make_run, step
    from headrace.spark.correlate.warm_states import WarmStates

__all__ = [
    "NUMBERED_SCHEMA",
    "AnyCorrelator",
    "CorrelatorSpec",
    "MicroBatch",
    "Rows",
    "WarmStates",
    "check_event_columns",
    "correlate",
    "correlator_specs",
    "make_run",
    "state_schema",
    "step",
    "take_micro_batch",
]


def __getattr__(name: str) -> object:
    # These need pyarrow, which is imported only when Spark is used.
    modules = {
        "NUMBERED_SCHEMA": "stepping",
        "Rows": "rows",
        "WarmStates": "warm_states",
        "make_run": "stepping",
        "step": "stepping",
    }
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{modules[name]}"), name)
