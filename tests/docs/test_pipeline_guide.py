"""The guide about pipelines runs as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from tests.builders import drain, topic
from tests.docs import guide
from tests.rules.steps import write
from tests.spark.pipeline.steps import compile_everything
from tests.spark.reading import secret_file


@pytest.mark.lane("pg18")
async def test_pipeline_guide_runs(spark: SparkSession, database: Target, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    write(conn, "large", "(object -> 'total')::int > 3", type="placed", topic="orders")
    await compile_everything(database)
    for total in range(1, 5):
        conn.execute("select headrace.publish('orders', 'placed', jsonb_build_object('total', %s::int))", (total,))
    drain(conn)
    names = {"secret": secret_file(tmp_path, database)}
    assert (await guide.run_guide("pipeline", database, conn, names))["blocks_run"] == 4
