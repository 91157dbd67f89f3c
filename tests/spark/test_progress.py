"""A stream says how far it is: rows, rate, positions and lag of every log; jobs have names in Spark's UI."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from headrace.spark import LogProgress, stream_progress
from headrace.spark.jobs import job_description
from tests.builders import drain, topic
from tests.spark.reading import publish_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")


def test_progress_has_rows_rate_position_and_lag(spark: SparkSession, conn: Connection, database: Target, tmp_path: Path) -> None:
    for name, count in (("orders", 40), ("payments", 10)):
        topic(conn, name)
        publish_numbers(conn, count, topic=name)
    drain(conn)
    source = spark.readStream.format("headrace").options(
        secret=secret_file(tmp_path, database), subscribe="orders,payments", startingOffsets="earliest", maxOffsetsPerTrigger="30"
    )
    query = (
        source.load()
        .writeStream.format("noop")
        .queryName("copy")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    first, second = (stream_progress(report) for report in query.recentProgress if report.numInputRows)
    assert first is not None and second is not None
    assert (first.query, first.batch, first.rows, first.lag) == ("copy", 0, 30, 20)
    assert first.logs == (LogProgress("main", "orders", 24, 40), LogProgress("main", "payments", 6, 10))
    assert (second.batch, second.rows, second.lag) == (1, 20, 0) and second.rows_per_s > 0
    assert stream_progress(query) in (second, stream_progress(query.recentProgress[-1]))
    html = first._repr_html_()
    assert "copy, batch 0: 30 rows" in html and "<td>payments</td>" in html


def test_stream_of_another_source_has_no_progress_of_ours(spark: SparkSession, tmp_path: Path) -> None:
    query = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=5)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(once=True)
        .start()
    )
    query.awaitTermination()
    assert query.lastProgress is not None and stream_progress(query) is None


def test_job_has_a_name_in_the_ui_unless_the_user_gave_one(spark: SparkSession) -> None:
    context = spark.sparkContext

    def description() -> str | None:
        return context.getLocalProperty("spark.job.description")

    with job_description(spark, "headrace backtest of large"):
        assert description() == "headrace backtest of large"
    assert description() is None
    context.setJobDescription("mine")
    try:
        with job_description(spark, "headrace"):
            assert description() == "mine"
        assert description() == "mine"
    finally:
        context.setLocalProperty("spark.job.description", None)
