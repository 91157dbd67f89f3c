"""Correlate: patterns over DataFrames, in batches and micro-batches.

Promises: outputs, evidence and order of the database's engine. Importing this room imports neither pyspark nor pyarrow."""

from headrace.spark.correlate.definitions import AnyCorrelator, correlator_specs
from headrace.spark.correlate.frames import MicroBatch, correlate, correlate_log, state_schema, take_micro_batch
from headrace.spark.correlate.symbols import CorrelatorSpec, build_classifier

__all__ = [
    "AnyCorrelator",
    "CorrelatorSpec",
    "MicroBatch",
    "build_classifier",
    "correlate",
    "correlate_log",
    "correlator_specs",
    "state_schema",
    "take_micro_batch",
]
