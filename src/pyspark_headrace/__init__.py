"""Spark imports packages whose names begin with `pyspark_` and registers their DefaultSource: so every session of a Python that has
headrace knows the format `headrace`, also where nothing can be registered, such as in declarative pipelines."""

from headrace.spark.data_source import HeadraceSource as DefaultSource

__all__ = ["DefaultSource"]
