"""Readers: a batch and a stream of events, as Spark calls them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headrace.core import Invalid
from headrace.spark.schema import check_schema
from headrace.spark.source.arrow_reader import read_split
from headrace.spark.source.bounds import Bound, Positions, from_offset, to_offset
from headrace.spark.source.continuity import build_offset, continue_from
from headrace.spark.source.offsets import Range, check_batch, limit_positions, positions_of
from headrace.spark.source.options import SourceOptions
from headrace.spark.source.planner import Planner

Offset = dict[str, Any]


class EventReader(DataSourceReader):
    """A batch: from the starting to the ending positions, as they are when the frame is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(
            schema, extracted=[extract.name for extract in options.extracts], has_typed_payload=options.has_typed_payload
        )
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        planner = Planner(self._options)
        try:
            logs = planner.logs()
            start = planner.positions(logs, self._options.starting or Bound("earliest"))
            check_batch(logs, start, self._options)
            return planner.splits(start, planner.positions(logs, self._options.ending)) or [InputPartition(None)]
        finally:
            planner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # An empty read is a task too, with nothing to do.
        return iter(()) if partition.value is None else read_split(self._options, self._schema, partition.value)


class EventStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. Its offset is {"next": positions, "last": event ids, "epoch": epochs}: the last two tell whether the log is still
    the one that was read, and older offsets lack them. The first end offset also holds where the stream started ("from").

    Spark asks for the initial offset again when it restarts within the first batch; "latest" would then skip events. The end
    offset is stored before a batch runs, so the beginning is taken from there."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        # Nothing is checked here: Spark hides errors of the constructor.
        self._raw_options = dict(options)
        self._schema = schema
        self._target: Positions | None = None

    @cached_property
    def _options(self) -> SourceOptions:
        options = SourceOptions.of(self._raw_options)
        check_schema(
            self._schema, extracted=[extract.name for extract in options.extracts], has_typed_payload=options.has_typed_payload
        )
        if options.ending != Bound("latest"):
            raise Invalid("a stream has no end; leave out endingOffsets and endingTimestamp")
        return options

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self._options)

    def initialOffset(self) -> Offset:  # noqa: N802
        logs = self._planner.logs()
        start = self._planner.positions(logs, self._options.starting or Bound("latest"))
        return {**build_offset(start, self._planner.last_events(logs, start)), "initial": True}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        logs = self._planner.logs()
        first_offsets = self._continue_from(start, logs)
        heads = self._target or positions_of(logs, Bound("latest"))
        # A topic that appeared while the stream runs starts at its beginning.
        known = positions_of(logs, Bound("earliest")) | first_offsets
        # A topic that is gone stays in the offset: partitions() raises, or skips it.
        end = first_offsets | limit_positions(known, heads, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        begin = {"from": start["next"]} if start.get("initial") else {}
        return {**build_offset(end, self._planner.last_events(logs, end), start), **begin}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.offsets_per_trigger_max
        return super().getDefaultReadLimit() if limit is None else ReadMaxRows(limit)

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        return {"next": to_offset(self._heads())}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._heads()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        first_offsets = from_offset(end["from"]) if "from" in end else from_offset(start["next"])
        logs = self._planner.logs()
        # Spark plans a batch again after a restart, and the server may have changed since the offsets were stored.
        self._continue_from(start, logs)
        self._continue_from(end, logs)
        return self._planner.splits(first_offsets, from_offset(end["next"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(self._options, self._schema, partition.value)

    def stop(self) -> None:
        if "_planner" in vars(self):
            self._planner.close()

    def _continue_from(self, offset: Offset, logs: list[Range]) -> Positions:
        now = self._planner.last_events(logs, from_offset(offset["next"]))
        return continue_from(offset, logs, now, fail=self._options.fail_on_data_loss)

    def _heads(self) -> Positions:
        return positions_of(self._planner.logs(), Bound("latest"))
