"""Spark as an engine of the ECL corpus. It imports what it calls late: the room is there also where Spark is not installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lang.ecl import Case


def run_ecl_cases(
    session: SparkSession, cases: Sequence[Case], engine: Literal["spark", "spark-stream"] = "spark"
) -> list[str | None]:
    """What differs from each case's answers when Spark runs it, in batch or as a stream, or None; in a few jobs for all."""
    from headrace.spark.correlate.corpus_engine import differences

    return differences(session, cases, engine)
