"""All shards are one frame and one stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.core import Invalid
from headrace.db import Connection, Server, Target, connect
from headrace.spark import event_schema
from headrace.spark.source import EventStreamReader
from tests.builders import drain, topic
from tests.spark.reading import publish_numbers, read_numbers, read_rows, secret_file

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def shards(server: Server) -> Iterator[list[tuple[Target, Connection]]]:
    """Two databases with the topic `orders`: positions 1 to 3 on `a`, 1 to 5 on `b`."""
    names = {shard: f"shard_{shard}_{uuid4().hex}" for shard in "ab"}
    with psycopg.connect(server.dsn(), autocommit=True) as admin, ExitStack() as stack:
        for name in names.values():
            admin.execute(f"create database {name} template headrace_template strategy file_copy")
        targets = [Target(shard, server.dsn(name)) for shard, name in names.items()]
        connections = [(target, stack.enter_context(connect(target))) for target in targets]
        for (_, conn), count in zip(connections, (3, 5), strict=True):
            topic(conn)
            publish_numbers(conn, count)
            drain(conn)
        yield connections
        stack.close()
        for name in names.values():
            admin.execute(f"drop database {name} with (force)")


def test_all_shards_are_one_frame(shards: list[tuple[Target, Connection]], tmp_path: Path) -> None:
    secret = secret_file(tmp_path, *(target for target, _ in shards))
    rows = read_rows(secret, columns="shard,offset")
    assert [tuple(row.values()) for row in rows] == [("a", 1), ("a", 2), ("a", 3), *(("b", offset) for offset in range(1, 6))]
    positions = '{"a": {"orders": 3}, "b": {"orders": -1}}'
    assert read_numbers(secret, startingOffsets=positions) == [3]
    with pytest.raises(Invalid, match="several shards"):
        read_numbers(secret, startingOffsets='{"orders": 3}')
    with pytest.raises(Invalid, match="orders on shard c"):
        read_numbers(secret, startingOffsets='{"c": {"orders": 3}}')


def test_stream_keeps_a_position_per_shard(shards: list[tuple[Target, Connection]], tmp_path: Path) -> None:
    secret = secret_file(tmp_path, *(target for target, _ in shards))
    stream = EventStreamReader({"secret": secret, "subscribe": "orders"}, event_schema())
    start = stream.initialOffset()
    assert start["next"] == {"a": {"orders": 4}, "b": {"orders": 6}}
    publish_numbers(shards[0][1], 2, first=4)
    drain(shards[0][1])
    end = stream.latestOffset(start, ReadAllAvailable())
    assert [(split.value.shard, split.value.first, split.value.until) for split in stream.partitions(start, end)] == [("a", 4, 6)]
    stream.stop()
