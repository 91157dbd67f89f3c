"""Ranges: the events that a backtest reads, by topic and shard, and how Spark reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.db import Connection
from headrace.log.archive import StoredRange, find_stored_range, read_stored_events_at
from headrace.spark.backtest.subjects import BacktestSubject
from headrace.spark.source import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class TopicRange:
    """A range of one topic on one shard, in positions and in time."""

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
        return SourceOptions.from_options(
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


def find_ranges(
    conns: dict[str, Connection],
    subjects: Sequence[BacktestSubject],
    start: str,
    end: str,
    folder: str | None,
    namespace: str | None,
) -> list[TopicRange]:
    """The range of each topic on each shard."""
    ranges = []
    for topic in dict.fromkeys(subject.topic for subject in subjects):
        for shard, conn in conns.items():
            stored = find_stored_range(conn, topic, start=start, end=end, folder=folder, namespace=namespace)
            from_at = _time_at(conn, stored, stored.first, folder)
            to_at = _time_at(conn, stored, stored.until - 1, folder)
            if end == "latest":
                row = conn.execute(
                    "select t.timers_to from headrace.topic t where t.topic_id = %s", (stored.topic_id,)
                ).fetchone()
                to_at = max(to_at, row[0] if row and row[0] else to_at)
            ranges.append(TopicRange(conn, shard, tuple(conns), stored, from_at, to_at))
    return ranges


def _time_at(conn: Connection, stored: StoredRange, position: int, folder: str | None) -> datetime:
    """The log's time at a position."""
    if not len(stored):
        return datetime(1970, 1, 1, tzinfo=UTC)
    return read_stored_events_at(conn, stored, {position}, folder=folder)[position].appended_at
