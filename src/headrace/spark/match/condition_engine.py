"""Spark evaluates conditions over events that are in no log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.lang.condition import (
    Condition,
    Engine,
    Sample,
    SqlDialect,
    TruthTable,
    evaluate_sql,
    field_to_spark,
    sample_rows,
    to_spark,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK = SqlDialect(to_spark, field_to_spark, "")
_SCHEMA = "number int, type string, key string, headers string, payload string, emitted_at timestamp"


def spark_engine(session: SparkSession) -> Engine:
    """The engine of Spark SQL."""

    def evaluate(conditions: Sequence[Condition], events: Sequence[Sample]) -> TruthTable:
        session.createDataFrame(sample_rows(events), _SCHEMA).createOrReplaceTempView("sample")
        return evaluate_sql(conditions, len(events), _SPARK, lambda text: session.sql(text).collect())

    return evaluate
