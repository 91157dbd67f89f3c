"""The source as a stream: exactly the rows of the log, whatever restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headrace.db import Connection, Target
from headrace.spark import event_schema
from headrace.spark.source import EventStreamReader
from tests.builders import drain, topic
from tests.spark.reading import publish_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def secret(database: Target, tmp_path: Path) -> str:
    return secret_file(tmp_path, database)


def reader(secret: str, **options: str) -> EventStreamReader:
    """A stream reader in this process, as Spark's planning process has it."""
    return EventStreamReader({"secret": secret, "subscribe": "orders", **options}, event_schema())


def rows(stream: EventStreamReader, start: dict[str, object], end: dict[str, object]) -> list[int]:
    batches = [batch for split in stream.partitions(start, end) for batch in stream.read(split)]
    return [int(payload) for batch in batches for payload in batch.column("payload").to_pylist()]


def run(
    spark: SparkSession, secret: str, folder: Path, batches: list[list[int]], each: Callable[[], None] = lambda: None
) -> None:
    """Runs the stream until it has caught up, 30 positions per batch."""

    def note(frame: DataFrame, batch: int) -> None:
        batches.append(sorted(row.offset for row in frame.collect()))
        each()

    frame = spark.readStream.format("headrace").options(
        secret=secret, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="30"
    )
    stream = frame.load().writeStream.foreachBatch(note).trigger(availableNow=True)
    stream.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


def test_stream_with_restarts_gives_exactly_the_rows_of_the_log(
    spark: SparkSession, conn: Connection, secret: str, tmp_path: Path
) -> None:
    topic(conn, partitions=3)
    publish_numbers(conn, 40)
    drain(conn)
    batches: list[list[int]] = []

    def publish_more() -> None:
        publish_numbers(conn, 10, first=1000)
        drain(conn)

    run(spark, secret, tmp_path, batches, publish_more)
    # A batch holds at most 30, and what came after the start is left for the next run.
    assert [len(batch) for batch in batches] == [30, 10]
    run(spark, secret, tmp_path, batches)
    assert [offset for batch in batches for offset in batch] == list(range(1, 61))


def test_invalid_option_of_a_stream_is_reported(spark: SparkSession, conn: Connection, secret: str, tmp_path: Path) -> None:
    frame = (
        spark.readStream.format("headrace").schema("offset long").options(secret=secret, subscribe="orders", minPartitions="no")
    )
    stream = frame.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(Exception, match="option minPartitions is a whole number"):
        stream.awaitTermination(60)


def test_micro_batch_read_again_gives_the_same_rows(conn: Connection, secret: str) -> None:
    topic(conn)
    publish_numbers(conn, 20)
    drain(conn)
    first = reader(secret, startingOffsets="earliest")
    start = first.initialOffset()
    end = first.latestOffset(start, ReadMaxRows(7))
    publish_numbers(conn, 20, first=21)
    drain(conn)
    assert rows(first, start, end) == rows(reader(secret, startingOffsets="earliest"), start, end) == list(range(1, 8))


def test_restart_within_the_first_batch_does_not_move_the_beginning(conn: Connection, secret: str) -> None:
    """Spark asks for the initial offset again then; `latest` has moved, the batch that was planned has not."""
    topic(conn)
    publish_numbers(conn, 5)
    drain(conn)
    before = reader(secret)
    start = before.initialOffset()
    publish_numbers(conn, 5, first=6)
    drain(conn)
    planned = before.latestOffset(start, ReadAllAvailable())
    after = reader(secret)
    assert rows(after, after.initialOffset(), planned) == [6, 7, 8, 9, 10]


def test_limit_is_shared_between_topics_and_every_batch_moves(conn: Connection, secret: str) -> None:
    for name, count in (("orders", 90), ("returns", 10)):
        topic(conn, name)
        publish_numbers(conn, count, topic=name)
    drain(conn)
    stream = reader(secret, subscribe="orders,returns", startingOffsets="earliest", maxOffsetsPerTrigger="20")
    assert stream.getDefaultReadLimit() == ReadMaxRows(20)
    offset = stream.initialOffset()
    offset = stream.latestOffset(offset, ReadMaxRows(20))
    assert offset["next"] == {"main": {"orders": 19, "returns": 3}}
    for _ in range(4):
        offset = stream.latestOffset(offset, ReadMaxRows(20))
    assert offset["next"] == {"main": {"orders": 91, "returns": 11}}
    assert stream.latestOffset(offset, ReadMaxRows(20)) == offset


def test_topic_created_later_is_read_from_its_beginning(conn: Connection, secret: str) -> None:
    topic(conn, "orders.a")
    publish_numbers(conn, 2, topic="orders.a")
    drain(conn)
    stream = EventStreamReader({"secret": secret, "subscribePattern": r"orders\..*"}, event_schema())
    start = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    topic(conn, "orders.b")
    publish_numbers(conn, 3, topic="orders.b", first=7)
    drain(conn)
    end = stream.latestOffset(start, ReadAllAvailable())
    assert rows(stream, start, end) == [7, 8, 9]


def test_stream_survives_a_lost_connection(conn: Connection, secret: str) -> None:
    topic(conn)
    publish_numbers(conn, 3)
    drain(conn)
    stream = reader(secret, startingOffsets="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert rows(stream, start, end) == [1, 2, 3]
    conn.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    )
    assert rows(stream, start, stream.latestOffset(start, ReadAllAvailable())) == [1, 2, 3]
