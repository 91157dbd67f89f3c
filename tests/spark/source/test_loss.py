"""What retention has dropped is never skipped silently."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.core import LogWentBack, PositionOutOfRange, UnknownTopic
from headrace.db import Connection, Target
from headrace.log.topics import read_log
from headrace.spark import event_schema
from headrace.spark.source import EventReader, EventStreamReader, SourceOptions
from tests.builders import drain, shift_clock, topic
from tests.spark.reading import load, publish_numbers, read_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def secret(database: Target, tmp_path: Path) -> str:
    return secret_file(tmp_path, database)


def publish_two_months(conn: Connection) -> None:
    """Publishes positions 1 to 10 in a month long ago, and 11 to 20 in a later one."""
    topic(conn)
    publish_numbers(conn, 10)
    drain(conn)
    shift_clock(conn, "100 days")
    publish_numbers(conn, 10, first=11)
    drain(conn)


def drop_first_month(conn: Connection) -> None:
    conn.execute("select headrace.drop_expired(headrace.topic_id('orders'), headrace.clock() - interval '32 days')")


def test_dropped_offset_is_an_error_with_numbers(spark: SparkSession, conn: Connection, secret: str) -> None:
    publish_two_months(conn)
    drop_first_month(conn)
    with pytest.raises(Exception, match=r"topic 'orders' on shard 'main': positions 4 to 10 have been dropped by retention, 7"):
        load(spark, secret, startingOffsets='{"orders": 4}').collect()
    assert read_numbers(secret, startingOffsets='{"orders": 4}', failOnDataLoss="false") == list(range(11, 21))
    assert read_numbers(secret) == list(range(11, 21))


def test_stream_overtaken_by_retention_stops(conn: Connection, secret: str) -> None:
    publish_two_months(conn)
    options = {"secret": secret, "subscribe": "orders", "startingOffsets": "earliest"}
    stream = EventStreamReader(options, event_schema())
    start = stream.initialOffset()
    drop_first_month(conn)
    end = stream.latestOffset(start, ReadAllAvailable())
    with pytest.raises(PositionOutOfRange, match="positions 1 to 10 have been dropped"):
        stream.partitions(start, end)
    lenient = EventStreamReader({**options, "failOnDataLoss": "false"}, event_schema())
    assert [split.value.first for split in lenient.partitions(start, end)] == [11]


def test_split_dropped_between_planning_and_reading_is_an_error(conn: Connection, secret: str) -> None:
    publish_two_months(conn)
    reader = EventReader(SourceOptions.from_options({"secret": secret, "subscribe": "orders"}), event_schema())
    (split,) = reader.partitions()
    drop_first_month(conn)
    with pytest.raises(PositionOutOfRange, match="positions 1 to 10 have been dropped"):
        list(reader.read(split))


def test_reading_keeps_its_positions_from_being_dropped(conn: Connection, second: Connection, secret: str) -> None:
    publish_two_months(conn)
    reader = EventReader(SourceOptions.from_options({"secret": secret, "subscribe": "orders"}), event_schema())
    (split,) = reader.partitions()
    batches = reader.read(split)
    first = next(batches)
    shift_clock(second, "100 days")
    with pytest.raises(Exception, match="lock timeout"):
        drop_first_month(second)
    assert first.num_rows + sum(batch.num_rows for batch in batches) == 20
    drop_first_month(second)


def test_position_beyond_the_log_is_an_error(conn: Connection, secret: str) -> None:
    """After a restore, or when a topic was created again, what was read before is not there now."""
    publish_two_months(conn)
    with pytest.raises(PositionOutOfRange, match="ends before position 21, but 29 was requested"):
        read_numbers(secret, endingOffsets='{"orders": 30}')


def test_stream_whose_topic_is_gone_stops(conn: Connection, secret: str) -> None:
    topic(conn, "orders.a")
    topic(conn, "orders.b")
    stream = EventStreamReader({"secret": secret, "subscribePattern": r"orders\..*"}, event_schema())
    start = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    conn.execute("select headrace.drop_topic('orders.b')")
    with pytest.raises(PositionOutOfRange, match=r"orders\.b on shard main"):
        stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))


def test_unknown_topic_is_named(conn: Connection, secret: str) -> None:
    with pytest.raises(UnknownTopic, match="no topic orders"):
        read_numbers(secret)


def create_again(conn: Connection, count: int) -> None:
    """The topic with other events at the positions from 1 on, as after a restore."""
    conn.execute("select headrace.drop_topic('orders')")
    topic(conn)
    if count:
        publish_numbers(conn, count, first=100)
    drain(conn)


def read_ten(conn: Connection, secret: str, **options: str) -> tuple[EventStreamReader, dict[str, object]]:
    """A stream that has read positions 1 to 10, and its offset."""
    topic(conn)
    publish_numbers(conn, 10)
    drain(conn)
    stream = EventStreamReader(
        {"secret": secret, "subscribe": "orders", "startingOffsets": "earliest", **options}, event_schema()
    )
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    return stream, stream.latestOffset(first, ReadAllAvailable())


@pytest.mark.parametrize("count", [0, 4, 10, 30])
def test_log_that_went_back_stops_a_stream(conn: Connection, secret: str, count: int) -> None:
    """Shorter than before, as long, or longer: with 30 events the positions after 10 look like new ones."""
    stream, offset = read_ten(conn, secret)
    create_again(conn, count)
    with pytest.raises(LogWentBack, match="topic 'orders' on shard 'main' was dropped and created again"):
        stream.latestOffset(offset, ReadAllAvailable())
    # A restore keeps the id of the topic.
    restored = {**offset, "topic_id": {"main": {"orders": conn.execute("select headrace.topic_id('orders')").fetchone()[0]}}}
    with pytest.raises(LogWentBack, match="topic 'orders' on shard 'main': the log went back"):
        stream.latestOffset(restored, ReadAllAvailable())
    with pytest.raises(LogWentBack):
        stream.partitions(offset, offset)


def test_stream_that_began_after_everything_was_dropped_notices_a_topic_created_again(conn: Connection, secret: str) -> None:
    """No event was read, and none is left to compare with: only the topic itself tells."""
    publish_two_months(conn)
    shift_clock(conn, "400 days")
    drop_first_month(conn)
    stream = EventStreamReader({"secret": secret, "subscribe": "orders"}, event_schema())
    offset = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert offset["next"] == {"main": {"orders": 21}} and not offset["last"]
    create_again(conn, 5)
    with pytest.raises(LogWentBack, match=r"'orders' on shard 'main' was dropped and created again since .* position 20"):
        stream.latestOffset(offset, ReadAllAvailable())
    with pytest.raises(LogWentBack, match="dropped and created again"):
        stream.partitions(offset, offset)


def test_stream_with_an_old_checkpoint_fails_on_a_topic_created_again(
    spark: SparkSession, conn: Connection, secret: str, tmp_path: Path
) -> None:
    def run() -> None:
        stream = spark.readStream.format("headrace").options(secret=secret, subscribe="orders", startingOffsets="earliest").load()
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    topic(conn)
    publish_numbers(conn, 3)
    drain(conn)
    run()
    create_again(conn, 30)
    with pytest.raises(Exception, match="topic 'orders' on shard 'main' was dropped and created again since"):
        run()


def test_offset_of_an_older_release_notices_a_shorter_log(conn: Connection, secret: str) -> None:
    stream, offset = read_ten(conn, secret)
    older = {"next": offset["next"]}
    assert stream.latestOffset(older, ReadAllAvailable()) == offset
    create_again(conn, 9)
    with pytest.raises(LogWentBack, match="read up to position 10 and ends at 9 now, 1 events"):
        stream.latestOffset(older, ReadAllAvailable())


def test_lenient_stream_goes_on_after_the_log_went_back(conn: Connection, secret: str) -> None:
    stream, offset = read_ten(conn, secret, failOnDataLoss="false")
    create_again(conn, 4)
    at_end = stream.latestOffset(offset, ReadAllAvailable())
    assert at_end["next"] == {"main": {"orders": 5}} and stream.partitions(offset, at_end) == []
    publish_numbers(conn, 2, first=200)
    drain(conn)
    end = stream.latestOffset(at_end, ReadAllAvailable())
    assert [(split.value.first, split.value.until) for split in stream.partitions(at_end, end)] == [(5, 7)]


def test_dropped_last_event_is_no_sign_of_a_log_that_went_back(conn: Connection, secret: str) -> None:
    """Retention has dropped what a stream read last; nothing new came meanwhile."""
    stream, offset = read_ten(conn, secret)
    shift_clock(conn, "100 days")
    drop_first_month(conn)
    assert read_log(conn, "orders") == []
    assert stream.latestOffset(offset, ReadAllAvailable()) == offset
    create_again(conn, 5)
    with pytest.raises(LogWentBack, match="dropped and created again since it was read up to position 10"):
        stream.latestOffset(offset, ReadAllAvailable())


def test_stream_may_begin_at_a_position_that_is_yet_to_come(conn: Connection, secret: str) -> None:
    topic(conn)
    options = {"secret": secret, "subscribe": "orders", "startingOffsets": '{"orders": 5}'}
    stream = EventStreamReader(options, event_schema())
    start = stream.initialOffset()
    end = stream.latestOffset(stream.latestOffset(start, ReadAllAvailable()), ReadAllAvailable())
    assert end["next"] == {"main": {"orders": 5}}
    publish_numbers(conn, 7)
    drain(conn)
    assert stream.latestOffset(end, ReadAllAvailable())["next"] == {"main": {"orders": 8}}
