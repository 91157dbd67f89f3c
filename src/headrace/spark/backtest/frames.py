"""The frames of a backtest: what would fire, what did fire, and both compared.

A row is one output: kind (rule or correlator), name, shard, token, key, position, time, event_id, evidence, evidence_total, would, live."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from headrace.archive import StoredRange
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import micros_of, spark_literal
from headrace.spark import CorrelatorSpec, RuleSpec, match
from headrace.spark.correlate import build_classifier, correlate_log
from headrace.spark.match import COLUMN_OF, cached_plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

IDENTITY = ("kind", "name", "shard", "token", "key", "position", "time")
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


class EventFrame:
    """The events of a range with the columns that rules and correlators read: one read for all of them."""

    def __init__(
        self, source: Source, part: TopicRange, rules: Sequence[RuleSpec], correlators: Sequence[CorrelatorSpec]
    ) -> None:
        self._source, self._part = source, part
        self._rules, self._correlators = tuple(rules), tuple(correlators)

    @cached_property
    def _columns(self) -> str:
        roots = set(cached_plan(self._rules).reads) if self._rules else set()
        roots = roots.union(*(build_classifier(spec).roots for spec in self._correlators))
        names = {COLUMN_OF.get(root, root) for root in roots} | {"type", "topic", "offset", "event_id"}
        names |= {"key", "timestamp"} if self._rules else set()
        return ",".join(sorted(names | ({"appended_at"} if self._correlators else set())))

    def outputs(self, namespace: str | None, keep: Callable[[DataFrame], DataFrame]) -> list[DataFrame]:
        """What would fire and what did. `keep`: keeps a frame that is read more than once, until the backtest ends."""
        rules = [spec.name for spec in self._rules]
        correlators = [spec.name for spec in self._correlators]
        firings = _read_live("spark/backtest/firings", self._part, rules, namespace) if rules else []
        pushed = _read_live("spark/backtest/correlations", self._part, correlators, namespace) if correlators else []
        readers = bool(self._rules) + bool(self._correlators) + bool(firings)
        types = {} if correlators or firings else {"types": json.dumps(sorted({spec.event_type for spec in self._rules}))}
        events = self._source.events(self._part, columns=self._columns, **types)
        if readers > 1:
            events = keep(events)
        frames = [self._would_fire(events)] if rules else []
        frames += [self._did_fire(events, firings)] if firings else []
        frames += [self._would_push(events)] if correlators else []
        return frames + ([self._did_push(pushed)] if pushed else [])

    def _would_fire(self, events: DataFrame) -> DataFrame:
        columns = ("rule as name", "key", "`offset` as position", "timestamp as time", "event_id")
        return _rule_outputs(match(events, self._rules).selectExpr(*columns), self._part, live=False)

    def _did_fire(self, events: DataFrame, rows: Sequence[Sequence[object]]) -> DataFrame:
        """The firings of the live rules, with key and time of the events."""
        firings = self._source.spark.createDataFrame(_table(rows, ("name", "position", "event_id")))
        times = events.selectExpr("`offset` as position", "key", "timestamp as time")
        return _rule_outputs(firings.join(times, "position"), self._part, live=True)

    def _would_push(self, events: DataFrame) -> DataFrame:
        """The outputs of the tested correlators; every key starts with its first event in the range."""
        untils = [micros_of(self._part.to_at)] * len(self._correlators)
        outputs = correlate_log(events, self._correlators, untils)
        return _outputs(
            outputs.withColumnsRenamed({"correlator": "name", "offset": "position"}), self._part, "correlator", live=False
        )

    def _did_push(self, rows: Sequence[Sequence[object]]) -> DataFrame:
        outputs = self._source.spark.createDataFrame(_table(rows, _COLUMNS))
        return _outputs(outputs, self._part, "correlator", live=True)


def _rule_outputs(firings: DataFrame, part: TopicRange, *, live: bool) -> DataFrame:
    outputs = firings.selectExpr("*", "string(null) as token", "array(position) as evidence", "1 as evidence_total")
    return _outputs(outputs, part, "rule", live=live)


def compare(frames: Sequence[DataFrame]) -> DataFrame:
    """One row per output, with `would` and `live`."""
    from pyspark.sql import functions

    outputs = reduce(lambda frame, other: frame.unionByName(other), frames)
    return outputs.groupBy(*IDENTITY).agg(
        *(functions.max(name).alias(name) for name in ("event_id", "evidence", "evidence_total", "would", "live"))
    )


def _outputs(frame: DataFrame, part: TopicRange, kind: str, *, live: bool) -> DataFrame:
    origin = (f"'{kind}' as kind", f"{spark_literal(part.shard)} as shard", f"{int(not live)} as would", f"{int(live)} as live")
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
