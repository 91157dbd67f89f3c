"""Topics as tables of Spark's catalog, and sessions that only this machine reaches."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from headrace.spark import correlate, read
from headrace.spark.source.offsets import SPLIT_POSITIONS_MAX, SPLIT_POSITIONS_MIN, Range, split_ranges
from tests.builders import drain, topic
from tests.spark.reading import numbers, publish_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def secret(conn: Connection, database: Target, tmp_path: Path) -> str:
    topic(conn)
    publish_numbers(conn, 20, type="Send for Credit Collection")
    publish_numbers(conn, 1, type="Payment")
    drain(conn)
    return secret_file(tmp_path, database)


def test_topic_is_a_table_of_the_catalog(spark: SparkSession, secret: str) -> None:
    name = f"orders_{os.getpid()}"
    spark.sql(
        f"create table {name} using headrace options (secret '{secret}', subscribe 'orders', columns 'offset,key,type,payload')"
    )
    try:
        assert spark.sql(f"select count(*) from {name} where key = 'k3'").collect() == [(2,)]
        assert spark.table(name).columns == ["offset", "key", "type", "payload"]
        assert spark.sql(f"select max(`offset`) from {name} with (toPosition = '5')").collect() == [(4,)]
        assert numbers(spark.table(name).where("type = 'Payment'")) == [1]
    finally:
        spark.sql(f"drop table {name}")


def test_read_with_a_condition_is_what_where_gives(spark: SparkSession, secret: str) -> None:
    condition = "type = 'Send for Credit Collection' and (object #>> '{}')::int between 5 and 7"
    chosen = read("orders", where=condition, columns=["offset", "type", "payload"], spark=spark, secret=secret)
    assert chosen.columns == ["offset", "type", "payload"] and numbers(chosen) == [5, 6, 7]
    assert "where" in chosen._jdf.queryExecution().analyzed().options().asCaseSensitiveMap()
    # A filter on the frame is Spark's, and does not leak into the next query.
    assert (chosen.where("payload = '6'").count(), chosen.count()) == (1, 3)


def test_event_type_with_spaces_is_quoted_in_patterns(spark: SparkSession, secret: str) -> None:
    events = read("orders", spark=spark, secret=secret)
    pattern = 'repeat {push(paid) {sequential {"Send for Credit Collection", Payment}}}'
    assert [row.evidence for row in correlate(events, pattern).collect()] == [[1, 21]]


def test_local_session_listens_on_this_machine_only(spark: SparkSession) -> None:
    current = psutil.Process()
    listening = [
        connection.laddr.ip
        for process in [current, *current.children(recursive=True)]
        if process.name() == "java"
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) > 1 and {address.removeprefix("::ffff:") for address in listening} <= {"127.0.0.1", "::1"}


def log(first: int, until: int, file: str | None = None) -> Range:
    return Range(1, "orders", first, until, 1, "main", file)


def test_splits_follow_cores_and_size() -> None:
    def sizes(count: int, **options: int) -> list[int]:
        return [len(split) for split in split_ranges([log(1, count + 1)], **{"partitions_min": 1, "cores": 4, **options})]

    assert sizes(10) == [10]
    assert sizes(2 * SPLIT_POSITIONS_MIN) == [SPLIT_POSITIONS_MIN] * 2
    assert sizes(SPLIT_POSITIONS_MAX) == [SPLIT_POSITIONS_MAX // 4] * 4
    assert sizes(6 * SPLIT_POSITIONS_MAX) == [3 * SPLIT_POSITIONS_MAX // 4] * 8, "as many for every core"
    assert sizes(100, partitions_min=7) == [14, 14, 14, 15, 14, 14, 15]


def test_small_files_share_a_task_and_every_position_is_read_once() -> None:
    files = [log(first, first + 100, f"file{first}") for first in range(1, 78_301, 100)]
    splits = split_ranges([*files, log(78_301, 78_401)], partitions_min=1, cores=2)
    assert len(splits) == 2
    ranges = [range_ for split in splits for range_ in split.ranges]
    assert [(range_.first, range_.until) for range_ in ranges] == sorted((range_.first, range_.until) for range_ in ranges)
    assert sum(map(len, ranges)) == 78_400 and len({range_.first for range_ in ranges}) == len(ranges)
