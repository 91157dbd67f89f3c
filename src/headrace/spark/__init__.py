"""Spark: where one database is not enough, the same conditions and patterns run on PySpark, with the same answers."""

from headrace.spark._engine_condition import spark_conditions
from headrace.spark._match import match
from headrace.spark._match_plan import RuleSpec
from headrace.spark._session import session

__all__ = ["RuleSpec", "match", "session", "spark_conditions"]
