"""A topic is a source and a sink of Spark Declarative Pipelines, run by Spark's own runner as guide and example say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyspark
import pytest

from headrace.db import Connection, Target
from headrace.log.outbox import publish
from headrace.log.topics import read_log
from headrace.spark.sessions import ensure_java
from tests.builders import ROOT, drain, topic

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.slow, pytest.mark.timeout(600)]
EXAMPLE = ROOT / "examples" / "spark_pipeline"
STORAGE = "/tmp/headrace-pipeline"
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
}
HIVE = {"spark.sql.catalogImplementation": "hive"}
"""A catalog that outlives a run."""


@pytest.fixture
def folder(database: Target, conn: Connection, tmp_path: Path) -> Path:
    """The example, with a storage and a secret of its own, and the topics that it reads and writes."""
    for name in ("orders", "large_orders"):
        topic(conn, name)
    (tmp_path / "shop").write_text(database.dsn)
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    spec = folder / "spark-pipeline.yml"
    assert STORAGE in spec.read_text()
    spec.write_text(spec.read_text().replace(STORAGE, str(tmp_path / "storage")))
    return folder


def spark_pipelines(folder: Path, *words: str, settings: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    ensure_java()
    environment = {
        **os.environ,
        "HEADRACE_SECRETS": str(folder.parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    confs = [f"--conf={name}={value}" for name, value in {**LOCAL, **(settings or {})}.items()]
    command = ["spark-pipelines", "run", *words, *confs]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=220, check=False)


def run(folder: Path, *words: str, settings: dict[str, str] | None = None) -> None:
    done = spark_pipelines(folder, *words, settings=settings)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def order(conn: Connection, *amounts: int) -> None:
    for amount in amounts:
        publish(conn, "orders", "order.placed", {"city": "Zug", "amount": amount}, key="Zug")
    drain(conn)


def large_orders(conn: Connection) -> Sequence[tuple[str, str | None, object]]:
    drain(conn)
    return [(event.type, event.key, event.payload["amount"]) for event in read_log(conn, "large_orders")]


def rows_of(folder: Path, table: str) -> list[dict[str, object]]:
    import pyarrow.parquet as pq

    return pq.read_table(folder / "spark-warehouse" / table).to_pylist()


def test_a_pipeline_publishes_what_it_reads_from_a_topic(conn: Connection, folder: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "spark.md").read_text(), re.DOTALL)
    (definitions,) = [block for block in blocks if "create_sink" in block]
    (folder / "definitions" / "orders.py").write_text(definitions)
    order(conn, 90, 110, 130)
    run(folder)
    assert large_orders(conn) == [("order.large", "Zug", 110), ("order.large", "Zug", 130)]


def test_each_run_takes_what_is_new_and_publishes_it_once(conn: Connection, folder: Path) -> None:
    order(conn, 90, 110, 130)
    run(folder, "--remote", "local[2]", settings=HIVE)
    assert large_orders(conn) == [("order.large", "Zug", 110), ("order.large", "Zug", 130)]
    assert rows_of(folder, "orders_per_city") == [{"city": "Zug", "orders": 3}]
    order(conn, 500, 20)
    run(folder, settings=HIVE)
    run(folder, settings=HIVE)
    assert [amount for _, _, amount in large_orders(conn)] == [110, 130, 500]
    assert len(rows_of(folder, "orders")) == 5
    assert rows_of(folder, "orders_per_city") == [{"city": "Zug", "orders": 5}]


def test_tables_of_a_second_run_need_a_catalog_that_outlives_the_first(conn: Connection, folder: Path) -> None:
    order(conn, 110)
    run(folder)
    done = spark_pipelines(folder)
    assert done.returncode != 0
    assert "LOCATION_ALREADY_EXISTS" in done.stdout + done.stderr
