"""Spark: the same conditions and patterns on PySpark, with the same answers, when one database is not enough.

Owns: the format `headrace`, which reads and writes the log (source, sink), rules and patterns over DataFrames (frames) and streams
(stream), topics that run on Spark (pipeline), and look-backs (backtest). Promises: importing this room imports neither pyspark nor
pyarrow; they are imported when they are used."""

from typing import TYPE_CHECKING

from headrace.evaluate import CorrelatorSpec as CorrelatorSpec, RuleSpec as RuleSpec
from headrace.lazy_names import lazy_names
from headrace.spark.credentials import Access as Access
from headrace.spark.frames import (
    AnyCorrelator as AnyCorrelator,
    AnyRule as AnyRule,
    MicroBatch as MicroBatch,
    correlate as correlate,
    match as match,
    state_schema as state_schema,
    take_micro_batch as take_micro_batch,
)
from headrace.spark.jobs import (
    LogProgress as LogProgress,
    StreamProgress as StreamProgress,
    map_spark_errors as map_spark_errors,
    stream_progress as stream_progress,
)
from headrace.spark.schema import event_schema as event_schema
from headrace.spark.sessions import read as read, register as register, session as session

if TYPE_CHECKING:
    from headrace.spark.corpus import run_ecl_cases as run_ecl_cases, spark_engine as spark_engine
    from headrace.spark.stream import correlate_stream as correlate_stream
else:
    # These need pyspark and pyarrow.
    __getattr__ = lazy_names(__name__, "stream", "corpus")
