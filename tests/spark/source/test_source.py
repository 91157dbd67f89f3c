"""The source in batches: a frame holds exactly what the log holds, and PostgreSQL does the filtering."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from headrace.log.topics import read_log
from headrace.spark import event_schema
from headrace.spark.data_source import HeadraceSource
from tests.builders import drain, topic
from tests.spark.reading import load, publish_numbers, read_numbers, read_rows, secret_file

ALL_COLUMNS = ",".join(event_schema().fieldNames()) + ",producer"
CHOICES: list[tuple[dict[str, str], Iterable[int]]] = [
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
    ({"where": "(object #>> '{}')::int > 97 and type = 'paid' and key is not null", "columns": "payload"}, (98, 99, 100)),
]


@pytest.fixture
def secret(database: Target, tmp_path: Path) -> str:
    return secret_file(tmp_path, database)


@pytest.fixture
def hundred(conn: Connection) -> Connection:
    """Positions 1 to 100 in `orders`, of two types."""
    topic(conn, partitions=4)
    publish_numbers(conn, 60)
    publish_numbers(conn, 40, type="paid", first=61)
    drain(conn)
    return conn


def publish_exact(conn: Connection) -> list[tuple[object, ...]]:
    """Publishes payloads that are easily changed on the way; returns the log's rows, with times in UTC."""
    topic(conn, partitions=4)
    exact = '{"big": 123456789012345678901234567890, "text": "ä\\u0001 \\"q\\"", "nothing": null, "pi": 3.140}'
    conn.execute(
        "select headrace.publish('orders', 'placed', %s::jsonb, p_key => 'k', p_headers => '{\"h\": 1}', p_producer => 'shop')",
        (exact,),
    )
    conn.execute("select headrace.publish('orders', 'empty', 'null')")
    drain(conn)
    texts = dict(conn.execute("select position, array[payload::text, headers::text] from headrace.log").fetchall())
    return [
        (
            *(event.key, event.type, texts[event.position][0], "orders", event.partition, event.position),
            *(event.emitted_at, str(event.id), texts[event.position][1], "main", event.appended_at, event.producer),
        )
        for event in read_log(conn, "orders")
    ]


def test_read_returns_every_column_of_the_log(conn: Connection, secret: str) -> None:
    expected = publish_exact(conn)
    assert [tuple(row.values()) for row in read_rows(secret, columns=ALL_COLUMNS)] == expected


@pytest.mark.lane("pg18")
def test_frame_returns_every_column_of_the_log(spark: SparkSession, conn: Connection, secret: str) -> None:
    expected = publish_exact(conn)
    rows = (
        load(spark, secret, columns=ALL_COLUMNS).selectExpr("*", "unix_micros(timestamp) as micros").orderBy("offset").collect()
    )
    for row, event in zip(rows, expected, strict=True):
        # Spark returns local times without their zone.
        values = [
            value.astimezone(UTC) if name in ("timestamp", "appended_at") else value for name, value in row.asDict().items()
        ]
        assert tuple(values[:-1]) == event
        assert row.micros == round(event[6].timestamp() * 1e6)  # type: ignore[attr-defined]


def test_options_choose_the_rows(hundred: Connection, secret: str) -> None:
    wrong = {str(options): rows for options, expected in CHOICES if (rows := read_numbers(secret, **options)) != list(expected)}
    assert wrong == {}


@pytest.mark.lane("pg18")
def test_queries_on_one_frame_do_not_affect_each_other(spark: SparkSession, hundred: Connection, secret: str) -> None:
    frame = load(spark, secret, columns="offset,type,key")
    assert frame.where("offset < 10").count() == 9
    assert frame.where("type = 'paid' and key = 'k3'").count() == 4
    assert frame.count() == 100


