"""Spark's source reads archive and log as one: every position once, with the same rows whichever of the two has it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.core import NotFound, PositionOutOfRange
from headrace.db import Connection, Target
from headrace.log.archive import list_archive
from headrace.spark import event_schema
from headrace.spark.data_source import HeadraceSource
from headrace.spark.source.options import SourceOptions
from headrace.spark.source.readers import EventReader, EventStreamReader
from tests.log.archive.builders import archive_orders, drop, events, three_days
from tests.spark.reading import load, secret_file

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def secret(database: Target, tmp_path: Path) -> str:
    return secret_file(tmp_path, database)


@pytest.fixture
def three(conn: Connection, database: Target, tmp_path: Path) -> Connection:
    """Positions 1 to 40, of which 1 to 30 are archived and still in the log."""
    three_days(conn)
    archive_orders(conn, database, tmp_path / "archive", days=6)
    return conn


def rows(secret: str, **options: str) -> list[dict[str, object]]:
    """What the source gives, planned and read in this process."""
    source = HeadraceSource({"secret": secret, "subscribe": "orders", **options})
    reader = source.reader(source.schema())
    batches = [batch for split in reader.partitions() for batch in reader.read(split)]
    return pa.Table.from_batches(batches).sort_by("offset").to_pylist() if batches else []


EXTRACT = json.dumps(
    {
        "n": "n",
        "deep": "odd.a.1.b",
        "deep_json": {"path": ["odd", "a", "-1", "b"], "as": "json"},
        "object": {"path": "odd", "as": "json"},
        "object_text": ["odd", "a"],
        "number": {"path": ["odd", "pi"], "as": "json"},
        "null_json": {"path": ["odd", "none"], "as": "json"},
        "null_text": ["odd", "none"],
        "absent": ["odd", "a", "x"],
        "beyond": ["odd", "a", "2"],
        "scalar": "n.x",
    }
)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": ",".join(event_schema().fieldNames()) + ",producer"},
        {"extract": EXTRACT},
        {"types": "paid", "columns": "offset,key"},
        {"keys": "k1,k2", "toPosition": "33"},
        {"fromTime": "2026-01-01T00:05:00Z", "toTime": "2026-01-01T00:37:00Z"},
        {"startingOffsets": '{"orders": 9}', "endingOffsets": '{"orders": 33}'},
        {"minPartitions": "9"},
        {"endingOffsets": '{"orders": 20}'},
        {"columns": "offset,shard"},
        {"where": "(object -> 'n')::int % 7 = 3 and key is not null", "columns": "offset"},
        {"where": "headers ->> 'h' = '5' or emitted_at > '2026-01-01T00:30:00Z'", "extract": EXTRACT},
    ],
)
def test_read_gives_the_same_rows_after_the_log_was_dropped(three: Connection, secret: str, options: dict[str, str]) -> None:
    before = rows(secret, **options)
    assert before
    drop(three, days=6)
    assert rows(secret, **options) == before


def test_times_are_found_in_the_archive(three: Connection, secret: str) -> None:
    (at,) = three.execute("select appended_at from headrace.log where position = 11").fetchone()
    drop(three, days=6)
    assert [row["offset"] for row in rows(secret, startingTimestamp=at.isoformat())] == list(range(11, 41))
    assert [row["offset"] for row in rows(secret, endingTimestamp=at.isoformat())] == list(range(1, 11))


def test_archive_false_reads_the_log_alone(three: Connection, secret: str) -> None:
    drop(three, days=6)
    assert [row["offset"] for row in rows(secret, archive="false")] == list(range(31, 41))
    with pytest.raises(PositionOutOfRange, match="positions 1 to 30 have been dropped"):
        rows(secret, archive="false", startingOffsets='{"orders": 1}')


def test_archive_with_a_gap_before_the_log_is_not_read(three: Connection, secret: str) -> None:
    drop(three, days=6)
    three.execute("delete from headrace_internal.archive where first_position = 11")
    assert [row["offset"] for row in rows(secret)] == list(range(31, 41))
    with pytest.raises(PositionOutOfRange, match="positions 5 to 30 have been dropped"):
        rows(secret, startingOffsets='{"orders": 5}')
    assert len(rows(secret, startingOffsets='{"orders": 5}', failOnDataLoss="false")) == 10


def test_split_dropped_between_planning_and_reading_comes_from_the_archive(three: Connection, secret: str) -> None:
    reader = EventReader(SourceOptions.from_options({"secret": secret, "subscribe": "orders"}), event_schema())
    (split,) = reader.partitions()
    drop(three, days=6)
    offsets = [offset for batch in reader.read(split) for offset in batch.column("offset").to_pylist()]
    assert offsets == list(range(1, 41))


def test_stream_overtaken_by_retention_continues_from_the_archive(three: Connection, secret: str) -> None:
    stream = EventStreamReader({"secret": secret, "subscribe": "orders", "startingOffsets": "earliest"}, event_schema())
    start = stream.initialOffset()
    drop(three, days=6)
    events(three, 41, 5, days=6)
    end = stream.latestOffset(start, ReadAllAvailable())
    splits = stream.partitions(start, end)
    offsets = [offset for split in splits for batch in stream.read(split) for offset in batch.column("offset").to_pylist()]
    assert offsets == list(range(1, 46))
    stream.stop()


def test_missing_file_is_named_with_advice(three: Connection, secret: str, tmp_path: Path) -> None:
    drop(three, days=6)
    (one, _) = list_archive(three)
    (tmp_path / "archive").rename(tmp_path / "moved")
    with pytest.raises(NotFound, match=rf"{Path(one.file).name}, which does not exist"):
        rows(secret)
    assert len(rows(secret, archive=str(tmp_path / "moved"))) == 40


def test_frame_joins_archive_and_log(spark: SparkSession, three: Connection, secret: str) -> None:
    drop(three, days=6)
    frame = load(spark, secret, minPartitions="4")
    assert [row.offset for row in frame.select("offset").orderBy("offset").collect()] == list(range(1, 41))
    assert frame.where("type = 'paid'").count() == 13
