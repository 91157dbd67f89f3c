"""Spark: where one database is not enough, the same conditions and patterns run on PySpark, with the same answers."""

from headrace.spark._correlate import Correlated, correlate, correlate_batch
from headrace.spark._correlate_stream import MicroBatch, take_micro_batch
from headrace.spark._correlate_symbols import CorrelatorSpec
from headrace.spark._engine import run_ecl_cases
from headrace.spark._engine_condition import spark_conditions
from headrace.spark._match import match
from headrace.spark._match_plan import RuleSpec
from headrace.spark._session import session

__all__ = [
    "Correlated",
    "CorrelatorSpec",
    "MicroBatch",
    "RuleSpec",
    "correlate",
    "correlate_batch",
    "match",
    "run_ecl_cases",
    "session",
    "spark_conditions",
    "take_micro_batch",
]
