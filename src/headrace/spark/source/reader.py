"""Readers: a batch and a stream of events, as Spark asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headrace.core import Invalid
from headrace.spark.schema import check_schema
from headrace.spark.source.arrow_reader import read_span
from headrace.spark.source.bounds import Bound, Positions
from headrace.spark.source.offsets import admit, positions_of
from headrace.spark.source.options import SourceOptions
from headrace.spark.source.planner import Planner, Split


class EventReader(DataSourceReader):
    """A batch: from the starting to the ending positions, as they are when the frame is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema, extracted=[one.name for one in options.extracts])
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        planner = Planner(self._options)
        try:
            logs = planner.logs()
            start = planner.bound(logs, self._options.starting or Bound("earliest"))
            return planner.splits(start, planner.bound(logs, self._options.ending)) or [InputPartition(None)]
        finally:
            planner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # An empty read still is a task, with nothing to do.
        return read_span(self._options, self._schema, partition.span) if isinstance(partition, Split) else iter(())


class EventStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. Its offset is {"next": positions}; the first end offset also tells where the stream began ("from").

    Spark asks for the initial offset again when it restarts within the first batch; "latest" would then skip events. The end
    offset is written down before a batch runs, so the beginning is taken from there."""

    def __init__(self, told: Mapping[str, str], schema: StructType) -> None:
        # Nothing is checked here: Spark hides an error raised in this place.
        self._told = dict(told)
        self._schema = schema
        self._target: Positions | None = None

    @cached_property
    def _options(self) -> SourceOptions:
        options = SourceOptions.of(self._told)
        check_schema(self._schema, extracted=[one.name for one in options.extracts])
        if options.ending != Bound("latest"):
            raise Invalid("a stream has no end; leave out endingOffsets and endingTimestamp")
        return options

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self._options)

    def initialOffset(self) -> dict[str, object]:  # noqa: N802
        logs = self._planner.logs()
        return {"next": self._planner.bound(logs, self._options.starting or Bound("latest")), "initial": True}

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        began = _positions(start)
        heads = self._target or self._heads()
        known = {shard: {**topics, **began.get(shard, {})} for shard, topics in self._beginnings(heads).items()}
        end = admit(known, heads, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        # What is gone from the shards stays in the offset: partitions() says so, or passes over it.
        kept = {shard: {**began.get(shard, {}), **end.get(shard, {})} for shard in sorted({*began, *end})}
        return {"next": kept, "from": began} if start.get("initial") else {"next": kept}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.offsets_per_trigger_max
        return super().getDefaultReadLimit() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802
        return {"next": self._heads()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._heads()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        began = end.get("from")
        return self._planner.splits(began if isinstance(began, dict) else _positions(start), _positions(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        return read_span(self._options, self._schema, partition.span)

    def stop(self) -> None:
        if "_planner" in vars(self):
            self._planner.close()

    def _heads(self) -> Positions:
        return positions_of(self._planner.logs(), Bound("latest"))

    def _beginnings(self, heads: Positions) -> Positions:
        """Where a topic begins that appeared while the stream runs."""
        return {
            shard: {topic: first for topic, first in topics.items() if topic in heads.get(shard, {})}
            for shard, topics in positions_of(self._planner.logs(), Bound("earliest")).items()
        }


def _positions(offset: dict[str, object]) -> Positions:
    told = offset["next"]
    assert isinstance(told, dict)
    return told
