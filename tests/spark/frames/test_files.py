"""A stream that tasks read by themselves gives what Spark's own way gives; what is more than a plain read is left to Spark."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.db import Connection, Target
from headrace.spark import CorrelatorSpec, correlate
from headrace.spark.frames import correlation_tasks
from headrace.spark.frames.correlation_tasks import Reading
from headrace.spark.source.frame_reads import PIECE_BYTES_MAX, Files, find_pieces, pack_files
from tests.builders import drain, topic
from tests.spark.reading import load, publish_numbers, secret_file

from .test_correlate import EPOCH, EVENTS, SIMPLE, TIMED, TWOS, WIDE, expected, frame, output_rows, spec

TYPES = "repeat{push(x){do{accumulate{a, b}}unless{c}}}"


def written(df: Any, place: Path, **options: str) -> Any:
    """The frame out of Parquet files, which hold ranges of offsets."""
    df.repartitionByRange(4, "offset").sortWithinPartitions("offset").write.options(**options).parquet(str(place))
    return df.sparkSession.read.parquet(str(place))


def written_with(moments: str, df: Any, place: Path) -> Any:
    """The same, with another type of moments."""
    df.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", moments)
    try:
        return written(df, place)
    finally:
        df.sparkSession.conf.unset("spark.sql.parquet.outputTimestampType")


def plain(pattern: str, **options: Any) -> CorrelatorSpec:
    return CorrelatorSpec(name="c", pattern=pattern, evidence_max=3, **options)


def let_only_tasks_read(patch: pytest.MonkeyPatch) -> None:
    """No rows go through Spark, except for those of heads."""
    patch.setattr(Reading, "select", refuse)


def refuse(*_: object) -> None:
    raise AssertionError("rows go through Spark")


@pytest.mark.parametrize("pattern", [TYPES, TWOS, SIMPLE], ids=["types", "twos", "conditions"])
def test_files_read_by_tasks_give_what_the_table_gives(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    wanted = expected(monkeypatch, pattern, keyed=False)
    assert len(wanted) > 10
    df = written(frame(spark, EVENTS), tmp_path / "events")
    let_only_tasks_read(monkeypatch)
    assert output_rows(correlate(df, spec(pattern, key=None))) == wanted


def test_topic_and_first_offset_count_where_tasks_read(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = frame(spark, EVENTS).selectExpr("*", "if(`offset` % 5 = 0, 'other', topic) as t2").drop("topic")
    df = written(events.withColumnRenamed("t2", "topic"), tmp_path / "events")
    correlator = plain(TYPES, topic="t", since_offset=40)
    by_tasks = output_rows(correlate(df, correlator))
    monkeypatch.setattr(correlation_tasks, "find_pieces", lambda _: ())
    assert by_tasks == output_rows(correlate(df, correlator))
    assert by_tasks


def test_overlapping_files_are_left_to_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame(spark, EVENTS).repartition(3, "event_id").write.parquet(str(tmp_path / "events"))
    df = spark.read.parquet(str(tmp_path / "events"))
    assert find_pieces(df)
    assert output_rows(correlate(df, spec(TYPES, key=None))) == expected(monkeypatch, TYPES, keyed=False)


def test_file_that_is_not_what_the_frame_says_is_left_to_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = frame(spark, EVENTS)
    df.coalesce(1).selectExpr("*", "int(`offset`) as narrow").drop("offset").withColumnRenamed("narrow", "offset").write.parquet(
        str(tmp_path / "events")
    )
    read = spark.read.schema(df.schema).parquet(str(tmp_path / "events"))
    assert find_pieces(read)
    assert output_rows(correlate(read, spec(TYPES, key=None))) == expected(monkeypatch, TYPES, keyed=False)


def test_only_a_plain_read_is_read_by_tasks(spark: Any, tmp_path: Path) -> None:
    df = written(frame(spark, EVENTS), tmp_path / "events")
    frame(spark, EVENTS).write.partitionBy("topic").parquet(str(tmp_path / "by_topic"))
    frame(spark, EVENTS).write.json(str(tmp_path / "json"))
    others = [
        df.where("type <> 'b'"),
        df.sample(0.5, seed=1),
        df.limit(5),
        df.withColumn("type", df["key"]),
        df.union(df),
        frame(spark, EVENTS),
        spark.read.parquet(str(tmp_path / "by_topic")),
        spark.read.schema(df.schema).json(str(tmp_path / "json")),
        df.selectExpr("*", "int(`offset`) as o").drop("offset").withColumnRenamed("o", "offset"),
    ]
    assert [find_pieces(other) for other in others] == [()] * len(others)
    assert find_pieces(df)


# What a file calls a moment is read in one place for every pattern: each kind with the pattern that has timers.
@pytest.mark.parametrize(
    ("pattern", "moments"),
    [
        pytest.param(TYPES, "TIMESTAMP_MICROS", id="types"),
        pytest.param(SIMPLE, "TIMESTAMP_MILLIS", id="simple"),
        pytest.param(WIDE, "INT96", id="wide"),
        *(pytest.param(TIMED, moments, id=f"timed-{moments}") for moments in ("TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96")),
    ],
)
def test_files_are_read_by_tasks_for_patterns_with_a_key(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, moments: str
) -> None:
    until = EVENTS[-1].time + 60_000_000
    wanted = expected(monkeypatch, pattern, keyed=True, until=until)
    assert len(wanted) > 5
    df = written_with(moments, frame(spark, EVENTS), tmp_path / "events")
    let_only_tasks_read(monkeypatch)
    assert output_rows(correlate(df, spec(pattern), until=EPOCH + timedelta(microseconds=until))) == wanted


def test_file_that_tasks_cannot_read_is_left_to_spark_for_patterns_with_a_key(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = frame(spark, EVENTS)
    narrow = df.coalesce(1).selectExpr("*", "int(`offset`) as narrow").drop("offset").withColumnRenamed("narrow", "offset")
    narrow.write.parquet(str(tmp_path / "events"))
    read = spark.read.schema(df.schema).parquet(str(tmp_path / "events"))
    wanted = expected(monkeypatch, SIMPLE, keyed=True)
    assert output_rows(correlate(read, spec(SIMPLE))) == wanted
    filtered = written(df, tmp_path / "others").where("true or type = ''").union(df.limit(0))
    assert output_rows(correlate(filtered, spec(SIMPLE))) == wanted
    let_only_tasks_read(monkeypatch)
    for other in (read, filtered):
        with pytest.raises(AssertionError, match="go through Spark"):
            correlate(other, spec(SIMPLE))


@pytest.mark.parametrize("key", ["object ->> 'account'", None])
def test_cached_frame_stays_what_it_was(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    df = written_with("TIMESTAMP_MICROS", frame(spark, EVENTS), tmp_path / "events").cache()
    try:
        df.count()
        for file in (tmp_path / "events").glob("*.parquet"):
            rows = pq.read_table(file)
            pq.write_table(rows.slice(0, rows.num_rows // 2), file)
        wanted = expected(monkeypatch, TYPES, keyed=key is not None)
        assert output_rows(correlate(df, spec(TYPES, key=key))) == wanted
    finally:
        df.unpersist()


def test_topic_and_kinds_of_events_count_where_tasks_read_for_a_key(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = frame(spark, EVENTS).selectExpr("*", "if(`offset` % 5 = 0, 'other', topic) as t2").drop("topic")
    df = written(events.withColumnRenamed("t2", "topic"), tmp_path / "events")
    correlators = [
        CorrelatorSpec(name="one", pattern=TYPES, key="object ->> 'account'", topic="t", since_offset=40),
        CorrelatorSpec(name="two", pattern="repeat{push(y){loop(70){d or a}}}", key="type", topic="other"),
    ]
    with monkeypatch.context() as patch:
        let_only_tasks_read(patch)
        by_tasks = sorted(map(str, correlate(df, correlators).collect()))
    monkeypatch.setattr(correlation_tasks, "find_pieces", lambda _: ())
    assert by_tasks == sorted(map(str, correlate(df, correlators).collect()))
    assert by_tasks


def test_pieces_read_every_row_once(tmp_path: Path) -> None:
    """Large files are cut by row groups, small ones are read together."""
    rows = pa.table({"type": ["a", "b"] * 50, "offset": range(100)})
    pq.write_table(rows, tmp_path / "f", row_group_size=7)
    cut = [Files((str(tmp_path / "f"),), part, 4) for part in range(4)]
    offsets = [offset for piece in cut for batch in piece.batches(["type", "offset"]) for offset in batch["offset"].to_pylist()]
    assert offsets == list(range(100))
    sizes = {f"small{n}": 10 for n in range(50)} | {"large": 5 * PIECE_BYTES_MAX} | {"middle": PIECE_BYTES_MAX}
    pieces = pack_files(sizes, cores=2)
    assert sorted(path for piece in pieces for path in piece.paths if piece.part == 0) == sorted(sizes)
    assert [piece.parts for piece in pieces if piece.paths == ("large",)] == [6] * 6
    assert len(pieces) == 6 + 1 + 1
    assert [len(piece.paths) for piece in pack_files({str(n): 31 << 20 for n in range(8)}, cores=2)] == [4, 4]


@pytest.mark.lane("pg18")
def test_log_is_read_by_tasks_as_it_was_when_the_frame_was_correlated(
    spark: Any, conn: Connection, database: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(conn, partitions=4)
    for start in range(1, 30, 3):
        publish_numbers(conn, 2, first=start)
        publish_numbers(conn, 1, type="paid", first=start + 2)
    drain(conn)
    correlator = plain("repeat{push(x){sequential{placed,placed,paid}}}", topic="orders")
    df = load(spark, secret_file(tmp_path, database), minPartitions=4)
    by_spark = output_rows(correlate(df.where("true or type = ''").union(df.limit(0)), correlator))
    with monkeypatch.context() as patch:
        let_only_tasks_read(patch)
        outputs = correlate(df, correlator)
    publish_numbers(conn, 2, first=31)
    publish_numbers(conn, 1, type="paid", first=33)
    drain(conn)
    assert output_rows(outputs) == by_spark
    assert len(by_spark) == 10


@pytest.mark.lane("pg18")
def test_cached_frame_of_a_topic_stays_what_it_was(spark: Any, conn: Connection, database: Target, tmp_path: Path) -> None:
    topic(conn, partitions=4)
    publish_numbers(conn, 6)
    drain(conn)
    correlator = plain("repeat{push(x){loop(2){placed}}}", topic="orders", key="type")
    df = load(spark, secret_file(tmp_path, database)).cache()
    try:
        assert df.count() == 6
        publish_numbers(conn, 4, first=7)
        drain(conn)
        assert correlate(df, correlator).count() == 3
    finally:
        df.unpersist()
    assert correlate(load(spark, secret_file(tmp_path, database)), correlator).count() == 5
