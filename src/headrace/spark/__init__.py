"""Spark: the same conditions and patterns on PySpark, with the same answers, when one database is not enough.

Owns: the format `headrace`, which reads and writes the log, and the sub-rooms source, sink, match, correlate, scan, stream,
pipeline and backtest. Promises: importing this room imports neither pyspark nor pyarrow; they are imported when they are used."""

from headrace.evaluate import CorrelatorSpec, RuleSpec
from headrace.spark.correlate import MicroBatch, correlate, take_micro_batch
from headrace.spark.credentials import Access
from headrace.spark.engines import run_ecl_cases, spark_engine
from headrace.spark.errors import map_spark_errors
from headrace.spark.match import match
from headrace.spark.progress import LogProgress, StreamProgress, stream_progress
from headrace.spark.reading import read
from headrace.spark.schema import event_schema
from headrace.spark.sessions import register, session
from headrace.spark.stream import correlate_stream

# `match` and `correlate` are the functions here; they hide the sub-rooms of the same name, which are imported by their full names.
__all__ = [
    "Access",
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
    "stream_progress",
    "take_micro_batch",
]
