"""What retention has dropped is never passed over in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.core import OutOfLog, UnknownTopic
from headrace.db import Connection, Target
from headrace.spark import event_schema
from headrace.spark.source.options import SourceOptions
from headrace.spark.source.reader import EventReader, EventStreamReader
from tests.builders import drain, shift_clock, topic
from tests.spark.frames import load, numbers, plain_numbers, published, secret_file

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def secret(database: Target, tmp_path: Path) -> str:
    return secret_file(tmp_path, database)


def two_months(conn: Connection) -> None:
    """Positions 1 to 10 in a month long over, 11 to 20 in a later one."""
    topic(conn)
    published(conn, 10)
    drain(conn)
    shift_clock(conn, "100 days")
    published(conn, 10, first=11)
    drain(conn)


def drop_first_month(conn: Connection) -> None:
    conn.execute("select headrace.drop_expired(headrace_internal.topic_id('orders'), headrace.clock() - interval '32 days')")


def test_offset_that_retention_has_passed_is_an_error_with_numbers(spark: SparkSession, conn: Connection, secret: str) -> None:
    two_months(conn)
    drop_first_month(conn)
    with pytest.raises(
        Exception, match=r"OutOfLog: topic 'orders' on shard 'main': positions 4 to 10 have been dropped by retention, 7"
    ):
        load(spark, secret, startingOffsets='{"orders": 4}').collect()
    assert numbers(load(spark, secret, startingOffsets='{"orders": 4}', failOnDataLoss="false")) == list(range(11, 21))
    assert plain_numbers(secret) == list(range(11, 21))


def test_stream_that_retention_has_overtaken_stops(conn: Connection, secret: str) -> None:
    two_months(conn)
    told = {"secret": secret, "subscribe": "orders", "startingOffsets": "earliest"}
    stream = EventStreamReader(told, event_schema())
    start = stream.initialOffset()
    drop_first_month(conn)
    end = stream.latestOffset(start, ReadAllAvailable())
    with pytest.raises(OutOfLog, match="positions 1 to 10 have been dropped"):
        stream.partitions(start, end)
    going_on = EventStreamReader({**told, "failOnDataLoss": "false"}, event_schema())
    assert [split.span.first for split in going_on.partitions(start, end)] == [11]


def test_split_dropped_between_planning_and_reading_is_an_error(conn: Connection, secret: str) -> None:
    two_months(conn)
    reader = EventReader(SourceOptions.of({"secret": secret, "subscribe": "orders"}), event_schema())
    (split,) = reader.partitions()
    drop_first_month(conn)
    with pytest.raises(OutOfLog, match="positions 1 to 10 have been dropped"):
        list(reader.read(split))


def test_reading_keeps_its_positions_from_being_dropped(conn: Connection, second: Connection, secret: str) -> None:
    two_months(conn)
    reader = EventReader(SourceOptions.of({"secret": secret, "subscribe": "orders"}), event_schema())
    (split,) = reader.partitions()
    batches = reader.read(split)
    first = next(batches)
    shift_clock(second, "100 days")
    with pytest.raises(Exception, match="lock timeout"):
        drop_first_month(second)
    assert first.num_rows + sum(batch.num_rows for batch in batches) == 20
    drop_first_month(second)


def test_position_beyond_the_log_is_an_error(conn: Connection, secret: str) -> None:
    """A database that was restored, a topic that was made anew: what was read there before is not there now."""
    two_months(conn)
    with pytest.raises(OutOfLog, match="ends before position 21, and 29 was asked for"):
        plain_numbers(secret, endingOffsets='{"orders": 30}')


def test_stream_whose_topic_is_gone_stops(conn: Connection, secret: str) -> None:
    topic(conn, "orders.a")
    topic(conn, "orders.b")
    stream = EventStreamReader({"secret": secret, "subscribePattern": r"orders\..*"}, event_schema())
    start = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    conn.execute("select headrace.drop_topic('orders.b')")
    with pytest.raises(OutOfLog, match=r"orders\.b on shard main"):
        stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))


def test_unknown_topic_is_named(conn: Connection, secret: str) -> None:
    with pytest.raises(UnknownTopic, match="no topic orders"):
        plain_numbers(secret)
