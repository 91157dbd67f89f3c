"""Where it runs: a cluster of two workers, and the user's own session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from headrace.spark import session
from tests.builders import drain, numbers, topic
from tests.spark.reading import publish_numbers, secret_file

CLUSTER = """
import sys
from headrace.spark import session

spark = session(master="local-cluster[2,1,1024]", settings={"spark.ui.enabled": "false", "spark.executor.memory": "512m"})
frame = spark.read.format("headrace").options(secret=sys.argv[1], subscribe="orders", minPartitions="4").load()
copy = frame.selectExpr("'copied' as type", "payload").write.format("headrace").options(secret=sys.argv[1], topic="copy")
copy.mode("append").save()
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print(executors, frame.count())
spark.stop()
"""


def spark_home(folder: Path) -> Path:
    """The installed Spark, in a folder where its workers may write."""
    folder.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (folder / entry.name).symlink_to(entry)
    return folder


@pytest.mark.slow
@pytest.mark.lane("pg18")
def test_cluster_of_two_workers_reads_and_writes(database: Target, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    topic(conn, "copy")
    publish_numbers(conn, 100)
    drain(conn)
    environ = {**os.environ, "SPARK_HOME": str(spark_home(tmp_path / "spark"))}
    command = [sys.executable, "-c", CLUSTER, secret_file(tmp_path, database)]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False, timeout=280)
    assert done.stdout.split() == ["2", "100"], done.stderr[-3000:]
    drain(conn)
    assert sorted(map(int, numbers(conn, "copy"))) == list(range(1, 101))


def test_active_session_is_used_unchanged(spark: SparkSession) -> None:
    before = spark.conf.getAll
    existing = session(master="local[1]", settings={"spark.sql.shuffle.partitions": "77"})
    assert existing is spark and spark.conf.getAll == before
    with pytest.raises(Exception, match="give one of the options subscribe"):
        spark.read.format("headrace").load()
