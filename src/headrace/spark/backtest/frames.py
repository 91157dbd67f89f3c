"""The frames of a backtest: what would fire, what did fire, and both compared.

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
from headrace.lang.condition import spark_literal
from headrace.spark import CorrelatorSpec, RuleSpec, correlate, match

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

IDENTITY = ("name", "shard", "token", "key", "position", "time")
_COLUMNS = ("name", "token", "key", "position", "time", "event_id", "evidence", "evidence_total")


@dataclass(frozen=True)
class TopicRange:
    """A range of positions and of time of one topic on one shard."""

    conn: Connection
    shard: str
    shards: tuple[str, ...]
    stored: StoredRange
    from_at: datetime
    to_at: datetime

    @property
    def topic(self) -> str:
        return self.stored.topic

    def offsets(self, position: int) -> str:
        """The source's option: this shard from or to a position, no events of the other shards."""
        if len(self.shards) == 1:
            return json.dumps({self.topic: position})
        return json.dumps({shard: {self.topic: position if shard == self.shard else -1} for shard in self.shards})


@dataclass(frozen=True)
class Source:
    """How Spark reads the events."""

    spark: SparkSession
    options: Mapping[str, str]

    def events(self, part: TopicRange, **options: str) -> DataFrame:
        all_options = {
            **self.options,
            "subscribe": part.topic,
            "startingOffsets": part.offsets(part.stored.first),
            "endingOffsets": part.offsets(part.stored.until),
            "minPartitions": str(self.spark.sparkContext.defaultParallelism if hasattr(self.spark, "_jsc") else 4),
            **options,
        }
        return self.spark.read.format("headrace").options(**all_options).load()


def would_fire(source: Source, part: TopicRange, specs: Sequence[RuleSpec]) -> DataFrame:
    """The firings of the tested rules."""
    types = sorted({spec.event_type for spec in specs})
    firings = match(source.events(part, types=json.dumps(types)), specs)
    columns = ("rule as name", "key", "`offset` as position", "timestamp as time", "event_id")
    return _rule_outputs(firings.selectExpr(*columns), part, live=False)


def did_fire(source: Source, part: TopicRange, names: Sequence[str], namespace: str | None) -> DataFrame | None:
    """The firings of the live rules, with key and time of the events; None if there are none."""
    rows = _read_live("spark/backtest/firings", part, names, namespace)
    if not rows:
        return None
    firings = source.spark.createDataFrame(_table(rows, ("name", "position", "event_id")))
    events = source.events(part, columns="offset,key,timestamp").selectExpr("`offset` as position", "key", "timestamp as time")
    return _rule_outputs(firings.join(events, "position"), part, live=True)


def _rule_outputs(firings: DataFrame, part: TopicRange, *, live: bool) -> DataFrame:
    outputs = firings.selectExpr("*", "string(null) as token", "array(position) as evidence", "1 as evidence_total")
    return _outputs(outputs, part, live=live)


def would_push(source: Source, part: TopicRange, spec: CorrelatorSpec) -> DataFrame:
    """The outputs of the tested correlator; every key starts with its first event in the range."""
    outputs = correlate(source.events(part), spec, until=part.to_at)
    return _outputs(outputs.withColumnsRenamed({"correlator": "name", "offset": "position"}), part, live=False)


def did_push(source: Source, part: TopicRange, name: str, namespace: str | None) -> DataFrame | None:
    """The outputs of the live correlator; None if there are none."""
    rows = _read_live("spark/backtest/correlations", part, [name], namespace)
    return _outputs(source.spark.createDataFrame(_table(rows, _COLUMNS)), part, live=True) if rows else None


def compare(frames: Sequence[DataFrame]) -> DataFrame:
    """One row per output, with `would` and `live`."""
    from pyspark.sql import functions

    outputs = reduce(lambda frame, other: frame.unionByName(other), frames)
    return outputs.groupBy(*IDENTITY).agg(
        *(functions.max(name).alias(name) for name in ("event_id", "evidence", "evidence_total", "would", "live"))
    )


def _outputs(frame: DataFrame, part: TopicRange, *, live: bool) -> DataFrame:
    origin = (f"{spark_literal(part.shard)} as shard", f"{int(not live)} as would", f"{int(live)} as live")
    return frame.selectExpr(*_COLUMNS, *origin)


def _read_live(name: str, part: TopicRange, names: Sequence[str], namespace: str | None) -> list[tuple[object, ...]]:
    parameters = {
        "topic_id": part.stored.topic_id,
        "first": part.stored.first,
        "until": part.stored.until,
        "from_at": part.from_at,
        "to_at": part.to_at,
        "names": list(names),
        "namespace": namespace,
    }
    with map_database_errors():
        return part.conn.execute(query(name), parameters).fetchall()


def _table(rows: Sequence[Sequence[object]], names: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    types = {
        "position": pa.int64(),
        "time": pa.timestamp("us", tz="UTC"),
        "evidence": pa.list_(pa.int64()),
        "evidence_total": pa.int32(),
    }
    columns = zip(*rows, strict=True)
    return pa.table({name: pa.array(column, types.get(name, pa.string())) for name, column in zip(names, columns, strict=True)})
