"""Spark: where one database is not enough, the same conditions run on PySpark, with the same answers."""

from headrace.spark._condition import spark_engine
from headrace.spark._session import session

__all__ = ["session", "spark_engine"]
