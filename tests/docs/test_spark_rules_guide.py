"""The guide about rules and patterns on DataFrames runs as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from tests.builders import drain, shift_clock, topic
from tests.docs.guide import run_guide
from tests.spark.reading import secret_file


@pytest.mark.lane("pg18")
async def test_spark_rules_guide_runs(spark: SparkSession, database: Target, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    events = [("placed", "c1", 150), ("paid", "c1", 150), ("placed", "c2", 20), ("seen", "c3", 0)]
    for hour, (type_, key, amount) in enumerate(events):
        shift_clock(conn, f"{hour * 40} minutes")
        statement = "select headrace.publish('orders', %s, jsonb_build_object('amount', %s::int), p_key => %s)"
        conn.execute(statement, (f"order.{type_}", amount, key))
        drain(conn)
    shift_clock(conn, "4 hours")
    conn.execute("select headrace.publish('orders', 'order.seen', '{}', p_key => 'c4')")
    drain(conn)
    names = {"spark": spark, "secret": secret_file(tmp_path, database)}
    assert (await run_guide("spark-rules", database, conn, names))["blocks_run"] == 5
