"""Spark: where one database is not enough, the same conditions run on PySpark, with the same answers.

The log is read and written by `format("headrace")`; nothing here imports pyspark before it is used."""

from headrace.spark._condition import spark_engine
from headrace.spark._extract import Extract, extract_option
from headrace.spark._schema import event_schema
from headrace.spark._session import register, session

__all__ = ["Extract", "event_schema", "extract_option", "register", "session", "spark_engine"]
