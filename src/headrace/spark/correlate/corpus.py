"""Spark as an engine of the ECL corpus; imported also where Spark is not installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lang.ecl import Case


def run_ecl_cases(
    session: SparkSession, cases: Sequence[Case], engine: Literal["spark", "spark-stream"] = "spark"
) -> list[str | None]:
    """The difference between Spark's answers, in batch or as a stream, and those of each case, or None; a few jobs for all."""
    from headrace.lang.ecl import difference
    from headrace.spark.correlate.corpus_runner import observe_cases

    observations = observe_cases(session, cases, is_stream=engine == "spark-stream")
    return [difference(case, engine, seen) for case, seen in zip(cases, observations, strict=True)]
