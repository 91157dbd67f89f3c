"""The frame of a backtest: what would fire and what did, compared.

A row is one output: kind (rule or correlator), name, shard, token, key, position, time, evidence, evidence_total, would, live,
outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from headrace.db import Connection, map_database_errors, query
from headrace.evaluate import CorrelatorSpec, RuleSpec
from headrace.lang.condition import micros_of, spark_literal
from headrace.log.archive import StoredRange
from headrace.spark.source import SourceOptions, plan_splits

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_LIVE = ("name", "token", "key", "position", "time", "event_id", "evidence", "evidence_total")
"""As the query spark/recorded_correlations returns them."""


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

    def read_options(self, part: TopicRange, columns: Sequence[str], types: Sequence[str]) -> SourceOptions:
        """The options of a read of the range; without `types`, of all event types."""
        context = getattr(self.spark, "_sc", None)
        return SourceOptions.of(
            {
                **self.options,
                "subscribe": json.dumps([part.topic]),
                "startingOffsets": part.offsets(part.stored.first),
                "endingOffsets": part.offsets(part.stored.until),
                "minPartitions": str(context.defaultParallelism if context is not None else 4),
                "columns": ",".join(columns),
                **({"types": json.dumps(list(types))} if types else {}),
            }
        )


def compare_outputs(
    source: Source,
    part: TopicRange,
    rules: Sequence[RuleSpec],
    correlators: Sequence[CorrelatorSpec],
    namespace: str | None,
    *,
    only_counts: bool,
) -> DataFrame:
    """The outputs of the tested definitions and of the live ones of the same names over a range, which is read once; or, with
    `only_counts`, their numbers by day and token."""
    from headrace.spark.scan import Definitions, LiveOutputs, scan

    definitions = Definitions(tuple(rules), tuple(correlators), micros_of(part.to_at))
    firings: dict[str, list[int]] = {}
    for name, position, _ in _read_live("firings", part, [rule.name for rule in rules], namespace):
        firings.setdefault(str(name), []).append(int(str(position)))
    pushed = _read_live("correlations", part, [correlator.name for correlator in correlators], namespace)
    # Correlators, and firings of versions with another event type, need all events.
    types = sorted({rule.event_type for rule in rules}) if not correlators and not firings else ()
    options = source.read_options(part, definitions.columns, types)
    live = LiveOutputs(firings, _table(pushed))
    frame = scan(source.spark, options, plan_splits(options), definitions, live, only_counts=only_counts)
    return frame.selectExpr("*", f"{spark_literal(part.shard)} as shard")


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The outputs of all ranges."""
    return reduce(lambda frame, other: frame.union(other), frames)


def _read_live(name: str, part: TopicRange, names: Sequence[str], namespace: str | None) -> list[tuple[object, ...]]:
    if not names:
        return []
    parameters = {
        "topic_id": part.stored.topic_id,
        "first": part.stored.first,
        "until": part.stored.until,
        "from_at": part.from_at,
        "to_at": part.to_at,
        "names": list(names),
        "namespace": namespace,
    }
    statement = query("spark/recorded_firings") if name == "firings" else query("spark/recorded_correlations")
    with map_database_errors():
        return part.conn.execute(statement, parameters).fetchall()


def _table(rows: Sequence[Sequence[object]]) -> pa.Table:
    import pyarrow as pa

    types = {
        "position": pa.int64(),
        "time": pa.timestamp("us", tz="UTC"),
        "evidence": pa.list_(pa.int64()),
        "evidence_total": pa.int64(),
    }
    columns = list(zip(*rows, strict=True)) or [()] * len(_LIVE)
    return pa.table({name: pa.array(column, types.get(name, pa.string())) for name, column in zip(_LIVE, columns, strict=True)})
