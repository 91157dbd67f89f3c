"""Spark: where one database is not enough, the same conditions and patterns run on PySpark, with the same answers.

The log is read and written by `format("headrace")`; nothing here imports pyspark before it is used."""

from headrace.spark.correlate.corpus import run_ecl_cases
from headrace.spark.correlate.correlating import Correlated, correlate, correlate_batch
from headrace.spark.correlate.micro_batch import MicroBatch, take_micro_batch
from headrace.spark.correlate.symbols import CorrelatorSpec
from headrace.spark.credentials import Access
from headrace.spark.match.condition_engine import spark_engine
from headrace.spark.match.corpus import spark_conditions
from headrace.spark.match.matching import match
from headrace.spark.match.plan import RuleSpec
from headrace.spark.schema import event_schema
from headrace.spark.source.extract import Extract, extract_option
from headrace.spark.source.ranges import SHORT_MAX, Range, columns_read, read_range
from headrace.spark.spark_session import register, session

__all__ = [
    "SHORT_MAX",
    "Access",
    "Correlated",
    "CorrelatorSpec",
    "Extract",
    "MicroBatch",
    "Range",
    "RuleSpec",
    "columns_read",
    "correlate",
    "correlate_batch",
    "event_schema",
    "extract_option",
    "match",
    "read_range",
    "register",
    "run_ecl_cases",
    "session",
    "spark_conditions",
    "spark_engine",
    "take_micro_batch",
]
