"""Spark: the same conditions and patterns on PySpark, with the same answers, when one database is not enough.

Owns: the format `headrace`, which reads and writes the log (source, sink), rules and patterns over DataFrames (frames) and streams
(stream), topics that run on Spark (pipeline), and look-backs (backtest). Promises: importing this room imports neither pyspark nor
pyarrow; they are imported when they are used."""

from importlib import import_module
from typing import TYPE_CHECKING

from headrace.evaluate import CorrelatorSpec, RuleSpec
from headrace.spark.credentials import Access
from headrace.spark.frames import AnyCorrelator, AnyRule, MicroBatch, correlate, match, state_schema, take_micro_batch
from headrace.spark.jobs import LogProgress, StreamProgress, map_spark_errors, stream_progress
from headrace.spark.schema import event_schema
from headrace.spark.sessions import read, register, session

if TYPE_CHECKING:
    from headrace.spark.corpus import run_ecl_cases, spark_engine
    from headrace.spark.stream import correlate_stream

__all__ = [
    "Access",
    "AnyCorrelator",
    "AnyRule",
    "CorrelatorSpec",
    "LogProgress",
    "MicroBatch",
    "RuleSpec",
    "StreamProgress",
    "correlate",
    "correlate_stream",
    "event_schema",
    "map_spark_errors",
    "match",
    "read",
    "register",
    "run_ecl_cases",
    "session",
    "spark_engine",
    "state_schema",
    "stream_progress",
    "take_micro_batch",
]

_MODULES = {"correlate_stream": "stream", "run_ecl_cases": "corpus", "spark_engine": "corpus"}
"""The modules that need pyspark and pyarrow, by the names they give."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
