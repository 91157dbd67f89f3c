"""Frames: rules and patterns over DataFrames. `match` gives the rules that fire, `correlate` the tokens that patterns push.

Promises: firings, outputs, evidence and order of the database's engines. Importing this room imports neither pyspark nor pyarrow."""

from importlib import import_module
from typing import TYPE_CHECKING

from headrace.spark.frames.correlation import MicroBatch, check_event_columns, correlate, state_schema, take_micro_batch
from headrace.spark.frames.definitions import AnyCorrelator, AnyRule, correlator_specs, rule_specs
from headrace.spark.frames.matching import match

if TYPE_CHECKING:
    from headrace.spark.frames.classified_events import (
        BUFFER_ROWS,
        CHUNK_TYPE,
        LIVE,
        RULES,
        ChunkBuffer,
        Watched,
        classify_range,
        make_chunks,
        own_events,
        read_chunks,
        within,
    )

__all__ = [
    "BUFFER_ROWS",
    "CHUNK_TYPE",
    "LIVE",
    "RULES",
    "AnyCorrelator",
    "AnyRule",
    "ChunkBuffer",
    "MicroBatch",
    "Watched",
    "check_event_columns",
    "classify_range",
    "correlate",
    "correlator_specs",
    "make_chunks",
    "match",
    "own_events",
    "read_chunks",
    "rule_specs",
    "state_schema",
    "take_micro_batch",
    "within",
]


def __getattr__(name: str) -> object:
    # The rest needs pyarrow, and is imported when one of its names is used.
    if name in __all__:
        return getattr(import_module(f"{__name__}.classified_events"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
