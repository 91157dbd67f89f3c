"""The guide about Spark runs as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from headrace.spark.sink import KNOWN as SINK_OPTIONS
from headrace.spark.source.options import KNOWN as SOURCE_OPTIONS
from tests.builders import drain, topic
from tests.docs import guide
from tests.spark.reading import secret_file


@pytest.mark.lane("pg18")
async def test_spark_guide_runs(spark: SparkSession, database: Target, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    topic(conn, "large_orders")
    for key, type_, city in (("c1", "placed", "Zug"), ("c2", "placed", "Bern"), ("c2", "paid", "Bern"), ("c1", "placed", "Zug")):
        payload = f'{{"customer": {{"city": "{city}"}}}}'
        conn.execute("select headrace.publish('orders', %s, %s::jsonb, p_key => %s)", (f"order.{type_}", payload, key))
    drain(conn)
    names = {"secret": secret_file(tmp_path, database), "folder": str(tmp_path)}
    assert (await guide.run_guide("spark", database, conn, names))["blocks_run"] == 8


def test_spark_guide_names_every_option() -> None:
    text = (guide.DOCS / "spark.md").read_text(encoding="utf-8").lower()
    # Spark's own, which reach a source and a sink beside ours.
    ours = (SOURCE_OPTIONS | SINK_OPTIONS) - {"path", "checkpointlocation", "queryname"}
    assert [name for name in sorted(ours) if f"`{name}`" not in text] == []
