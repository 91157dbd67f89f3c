"""The guide about backtests runs as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from tests.builders import fill, topic
from tests.docs.guide import run_guide

RULE = """rules: [{name: large, topic: orders, event_type: placed, condition: "object::int > 3", action: call}]"""


@pytest.mark.lane("pg18")
async def test_backtest_guide_runs(spark: SparkSession, database: Target, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    fill(conn, 10)
    (tmp_path / "rules.yaml").write_text(RULE)
    provided = {"spark": spark, "target": database, "rules_file": str(tmp_path / "rules.yaml")}
    names: dict[str, Any] = await run_guide("backtest", database, conn, provided)
    assert (names["blocks_run"], names["report"].results[0].would) == (1, 7)