@pytest.mark.lane("pg18")
def test_starting_and_ending_timestamps_are_times_of_the_log(hundred: Connection, secret: str) -> None:
    hundred.execute("select set_config('headrace.clock_shift', '1 hour', false)")
    publish_numbers(hundred, 5, first=101)
    drain(hundred)
    (between,) = hundred.execute("select headrace.clock() - interval '30 minutes'").fetchone()
    assert read_numbers(secret, startingTimestamp=between.isoformat()) == [101, 102, 103, 104, 105]
    assert read_numbers(secret, endingTimestamp=str(int(between.timestamp() * 1000))) == list(range(1, 101))
    assert read_numbers(secret, startingTimestamp="2100-01-01T00:00:00Z") == []


@pytest.mark.lane("pg18")
def test_columns_and_schema_choose_what_is_read(spark: SparkSession, hundred: Connection, secret: str) -> None:
    assert read_rows(secret, columns="offset,key", fromPosition="7", toPosition="8") == [{"offset": 7, "key": "k7"}]
    assert len(read_rows(secret, columns="shard")) == 100
    narrow = spark.read.format("headrace").schema("shard string, offset long").options(secret=secret, subscribe="orders").load()
    assert narrow.where("offset = 7").collect() == [("main", 7)]


@pytest.mark.lane("pg18")
def test_extract_takes_fields_out_of_the_payload_in_postgresql(conn: Connection, secret: str) -> None:
    topic(conn)
    for payload in ('{"a": {"b": "5"}, "it\'s": true}', '{"a": {"b": 5}}', '{"a": 1}', "7"):
        conn.execute("select headrace.publish('orders', 'placed', %s::jsonb)", (payload,))
    drain(conn)
    extract = """{"b": "a.b", "b_json": {"path": ["a", "b"], "as": "json"}, "its": ["it's"]}"""
    rows = read_rows(secret, extract=extract, columns="offset")
    assert [tuple(row.values()) for row in rows] == [
        (1, "5", '"5"', "true"),
        (2, "5", "5", None),
        (3, None, None, None),
        (4, None, None, None),
    ]


@pytest.mark.lane("pg18")
def test_several_topics_are_read_by_list_and_by_pattern(conn: Connection, secret: str) -> None:
    for name in ("orders", "orders.paid", "other"):
        topic(conn, name)
        publish_numbers(conn, 3, topic=name)
    drain(conn)
    listed = read_rows(secret, subscribe="orders, other")
    assert sorted(str(row["topic"]) for row in listed) == ["orders"] * 3 + ["other"] * 3
    assert {row["topic"] for row in read_rows(secret, subscribePattern=r"orders(\..*)?")} == {"orders", "orders.paid"}


@pytest.mark.lane("pg18")
def test_frame_keeps_its_positions_and_is_read_in_splits(spark: SparkSession, hundred: Connection, secret: str) -> None:
    """A frame with fixed positions stays the same while the log grows; a new frame sees more."""
    frame = load(spark, secret, endingOffsets='{"orders": 101}', minPartitions="7")
    publish_numbers(hundred, 10, first=101)
    drain(hundred)
    rows = frame.selectExpr("spark_partition_id() as task", "offset").collect()
    assert len({row.task for row in rows}) == 7
    assert [row.offset for row in rows] == list(range(1, 101))
    assert len(read_rows(secret)) == 110


@pytest.mark.lane("pg18")
def test_read_that_stops_in_the_middle_does_not_affect_the_next_one(conn: Connection, secret: str) -> None:
    """More rows than one Arrow batch holds, so that PostgreSQL is still sending."""
    topic(conn)
    long = "select headrace.publish('orders', 'placed', to_jsonb(repeat(md5(n::text), 1500))) from generate_series(1, 800) n"
    conn.execute(long)
    drain(conn)
    source = HeadraceSource({"secret": secret, "subscribe": "orders"})
    reader = source.reader(source.schema())
    (split,) = reader.partitions()
    batches = reader.read(split)
    assert next(batches).num_rows < 800
    batches.close()
    assert sum(batch.num_rows for batch in reader.read(split)) == 800
