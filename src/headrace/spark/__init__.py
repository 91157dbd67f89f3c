"""Spark: where one database is not enough, the same conditions and patterns run on PySpark, with the same answers.

The log is read and written by `format("headrace")`; nothing here imports pyspark before it is used."""

from headrace.spark._condition import spark_engine
from headrace.spark._correlate import Correlated, correlate, correlate_batch
from headrace.spark._correlate_stream import MicroBatch, take_micro_batch
from headrace.spark._correlate_symbols import CorrelatorSpec
from headrace.spark._credentials import Access
from headrace.spark._engine import run_ecl_cases
from headrace.spark._engine_condition import spark_conditions
from headrace.spark._extract import Extract, extract_option
from headrace.spark._match import match
from headrace.spark._match_plan import RuleSpec
from headrace.spark._range import SHORT_MAX, Range, columns_read, read_range
from headrace.spark._schema import event_schema
from headrace.spark._session import register, session

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
