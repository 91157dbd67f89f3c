"""Conditions answered by Spark, over events that are in no log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.lang.condition import (
    Answers,
    Condition,
    Dialect,
    Engine,
    Sample,
    answer_queries,
    field_to_spark,
    joined,
    sample_rows,
    to_spark,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK = Dialect(to_spark, field_to_spark, "")
_SCHEMA = "number int, type string, key string, headers string, payload string, emitted_at timestamp"


def spark_engine(session: SparkSession, *, hoisted: bool = True) -> Engine:
    """The answers of Spark SQL."""

    def answers(conditions: Sequence[Condition], events: Sequence[Sample]) -> Answers:
        session.createDataFrame(sample_rows(events), _SCHEMA).createOrReplaceTempView("sample")
        texts = answer_queries(conditions, _SPARK, hoisted=hoisted)
        return joined(len(events), ([tuple(row) for row in session.sql(text).collect()] for text in texts))

    return answers
