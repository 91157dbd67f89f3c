"""The sink: the rows of a frame become events or actions, exactly once."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from headrace.core import Conflict, Invalid, InvalidTime, PayloadTooLarge, UnknownTopic
from headrace.db import Connection, Target
from headrace.log.topics import read_log
from headrace.spark import event_schema
from headrace.spark.sink import EventWriter, SinkOptions, commit, discard, stage
from tests.builders import drain, numbers, topic
from tests.spark.reading import load, publish_numbers, secret_file


@pytest.fixture
def secret(database: Target, tmp_path: Path) -> str:
    return secret_file(tmp_path, database)


def options(secret: str, **more: str) -> SinkOptions:
    raw = {"secret": secret, "topic": "orders", "type": "placed", **more}
    return SinkOptions.from_options(raw, event_schema(["payload"]), overwrite=False)


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"payload": [str(value) for value in values]})


def staged(conn: Connection) -> int:
    row = conn.execute("select count(*) from headrace_internal.spark_stage").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.lane("pg18")
def test_frame_becomes_events_in_its_order(spark: SparkSession, conn: Connection, secret: str) -> None:
    topic(conn)
    frame = spark.createDataFrame(
        [(f"k{n}", json.dumps({"n": n}), '{"trace": "x"}', None) for n in range(50)],
        "key string, payload string, headers string, event_id string",
    )
    frame.coalesce(1).write.format("headrace").options(secret=secret, topic="orders", type="placed", producer="spark").mode(
        "append"
    ).save()
    drain(conn)
    events = read_log(conn, "orders")
    assert [event.payload for event in events] == [{"n": n} for n in range(50)]
    assert {(event.type, event.producer, event.headers["trace"]) for event in events} == {("placed", "spark", "x")}
    assert [event.key for event in events] == [f"k{n}" for n in range(50)] and staged(conn) == 0


@pytest.mark.lane("pg18")
def test_frame_of_the_source_can_be_written_to_another_topic(spark: SparkSession, conn: Connection, secret: str) -> None:
    topic(conn)
    topic(conn, "copy")
    publish_numbers(conn, 20)
    drain(conn)
    load(spark, secret).write.format("headrace").options(secret=secret, topic="copy").mode("append").save()
    drain(conn)
    original, copy = (
        [(event.id, event.type, event.key, event.payload, event.emitted_at) for event in read_log(conn, name)]
        for name in ("orders", "copy")
    )
    assert copy == original and len(copy) == 20


@pytest.mark.lane("pg18")
def test_frame_becomes_actions(spark: SparkSession, conn: Connection, secret: str) -> None:
    frame = spark.createDataFrame([("k", '{"n": 1}', 5), (None, '{"n": 2}', None)], "key string, payload string, priority int")
    sink = {"secret": secret, "as": "actions", "action": "notify", "writeId": "w"}
    frame.coalesce(1).write.format("headrace").options(**sink).mode("append").save()
    rows = conn.execute("select message from pgmq.q_hr_default order by msg_id").fetchall()
    assert [(row[0]["action"], row[0]["key"], row[0]["payload"], row[0]["priority"]) for row in rows] == [
        ("notify", "k", {"n": 1}, 5),
        ("notify", None, {"n": 2}, 0),
    ]
    assert rows[0][0]["cause"] == {"query": "write-w", "batch": 0}


def test_repeated_batch_is_published_once(conn: Connection, secret: str) -> None:
    topic(conn)
    sink_options = options(secret)
    for _ in range(3):
        attempts = [stage(sink_options, "query", 7, [batch(1, 2)]), stage(sink_options, "query", 7, [batch(3)])]
        commit(sink_options, "query", 7, attempts)
    commit(sink_options, "query", 8, [stage(sink_options, "query", 8, [batch(4)])])
    drain(conn)
    assert numbers(conn) == [1, 2, 3, 4] and staged(conn) == 0
    ledger = conn.execute("select query, batch, rows from headrace_internal.spark_batch order by batch").fetchall()
    assert ledger == [("query", 7, 3), ("query", 8, 1)]


@pytest.mark.lane("pg18")
def test_repeated_write_with_the_same_id_is_published_once(conn: Connection, secret: str) -> None:
    topic(conn)
    for sink_options in (options(secret, writeId="nightly"), options(secret, writeId="nightly"), options(secret)):
        writer = EventWriter(sink_options)
        writer.commit([writer.write(iter([batch(1)])), None])
    drain(conn)
    assert numbers(conn) == [1, 1]


@pytest.mark.lane("pg18")
def test_failed_attempt_leaves_nothing(conn: Connection, secret: str) -> None:
    """A task that was killed, or was slower than its duplicate, has staged rows that no commit names."""
    topic(conn)
    sink_options = options(secret)
    stage(sink_options, "query", 0, [batch(1)])
    discard(sink_options, [stage(sink_options, "query", 0, [batch(1)])])
    commit(sink_options, "query", 0, [stage(sink_options, "query", 0, [batch(1)])])
    late = stage(sink_options, "query", 0, [batch(1)])
    commit(sink_options, "query", 1, [stage(sink_options, "query", 1, [batch(2)])])
    drain(conn)
    assert numbers(conn) == [1, 2] and staged(conn) == 0 and late.rows == {"main": 1}


@pytest.mark.lane("pg18")
def test_commit_fails_if_a_server_crash_has_lost_staged_rows(conn: Connection, secret: str) -> None:
    topic(conn)
    sink_options = options(secret)
    attempt = stage(sink_options, "query", 0, [batch(1, 2)])
    conn.execute("delete from headrace_internal.spark_stage where place = 1")
    with pytest.raises(Conflict, match="declared 2 rows, but 1 were staged"):
        commit(sink_options, "query", 0, [attempt])
    commit(sink_options, "query", 0, [stage(sink_options, "query", 0, [batch(1, 2)])])
    drain(conn)
    assert numbers(conn) == [1, 2]


@pytest.mark.lane("pg18")
def test_repeated_batch_with_other_rows_is_rejected(conn: Connection, secret: str) -> None:
    """Spark does not fsync its checkpoint: one that went back would write other events under the number of a finished batch."""
    topic(conn)
    sink_options = options(secret)
    commit(sink_options, "query", 0, [stage(sink_options, "query", 0, [batch(1, 2)])])
    with pytest.raises(Conflict, match="was committed with 2 rows and is now repeated with 3"):
        commit(sink_options, "query", 0, [stage(sink_options, "query", 0, [batch(1, 2, 3)])])


@pytest.mark.lane("pg18")
def test_invalid_rows_are_rejected_and_nothing_is_published(conn: Connection, secret: str) -> None:
    topic(conn)
    with pytest.raises(PayloadTooLarge):
        stage(options(secret), "query", 0, [pa.record_batch({"payload": ["1", json.dumps("x" * 1_100_000)]})])
    with pytest.raises(InvalidTime):
        late = [datetime(9999, 12, 31, 12, tzinfo=UTC)]
        stage(options(secret), "query", 0, [pa.record_batch({"payload": ["1"], "timestamp": late})])
    with pytest.raises(Invalid, match="invalid input syntax for type json"):
        stage(options(secret), "query", 0, [pa.record_batch({"payload": ["{"]})])
    elsewhere = options(secret, topic="nowhere")
    with pytest.raises(UnknownTopic, match="nowhere"):
        commit(elsewhere, "query", 0, [stage(elsewhere, "query", 0, [batch(1)])])
    assert drain(conn) == 0
    assert numbers(conn) == []


@pytest.mark.parametrize(
    ("raw", "columns", "error"),
    [
        ({"topic": "orders"}, ["payload"], "no column type"),
        ({"type": "t"}, ["payload"], "no column topic"),
        ({"topic": "orders", "type": "t"}, ["payload", "offset"], None),
        ({"topic": "orders", "type": "t"}, ["payload", "colour"], "does not know column colour"),
        ({"topic": "orders", "type": "t", "as": "mail"}, ["payload"], "events or actions"),
        ({"topic": "orders", "type": "t", "password": "x"}, ["payload"], "would put an address into the plan"),
        ({"topic": "orders", "type": "t", "colour": "x"}, ["payload"], "no option colour"),
    ],
)
def test_unfit_column_or_option_is_rejected(raw: dict[str, str], columns: list[str], error: str | None) -> None:
    schema = StructType([StructField(name, StringType()) for name in columns])
    with pytest.raises(Invalid, match=error) if error else nullcontext():
        SinkOptions.from_options(raw, schema, overwrite=False)


def test_payload_that_is_no_text_is_rejected() -> None:
    schema = StructType([StructField("payload", StructType([StructField("a", StringType())]))])
    with pytest.raises(Invalid, match="to_json makes a string"):
        SinkOptions.from_options({"topic": "orders", "type": "t"}, schema, overwrite=False)


def test_overwriting_a_log_is_rejected(secret: str) -> None:
    with pytest.raises(Invalid, match="only ever appended"):
        SinkOptions.from_options({"topic": "orders", "type": "t", "secret": secret}, event_schema(["payload"]), overwrite=True)
