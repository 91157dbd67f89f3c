"""The sink and kill -9 of driver and JVM, at the worst moment and at random ones."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from tests.builders import drain, numbers, topic
from tests.spark.reading import publish_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")
EVENTS = 200


@pytest.fixture
def secret(database: Target, conn: Connection, tmp_path: Path) -> str:
    topic(conn)
    topic(conn, "copy")
    publish_numbers(conn, EVENTS)
    drain(conn)
    return secret_file(tmp_path, database)


def driver(secret: str, checkpoint: Path, *die_at: str) -> subprocess.Popen[bytes]:
    """A driver in its own process session, so that its JVM and workers end with it."""
    command = [sys.executable, "-m", "tests.spark.sink.driver", secret, str(checkpoint), *die_at]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def copied(conn: Connection) -> list[object]:
    drain(conn)
    return numbers(conn, "copy")


def run(spark: SparkSession, secret: str, checkpoint: Path) -> None:
    stream = spark.readStream.format("headrace").options(
        secret=secret, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="150"
    )
    sink = stream.load().drop("event_id").writeStream.format("headrace").options(secret=secret, topic="copy")
    sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def test_batch_whose_commit_spark_forgot_is_not_published_twice(
    spark: SparkSession, conn: Connection, secret: str, tmp_path: Path
) -> None:
    """Removes Spark's own note of the commit, as a crash between the sink's commit and that note would."""
    checkpoint = tmp_path / "checkpoint"
    run(spark, secret, checkpoint)
    assert copied(conn) == list(range(1, EVENTS + 1))
    for note in ("1", ".1.crc"):
        (checkpoint / "commits" / note).unlink(missing_ok=True)
    publish_numbers(conn, 10, first=EVENTS + 1)
    drain(conn)
    run(spark, secret, checkpoint)
    assert copied(conn) == list(range(1, EVENTS + 11))
    batches = conn.execute("select batch, rows from headrace_internal.spark_batch order by batch").fetchall()
    assert batches == [(0, 150), (1, 50), (2, 10)]


@pytest.mark.slow
def test_driver_killed_between_the_two_commits_publishes_once(conn: Connection, secret: str, tmp_path: Path) -> None:
    killed = driver(secret, tmp_path / "checkpoint", "2")
    assert killed.wait(180) == -signal.SIGKILL
    assert sorted(map(int, copied(conn))) == list(range(1, 121))  # Batches 0 to 2 are published,
    assert not (tmp_path / "checkpoint" / "commits" / "2").exists()  # and Spark does not know of the last.
    assert driver(secret, tmp_path / "checkpoint").wait(180) == 0
    assert sorted(map(int, copied(conn))) == list(range(1, EVENTS + 1))


@pytest.mark.slow
def test_driver_killed_at_random_moments_publishes_everything_once(conn: Connection, secret: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(4):
        running = driver(secret, tmp_path / "checkpoint")
        before = len(copied(conn))
        deadline = time.monotonic() + 120
        while len(copied(conn)) == before and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 0.4))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(30)
    assert driver(secret, tmp_path / "checkpoint").wait(180) == 0
    assert sorted(map(int, copied(conn))) == list(range(1, EVENTS + 1))
