"""A frame is one log: timers fire up to its end, and what is not one log, or lacks the log's time, is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.core import Invalid
from headrace.db import Connection, Target
from headrace.lang.condition import Sample
from headrace.lang.ecl import Event
from headrace.spark import CorrelatorSpec, correlate
from tests.builders import drain, shift_clock, topic
from tests.spark.reading import load, publish_numbers, secret_file

from .test_correlate import EVENTS, TIMED, frame, output_rows, spec

SLOW = "repeat{push(late){do{sequential{a, after 9 s}}unless{c}}}"
LATE = "push(late) {sequential {placed, fail {within 10 s {shipped}}}}"


def test_timers_fire_up_to_the_end_of_the_log_not_of_their_key(spark: Any) -> None:
    """The only event of k1 is long ago when the log ends; that of k2 is not."""
    times = {"k1": 0, "k2": 55_000_000, "k3": 60_000_000}
    events = [Event("a" if key < "k3" else "b", at, Sample({"account": key}, "a")) for key, at in times.items()]
    assert [row[:4] for row in output_rows(correlate(frame(spark, events), spec(SLOW)))] == [("k1", "late", None, 9_000_000)]


def test_plain_read_ends_where_the_log_ends_whatever_types_it_reads(
    spark: Any, conn: Connection, database: Target, tmp_path: Path
) -> None:
    """Ten keys wait for their timers, then a minute passes, and one event of another type is the last of the log."""
    topic(conn)
    publish_numbers(conn, 10)
    drain(conn)
    shift_clock(conn, "1 minute")
    publish_numbers(conn, 1, type="other")
    drain(conn)
    placed = load(spark, secret_file(tmp_path, database), types="placed", minPartitions=2)
    outputs = correlate(placed, CorrelatorSpec(name="late", pattern=LATE, key="key"))
    # Published meanwhile: the frame ends where it ended when correlate was called.
    publish_numbers(conn, 5)
    drain(conn)
    rows = outputs.select("key", "offset", "evidence").collect()
    assert sorted((row.key, row.offset, *row.evidence) for row in rows) == sorted((f"k{n % 10}", None, n) for n in range(1, 11))
    # A filter hides the end of the log: the last event of the frame counts.
    assert correlate(placed.where("offset <= 10"), CorrelatorSpec(name="late", pattern=LATE, key="key")).count() == 0


def test_frame_without_the_logs_time_is_rejected(spark: Any) -> None:
    with pytest.raises(Invalid, match="no column appended_at, the log's time"):
        correlate(frame(spark, EVENTS).drop("appended_at"), spec(TIMED))


@pytest.mark.parametrize("key", [None, "object ->> 'account'"])
def test_frame_of_several_logs_is_rejected(spark: Any, key: str | None) -> None:
    events = frame(spark, EVENTS)
    topics = events.selectExpr("*", "if(`offset` % 2 = 0, 't', 'u') as t2").drop("topic").withColumnRenamed("t2", "topic")
    pattern = "repeat{push(x){sequential{a,b}}}"
    with pytest.raises(
        Invalid, match=r"runs over one log, but the frame has events of 2: t on shard main, u on shard main; filter"
    ):
        correlate(topics, CorrelatorSpec(name="c", pattern=pattern, key=key))
    one = output_rows(correlate(topics, CorrelatorSpec(name="c", pattern=pattern, key=key, topic="t")))
    assert one == output_rows(correlate(topics.where("topic = 't'"), CorrelatorSpec(name="c", pattern=pattern, key=key)))
    shards = events.selectExpr("*", "if(`offset` % 2 = 0, 'a', 'b') as s2").drop("shard").withColumnRenamed("s2", "shard")
    with pytest.raises(Invalid, match="t on shard a, t on shard b; filter the frame by shard"):
        correlate(shards, CorrelatorSpec(name="c", pattern=pattern, key=key, topic="t"))


def test_read_of_two_topics_is_rejected_before_anything_runs(
    spark: Any, conn: Connection, database: Target, tmp_path: Path
) -> None:
    for name in ("orders", "returns"):
        topic(conn, name)
        publish_numbers(conn, 2, topic=name)
    drain(conn)
    both = load(spark, secret_file(tmp_path, database), subscribe="orders,returns")
    with pytest.raises(Invalid, match="has events of 2: orders on shard main, returns on shard main"):
        correlate(both, "repeat{push(x){placed}}", key="key")
    correlator = CorrelatorSpec(name="c", pattern="repeat{push(x){placed}}", key="key", topic="returns")
    assert correlate(both, correlator).count() == 2


def test_stream_is_rejected_with_advice(spark: Any) -> None:
    with pytest.raises(Invalid, match="for a stream use correlate_stream"):
        stream = spark.readStream.format("rate").load()
        columns = "'a' as type, value as `offset`, 'e' as event_id, timestamp as appended_at, 'k' as key"
        correlate(stream.selectExpr(*columns.split(", ")), "repeat{push(x){a}}", key="key")
