"""The sink: rows become events or actions, exactly once."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.core import BadTime, Conflict, Invalid, PayloadTooLarge, UnknownTopic
from headrace.db import Connection, Target
from headrace.log import read
from headrace.spark import event_schema
from headrace.spark.sink.options import SinkOptions
from headrace.spark.sink.writer import EventWriter, commit, forget, stage
from tests.builders import drain, numbers, topic
from tests.spark.frames import load, published, secret_file


@pytest.fixture
def secret(database: Target, tmp_path: Path) -> str:
    return secret_file(tmp_path, database)


def options(secret: str, **more: str) -> SinkOptions:
    given = {"secret": secret, "topic": "orders", "type": "placed", **more}
    return SinkOptions.of(given, event_schema(["payload"]), overwrite=False)


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"payload": [str(value) for value in values]})


def staged(conn: Connection) -> int:
    row = conn.execute("select count(*) from headrace_internal.spark_stage").fetchone()
    assert row is not None
    return int(row[0])


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
    events = read(conn, "orders")
    assert [event.payload for event in events] == [{"n": n} for n in range(50)]
    assert {(event.type, event.producer, event.headers["trace"]) for event in events} == {("placed", "spark", "x")}
    assert [event.key for event in events] == [f"k{n}" for n in range(50)] and staged(conn) == 0


@pytest.mark.lane("pg18")
def test_frame_of_the_source_can_be_written_to_another_topic(spark: SparkSession, conn: Connection, secret: str) -> None:
    topic(conn)
    topic(conn, "copy")
    published(conn, 20)
    drain(conn)
    load(spark, secret).write.format("headrace").options(secret=secret, topic="copy").mode("append").save()
    drain(conn)
    kept = [(event.id, event.type, event.key, event.payload, event.emitted_at) for event in read(conn, "orders")]
    assert [(event.id, event.type, event.key, event.payload, event.emitted_at) for event in read(conn, "copy")] == kept


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


def test_batch_that_comes_again_is_published_once(conn: Connection, secret: str) -> None:
    topic(conn)
    told = options(secret)
    for _ in range(3):
        attempts = [stage(told, "query", 7, [batch(1, 2)]), stage(told, "query", 7, [batch(3)])]
        commit(told, "query", 7, attempts)
    commit(told, "query", 8, [stage(told, "query", 8, [batch(4)])])
    drain(conn)
    assert numbers(conn) == [1, 2, 3, 4] and staged(conn) == 0
    ledger = conn.execute("select query, batch, rows from headrace_internal.spark_batch order by batch").fetchall()
    assert ledger == [("query", 7, 3), ("query", 8, 1)]


@pytest.mark.lane("pg18")
def test_write_done_again_under_its_id_is_published_once(conn: Connection, secret: str) -> None:
    topic(conn)
    for told in (options(secret, writeId="nightly"), options(secret, writeId="nightly"), options(secret)):
        writer = EventWriter(told)
        writer.commit([writer.write(iter([batch(1)])), None])
    drain(conn)
    assert numbers(conn) == [1, 1]


@pytest.mark.lane("pg18")
def test_attempt_that_did_not_succeed_leaves_nothing(conn: Connection, secret: str) -> None:
    """A task that was killed, or was slower than its double, has staged rows that no commit names."""
    topic(conn)
    told = options(secret)
    stage(told, "query", 0, [batch(1)])
    forget(told, [stage(told, "query", 0, [batch(1)])])
    commit(told, "query", 0, [stage(told, "query", 0, [batch(1)])])
    late = stage(told, "query", 0, [batch(1)])
    commit(told, "query", 1, [stage(told, "query", 1, [batch(2)])])
    drain(conn)
    assert numbers(conn) == [1, 2] and staged(conn) == 0 and late.rows == {"main": 1}


@pytest.mark.lane("pg18")
def test_staged_rows_that_a_crash_of_the_server_took_fail_the_commit(conn: Connection, secret: str) -> None:
    topic(conn)
    told = options(secret)
    brought = stage(told, "query", 0, [batch(1, 2)])
    conn.execute("delete from headrace_internal.spark_stage where place = 1")
    with pytest.raises(Conflict, match="brought 2 rows, and 1 of them are there"):
        commit(told, "query", 0, [brought])
    commit(told, "query", 0, [stage(told, "query", 0, [batch(1, 2)])])
    drain(conn)
    assert numbers(conn) == [1, 2]


@pytest.mark.lane("pg18")
def test_batch_that_comes_again_with_other_rows_is_refused(conn: Connection, secret: str) -> None:
    """Spark does not fsync its checkpoint: one that went back would bring events under the number of a batch already written."""
    topic(conn)
    told = options(secret)
    commit(told, "query", 0, [stage(told, "query", 0, [batch(1, 2)])])
    with pytest.raises(Conflict, match="was written with 2 rows, and comes again with 3"):
        commit(told, "query", 0, [stage(told, "query", 0, [batch(1, 2, 3)])])


@pytest.mark.lane("pg18")
def test_bad_rows_are_refused_with_their_reason_and_nothing_is_published(conn: Connection, secret: str) -> None:
    topic(conn)
    with pytest.raises(PayloadTooLarge):
        stage(options(secret), "query", 0, [pa.record_batch({"payload": ["1", json.dumps("x" * 1_100_000)]})])
    with pytest.raises(BadTime):
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
    ("given", "columns", "error"),
    [
        ({"topic": "orders"}, "payload string", "no column type"),
        ({"topic": "orders", "type": "t"}, "payload struct<a: int>", "to_json makes a string"),
        ({"topic": "orders", "type": "t"}, "payload string, colour string", "does not know column colour"),
        ({"topic": "orders", "type": "t", "as": "mail"}, "payload string", "events or actions"),
        ({"topic": "orders", "type": "t", "password": "x"}, "payload string", "would put an address into the plan"),
        ({"topic": "orders", "type": "t", "colour": "x"}, "payload string", "no option colour"),
    ],
)
def test_frame_or_option_that_does_not_fit_is_refused(
    spark: SparkSession, given: dict[str, str], columns: str, error: str
) -> None:
    schema = spark.createDataFrame([], columns).schema
    with pytest.raises(Invalid, match=error):
        SinkOptions.of(given, schema, overwrite=False)


def test_overwriting_a_log_is_refused(secret: str) -> None:
    with pytest.raises(Invalid, match="only ever appended"):
        SinkOptions.of({"topic": "orders", "type": "t", "secret": secret}, event_schema(["payload"]), overwrite=True)
