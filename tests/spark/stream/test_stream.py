"""Correlators over a real streaming query: the outputs of the same events as a batch, each once, whatever is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.core import Invalid
from headrace.db import Connection, Target
from headrace.spark import Access, CorrelatorSpec, correlate, correlate_stream
from tests.builders import drain, topic
from tests.spark.reading import load, publish_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")
EVENTS = 200
SPECS = (
    CorrelatorSpec(name="threes", pattern="repeat {push(three) {loop(3) {placed}}}", key="key", topic="orders"),
    CorrelatorSpec(
        name="all", pattern="capture n = (object)::int; repeat {push(big) {sequential {placed as t, placed and <n > t.n + 2>}}}"
    ),
)


@pytest.fixture
def secret(database: Target, conn: Connection, tmp_path: Path) -> str:
    topic(conn)
    publish_numbers(conn, EVENTS)
    drain(conn)
    return secret_file(tmp_path, database)


def load_stream(spark: SparkSession, secret: str) -> DataFrame:
    return (
        spark.readStream.format("headrace")
        .options(secret=secret, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="40", minPartitions="2")
        .load()
    )


def run(spark: SparkSession, secret: str, checkpoint: Path) -> None:
    stream = load_stream(spark, secret)
    query = correlate_stream(
        stream, SPECS, stream="pairs", checkpoint=str(checkpoint), access=Access(secret=secret), available_now=True
    )
    query.awaitTermination()


def written(conn: Connection) -> list[tuple[object, ...]]:
    return sorted(conn.execute("select correlator, key, token, position, evidence from headrace.stream_output").fetchall())


def expected(spark: SparkSession, secret: str) -> list[tuple[object, ...]]:
    rows = correlate(load(spark, secret), SPECS).collect()
    return sorted((row.correlator, row.key, row.token, row.offset, row.evidence) for row in rows)


def test_stream_gives_the_outputs_of_a_batch_and_a_new_checkpoint_repeats_none(
    spark: SparkSession, conn: Connection, secret: str, tmp_path: Path
) -> None:
    run(spark, secret, tmp_path / "first")
    outputs = expected(spark, secret)
    assert len(outputs) > 90 and {row[0] for row in outputs} == {"all", "threes"} and written(conn) == outputs
    publish_numbers(conn, 30, first=EVENTS + 1)
    drain(conn)
    # From the beginning of the log: what was handled is skipped.
    run(spark, secret, tmp_path / "second")
    assert written(conn) == expected(spark, secret)


def test_batch_is_rejected_with_what_to_call(spark: SparkSession, secret: str) -> None:
    with pytest.raises(Invalid, match="the frame is no stream; use correlate"):
        correlate_stream(load(spark, secret), SPECS, stream="s", access=Access(secret=secret))
    with pytest.raises(Invalid, match="for a stream use correlate_stream"):
        correlate(load_stream(spark, secret), SPECS)


def driver(secret: str, checkpoint: Path, *die_at: str) -> subprocess.Popen[bytes]:
    """A driver in its own process session, so that its JVM and workers end with it."""
    command = [sys.executable, "-m", "tests.spark.stream.driver", secret, str(checkpoint), *die_at]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_driver_killed_between_the_two_commits_writes_every_output_once(
    spark: SparkSession, conn: Connection, secret: str, tmp_path: Path
) -> None:
    killed = driver(secret, tmp_path / "checkpoint", "2")
    assert killed.wait(180) == -signal.SIGKILL
    assert conn.execute("select position from headrace.stream").fetchone() == (120,)
    assert not (tmp_path / "checkpoint" / "commits" / "2").exists()  # Spark does not know of the last batch.
    run(spark, secret, tmp_path / "checkpoint")
    assert written(conn) == expected(spark, secret)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_driver_killed_at_random_moments_writes_every_output_once(
    spark: SparkSession, conn: Connection, secret: str, tmp_path: Path
) -> None:
    chance = random.Random(7)
    for _ in range(4):
        running = driver(secret, tmp_path / "checkpoint")
        before, deadline = len(written(conn)), time.monotonic() + 120
        while len(written(conn)) == before and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.4))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(30)
    assert driver(secret, tmp_path / "checkpoint").wait(180) == 0
    assert written(conn) == expected(spark, secret)
