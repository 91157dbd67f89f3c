"""The source in batches: what is in the log is in the frame, exactly, and PostgreSQL does the filtering."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from headrace.log import read
from headrace.spark import Extract, event_schema, extract_option
from headrace.spark.source.data_source import HeadraceSource
from tests.builders import drain, topic
from tests.spark.frames import load, numbers, plain_numbers, published, secret_file


@pytest.fixture
def secret(database: Target, tmp_path: Path) -> str:
    return secret_file(tmp_path, database)


@pytest.fixture
def hundred(conn: Connection) -> Connection:
    """Positions 1 to 100 in `orders`, of two types."""
    topic(conn, partitions=4)
    published(conn, 60)
    published(conn, 40, type="paid", first=61)
    drain(conn)
    return conn


def test_frame_holds_the_log_column_by_column(spark: SparkSession, conn: Connection, secret: str) -> None:
    topic(conn, partitions=4)
    exact = '{"big": 123456789012345678901234567890, "text": "ä\\u0001 \\"q\\"", "nothing": null, "pi": 3.140}'
    conn.execute(
        "select headrace.publish('orders', 'placed', %s::jsonb, p_key => 'k', p_headers => '{\"h\": 1}', p_producer => 'shop')",
        (exact,),
    )
    conn.execute("select headrace.publish('orders', 'empty', 'null')")
    drain(conn)
    rows = load(spark, secret, columns=",".join(event_schema().fieldNames()) + ",producer").orderBy("offset").collect()
    for row, event in zip(rows, read(conn, "orders"), strict=True):
        stored = conn.execute(
            "select payload::text, headers::text from headrace_internal.log where event_id = %s", (event.id,)
        ).fetchone()
        assert (row.payload, row.headers) == stored
        assert (row.key, row.type, row.topic, row.partition) == (event.key, event.type, "orders", event.partition)
        assert (row.offset, row.event_id, row.producer) == (event.position, str(event.id), event.producer)
        # Spark hands out local times without their zone.
        assert row.timestamp.astimezone(UTC) == event.emitted_at and row.appended_at.astimezone(UTC) == event.appended_at
    assert {row.shard for row in rows} == {"main"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(1, 101)),
        ({"startingOffsets": "latest"}, ()),
        ({"startingOffsets": '{"orders": 98}'}, (98, 99, 100)),
        ({"startingOffsets": '{"main": {"orders": 98}}', "endingOffsets": '{"main": {"orders": 100}}'}, (98, 99)),
        ({"startingOffsets": '{"orders": -2}', "endingOffsets": '{"orders": -1}'}, range(1, 101)),
        ({"fromPosition": "10", "toPosition": "13"}, (10, 11, 12)),
        ({"types": "paid"}, range(61, 101)),
        ({"types": '["paid", "it\'s, \\\\ gone"]'}, range(61, 101)),
        ({"keys": "k3,k4", "types": "paid", "toPosition": "80"}, (63, 64, 73, 74)),
        ({"keys": "[]"}, ()),
        ({"fromTime": "2026-01-01T01:30:00Z", "toTime": "2026-01-01T02:32:00+01:00"}, (90, 91)),
        ({"fromTime": "2026-01-01T01:39:00"}, (99, 100)),
        ({"minPartitions": "7"}, range(1, 101)),
    ],
)
@pytest.mark.lane("pg18")
def test_options_choose_the_rows(hundred: Connection, secret: str, options: dict[str, str], expected: Iterable[int]) -> None:
    assert plain_numbers(secret, **options) == list(expected)


def test_where_on_a_frame_leaves_the_next_query_on_it_alone(spark: SparkSession, hundred: Connection, secret: str) -> None:
    frame = load(spark, secret)
    assert frame.where("offset < 10").count() == 9
    assert frame.where("type = 'paid' and key = 'k3'").count() == 4
    assert frame.count() == 100


@pytest.mark.lane("pg18")
def test_starting_and_ending_timestamps_are_times_of_the_log(spark: SparkSession, hundred: Connection, secret: str) -> None:
    hundred.execute("select set_config('headrace.clock_shift', '1 hour', false)")
    published(hundred, 5, first=101)
    drain(hundred)
    (between,) = hundred.execute("select headrace.clock() - interval '30 minutes'").fetchone()
    assert numbers(load(spark, secret, startingTimestamp=between.isoformat())) == [101, 102, 103, 104, 105]
    assert load(spark, secret, endingTimestamp=str(int(between.timestamp() * 1000))).count() == 100
    assert load(spark, secret, startingTimestamp="2100-01-01T00:00:00Z").count() == 0


@pytest.mark.lane("pg18")
def test_columns_and_schema_choose_what_travels(spark: SparkSession, hundred: Connection, secret: str) -> None:
    assert load(spark, secret, columns="offset,key").where("offset = 7").collect() == [(7, "k7")]
    narrow = spark.read.format("headrace").schema("shard string, offset long").options(secret=secret, subscribe="orders").load()
    assert narrow.where("offset = 7").collect() == [("main", 7)]
    only_constants = spark.read.format("headrace").schema("shard string").options(secret=secret, subscribe="orders").load()
    assert only_constants.count() == 100


@pytest.mark.lane("pg18")
def test_extract_takes_fields_out_of_the_payload_in_postgresql(spark: SparkSession, conn: Connection, secret: str) -> None:
    topic(conn)
    for payload in ('{"a": {"b": "5"}, "it\'s": true}', '{"a": {"b": 5}}', '{"a": 1}', "7"):
        conn.execute("select headrace.publish('orders', 'placed', %s::jsonb)", (payload,))
    drain(conn)
    wanted = extract_option([Extract("b", ("a", "b")), Extract("b_json", ("a", "b"), as_json=True), Extract("its", ("it's",))])
    rows = load(spark, secret, extract=wanted, columns="offset").orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [
        (1, "5", '"5"', "true"),
        (2, "5", "5", None),
        (3, None, None, None),
        (4, None, None, None),
    ]


@pytest.mark.lane("pg18")
def test_several_topics_come_by_list_and_by_pattern(spark: SparkSession, conn: Connection, secret: str) -> None:
    for name in ("orders", "orders.paid", "other"):
        topic(conn, name)
        published(conn, 3, topic=name)
    drain(conn)
    listed = load(spark, secret, subscribe="orders, other")
    assert sorted(row.topic for row in listed.collect()) == ["orders"] * 3 + ["other"] * 3
    by_pattern = load(spark, secret, subscribePattern=r"orders(\..*)?")
    assert {row.topic for row in by_pattern.collect()} == {"orders", "orders.paid"}


@pytest.mark.lane("pg18")
def test_a_batch_scales_over_splits_of_positions(spark: SparkSession, hundred: Connection, secret: str) -> None:
    frame = load(spark, secret, minPartitions="7")
    tasks = frame.selectExpr("spark_partition_id() as task", "offset").collect()
    assert len({row.task for row in tasks}) == 7
    assert [row.offset for row in tasks] == list(range(1, 101))


@pytest.mark.lane("pg18")
def test_read_that_stops_in_the_middle_leaves_the_next_one_alone(conn: Connection, secret: str) -> None:
    """More rows than one Arrow batch holds, so that PostgreSQL is still sending."""
    topic(conn)
    long = "select headrace.publish('orders', 'placed', to_jsonb(repeat(md5(n::text), 1500))) from generate_series(1, 800) n"
    conn.execute(long)
    drain(conn)
    source = HeadraceSource({"secret": secret, "subscribe": "orders"})
    reader = source.reader(source.schema())
    (split,) = reader.partitions()
    begun = reader.read(split)
    assert next(begun).num_rows < 800
    begun.close()
    assert sum(batch.num_rows for batch in reader.read(split)) == 800


def test_frame_read_again_later_is_the_same(spark: SparkSession, hundred: Connection, secret: str) -> None:
    """The log grew meanwhile; a frame that was planned once has its positions fixed, a new one sees more."""
    until = load(spark, secret, endingOffsets='{"orders": 101}')
    published(hundred, 10, first=101)
    drain(hundred)
    assert numbers(until) == list(range(1, 101))
    assert load(spark, secret).count() == 110


def test_time_is_the_same_moment_in_any_zone_of_the_session(spark: SparkSession, hundred: Connection, secret: str) -> None:
    (row,) = load(spark, secret).where("offset = 1").selectExpr("unix_micros(timestamp) as at").collect()
    assert row.at == int(datetime(2026, 1, 1, 0, 1, tzinfo=UTC).timestamp() * 1e6)
