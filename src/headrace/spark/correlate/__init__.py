"""Correlate: patterns over DataFrames, in batches and micro-batches.

Promises: outputs, evidence and order of the database's engine. Importing this room imports neither pyspark nor pyarrow."""

from headrace.spark.correlate.definitions import AnyCorrelator, correlator_specs
from headrace.spark.correlate.frames import MicroBatch, check_event_columns, correlate, state_schema, take_micro_batch

__all__ = [
    "AnyCorrelator",
    "MicroBatch",
    "check_event_columns",
    "correlate",
    "correlator_specs",
    "state_schema",
    "take_micro_batch",
]
