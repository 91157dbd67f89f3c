"""The frames of a backtest: what would fire, what did fire, and both side by side.

A row is one output: name, shard, token, key, position, time, event_id, evidence, evidence_total, would, live."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from headrace.archive import StoredRange
from headrace.db import Connection, map_database_errors, query
from headrace.spark import CorrelatorSpec, RuleSpec, correlate, match

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

IDENTITY = ("name", "shard", "token", "key", "position", "time")
_ROW = ("name", "token", "key", "position", "time", "event_id", "evidence", "evidence_total")


@dataclass(frozen=True)
class Piece:
    """One topic on one shard, over a range of positions and of time."""

    shard: str
    shards: tuple[str, ...]
    span: StoredRange
    from_at: datetime
    to_at: datetime

    def offsets(self, position: int) -> str:
        """The source's option: this shard from or to a position, the others not at all."""
        if len(self.shards) == 1:
            return json.dumps({self.span.topic: position})
        return json.dumps({shard: {self.span.topic: position if shard == self.shard else -1} for shard in self.shards})


@dataclass(frozen=True)
class Source:
    """How Spark reads."""

    spark: SparkSession
    options: Mapping[str, str]

    def events(self, piece: Piece, **options: str) -> DataFrame:
        told = {
            **self.options,
            "subscribe": piece.span.topic,
            "startingOffsets": piece.offsets(piece.span.first),
            "endingOffsets": piece.offsets(piece.span.until),
            "minPartitions": str(self.spark.sparkContext.defaultParallelism if hasattr(self.spark, "_jsc") else 4),
            **options,
        }
        return self.spark.read.format("headrace").options(**told).load()


def would_fire(source: Source, piece: Piece, specs: Sequence[RuleSpec]) -> DataFrame:
    """The outputs of rules."""
    types = sorted({spec.event_type for spec in specs})
    hits = match(source.events(piece, types=json.dumps(types)), specs)
    return _told(
        hits.selectExpr(
            "rule as name",
            "string(null) as token",
            "key",
            "`offset` as position",
            "timestamp as time",
            "event_id",
            "array(`offset`) as evidence",
            "1 as evidence_total",
        ),
        piece,
        live=False,
    )


def did_fire(source: Source, piece: Piece, conn: Connection, names: Sequence[str], namespace: str | None) -> DataFrame | None:
    """What the live rules did, with key and time of the events; None where they did nothing."""
    fired = _asked(conn, "spark/backtest/firings", piece, names, namespace)
    if not fired:
        return None
    found = source.spark.createDataFrame(_table(fired, ("name", "position", "event_id")))
    events = source.events(piece, columns="offset,key,timestamp").selectExpr("`offset` as position", "key", "timestamp as time")
    known = found.join(events, "position")
    return _told(
        known.selectExpr(
            "name",
            "string(null) as token",
            "key",
            "position",
            "time",
            "event_id",
            "array(position) as evidence",
            "1 as evidence_total",
        ),
        piece,
        live=True,
    )


def would_push(source: Source, piece: Piece, spec: CorrelatorSpec) -> DataFrame:
    """The outputs of a correlator; every key starts with its first event in the range."""
    pushed = correlate(source.events(piece), spec, until=piece.to_at)
    return _told(
        pushed.selectExpr(
            "correlator as name", "token", "key", "`offset` as position", "time", "event_id", "evidence", "evidence_total"
        ),
        piece,
        live=False,
    )


def did_push(source: Source, piece: Piece, conn: Connection, name: str, namespace: str | None) -> DataFrame | None:
    """What the live correlator pushed; None where it pushed nothing."""
    pushed = _asked(conn, "spark/backtest/correlations", piece, [name], namespace)
    return _told(source.spark.createDataFrame(_table(pushed, _ROW)), piece, live=True) if pushed else None


def side_by_side(frames: Sequence[DataFrame]) -> DataFrame:
    """One row per output, whoever gave it."""
    from pyspark.sql import functions

    joined = reduce(lambda one, other: one.unionByName(other), frames)
    return joined.groupBy(*IDENTITY).agg(
        *(functions.max(name).alias(name) for name in ("event_id", "evidence", "evidence_total", "would", "live"))
    )


def _told(frame: DataFrame, piece: Piece, *, live: bool) -> DataFrame:
    from pyspark.sql import functions

    return frame.select(
        *_ROW,
        functions.lit(piece.shard).alias("shard"),
        functions.lit(int(not live)).alias("would"),
        functions.lit(int(live)).alias("live"),
    )


def _asked(conn: Connection, name: str, piece: Piece, names: Sequence[str], namespace: str | None) -> list[tuple[object, ...]]:
    given = {
        "topic_id": piece.span.topic_id,
        "first": piece.span.first,
        "until": piece.span.until,
        "from_at": piece.from_at,
        "to_at": piece.to_at,
        "names": list(names),
        "namespace": namespace,
    }
    with map_database_errors():
        return conn.execute(query(name), given).fetchall()


def _table(rows: Sequence[Sequence[object]], names: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    text = pa.string()
    types = {"position": pa.int64(), "time": pa.timestamp("us", tz="UTC")}
    types |= {"evidence": pa.list_(pa.int64()), "evidence_total": pa.int32()}
    columns = zip(*rows, strict=True)
    return pa.table({name: pa.array(column, types.get(name, text)) for name, column in zip(names, columns, strict=True)})
