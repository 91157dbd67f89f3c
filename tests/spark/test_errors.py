"""Errors of the Spark side say in their first line what happened and what to do, not in a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql import DataFrame, SparkSession

from headrace.core import (
    DatabaseUnavailable,
    Forbidden,
    HeadraceError,
    Invalid,
    NotFound,
    PositionOutOfRange,
    UnknownTopic,
)  # fmt: skip
from headrace.db import Connection, Target
from headrace.spark import correlate, map_spark_errors, match, read
from tests.builders import drain, shift_clock, topic
from tests.spark.reading import load, publish_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")
PATTERN = "repeat {push(x) {placed}}"


@pytest.fixture
def secret(database: Target, conn: Connection, tmp_path: Path) -> str:
    topic(conn)
    publish_numbers(conn, 10)
    drain(conn)
    return secret_file(tmp_path, database)


def first_line(class_: type[HeadraceError] | tuple[type[HeadraceError], ...], work: Callable[[], object]) -> str:
    """The first line of the error, which has no traceback in it."""
    with pytest.raises(class_) as raised:
        work()
    text = str(raised.value)
    assert "Traceback" not in text and "\tat " not in text and len(text.splitlines()) < 8, text
    return text.splitlines()[0]


def test_read_says_what_is_wrong_before_spark_runs(
    spark: SparkSession, conn: Connection, database: Target, secret: str, tmp_path: Path
) -> None:
    def fails(class_: type[HeadraceError], **options: str) -> str:
        name = options.pop("topic", "orders")
        return first_line(class_, lambda: read(name, spark=spark, **{"secret": secret, **options}))

    assert fails(UnknownTopic, topic="nope") == "no topic nope in the namespace; headrace topic list shows the topics"
    missing = fails(NotFound, secret="/nowhere")
    assert missing == "secret '/nowhere' cannot be read (No such file or directory); this process looks for the file /nowhere"
    assert fails(Invalid, columns=["nope"]).startswith("events have no column 'nope'; they have key, type, payload")
    assert fails(Invalid, where="payload ->> 'a' = 1").startswith("condition, line 1, column")
    past = fails(PositionOutOfRange, startingOffsets='{"orders": 500}')
    assert past.startswith(
        "reading starts past the end: position 500 of topic 'orders' on shard 'main', which ends at 10; give a"
    )
    down = tmp_path / "down"
    down.write_text(make_conninfo(database.dsn, port=1, host="127.0.0.1"))
    assert re.match("cannot (reach|connect to) database", fails(DatabaseUnavailable, secret=str(down)))
    role = "spark_stranger"
    conn.execute(f"do $$ begin create role {role} login; exception when duplicate_object then null; end $$")
    stranger = tmp_path / "stranger"
    stranger.write_text(make_conninfo(database.dsn, user=role))
    assert fails(Forbidden, secret=str(stranger)).startswith(
        "permission denied for schema headrace; name a namespace this role has, or ask its owner for: select headrace.grant_namespace"
    )


def test_frame_that_does_not_fit_is_rejected_with_the_column(spark: SparkSession, secret: str) -> None:
    events = load(spark, secret)
    rule = "on placed if (object #>> '{}')::int > 3"
    assert first_line(Invalid, lambda: match(events.drop("payload"), rule)).startswith("the frame has no column payload")
    assert first_line(Invalid, lambda: correlate(events.drop("event_id"), PATTERN)).startswith("the frame has no column event_id")
    struct = events.selectExpr("struct(payload as a) as payload", "type", "topic", "`offset`", "event_id", "appended_at")
    wrong = "column 'payload' of the frame is struct<a:string>, not string; to_json(payload) makes a text of it"
    assert first_line(Invalid, lambda: match(struct, rule)) == first_line(Invalid, lambda: correlate(struct, PATTERN)) == wrong
    assert first_line(Invalid, lambda: correlate(events, "push(x) {placed")).startswith(
        "line 1, column 16: the pattern ends too early"
    )
    assert first_line(Invalid, lambda: match(events, "on placed if object >> 3")).startswith("condition, line 1, column")


def test_error_of_a_task_keeps_its_message(spark: SparkSession, conn: Connection, secret: str) -> None:
    """Retention passes between planning and reading; then the topic is gone."""

    def run(frame: DataFrame) -> Callable[[], object]:
        def work() -> None:
            with map_spark_errors():
                frame.collect()

        return work

    orders = load(spark, secret)
    starting = load(spark, secret, startingOffsets='{"orders": 4}')
    shift_clock(conn, "100 days")
    publish_numbers(conn, 1)
    drain(conn)
    conn.execute("select headrace.drop_expired(headrace.topic_id('orders'), headrace.clock() - interval '32 days')")
    lost = "topic 'orders' on shard 'main': positions 4 to 10 have been dropped by retention, 7 events are lost to this read; begin at"
    assert first_line(PositionOutOfRange, run(starting)).startswith(lost)
    conn.execute("select headrace.drop_topic('orders')")
    assert first_line(UnknownTopic, run(orders)).startswith("no topic orders in the namespace")


def test_any_other_error_passes_as_it_is(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"), map_spark_errors():
        spark.range(1).selectExpr("1 / (id - id)").collect()


def test_batch_that_could_only_be_empty_by_mistake_is_an_error(spark: SparkSession, secret: str) -> None:
    with pytest.raises(
        Exception, match=r"no topic of the namespace matches subscribePattern 'order', which must match the whole"
    ):
        load(spark, secret, subscribePattern="order").count()
