"""Spark: where one database is not enough, the same conditions run on PySpark, with the same answers."""

from headrace.spark._session import session

__all__ = ["session"]
