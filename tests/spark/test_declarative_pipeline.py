"""A topic is a source and a sink of Spark Declarative Pipelines, run by Spark's own runner as the example says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from headrace.db import Connection, Target
from headrace.log import read_log
from headrace.outbox import publish
from headrace.spark.java import ensure_java
from tests.builders import drain, topic

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.slow]
EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_pipeline"
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
}


def run_pipeline(folder: Path, secrets: Path) -> str:
    ensure_java()
    environment = {
        **os.environ,
        "HEADRACE_SECRETS": str(secrets),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    settings = [word for name, value in LOCAL.items() for word in ("--conf", f"{name}={value}")]
    command = ["spark-pipelines", "run", "--spec", str(folder / "spark-pipeline.yml"), "--remote", "local[2]", *settings]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=220, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.mark.timeout(600)
def test_each_run_takes_what_is_new_and_publishes_it_once(database: Target, conn: Connection, tmp_path: Path) -> None:
    for name in ("orders", "large_orders"):
        topic(conn, name)
    for city, amount in (("Zug", 90), ("Bern", 110), ("Zug", 130)):
        publish(conn, "orders", "order.placed", {"city": city, "amount": amount}, key=city)
    drain(conn)
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "shop").write_text(database.dsn)
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/headrace-pipeline", str(tmp_path / "storage")))

    def published() -> list[tuple[str, str | None, object]]:
        drain(conn)
        return [(event.type, event.key, event.payload["amount"]) for event in read_log(conn, "large_orders")]

    run_pipeline(folder, secrets)
    assert published() == [("order.large", "Bern", 110), ("order.large", "Zug", 130)]
    publish(conn, "orders", "order.placed", {"city": "Basel", "amount": 500}, key="Basel")
    drain(conn)
    run_pipeline(folder, secrets)
    assert published() == [("order.large", "Bern", 110), ("order.large", "Zug", 130), ("order.large", "Basel", 500)]
