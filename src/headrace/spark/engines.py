"""Spark as an engine of the two languages: evaluates conditions over events that are in no log, and runs the ECL corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

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

    from headrace.lang.ecl import Case

_SPARK = SqlDialect(to_spark, field_to_spark, "")
_SCHEMA = "number int, type string, key string, headers string, payload string, emitted_at timestamp"


def spark_engine(session: SparkSession) -> Engine:
    """The engine of Spark SQL."""

    def evaluate(conditions: Sequence[Condition], events: Sequence[Sample]) -> TruthTable:
        session.createDataFrame(sample_rows(events), _SCHEMA).createOrReplaceTempView("sample")
        return evaluate_sql(conditions, len(events), _SPARK, lambda text: session.sql(text).collect())

    return evaluate


def run_ecl_cases(
    session: SparkSession, cases: Sequence[Case], engine: Literal["spark", "spark-stream"] = "spark"
) -> list[str | None]:
    """The difference between Spark's answers, in batch or as a stream, and those of each case, or None; a few jobs for all."""
    from headrace.lang.ecl import difference
    from headrace.spark.correlate.corpus_runner import observe_cases

    observations = observe_cases(session, cases, is_stream=engine == "spark-stream")
    return [difference(case, engine, observation) for case, observation in zip(cases, observations, strict=True)]
