"""Readers: a batch and a stream of events, as Spark calls them, and the planner that says which tasks read what.

Promises: a split is a range of positions that all exist when it is planned, so reading it again gives the same rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar, cast

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headrace.core import HeadraceError, Invalid, StoredEvent, UnknownTopic
from headrace.db import Connection, Target, map_database_errors, query
from headrace.definitions.schemas import get_schema, spark_type
from headrace.log.archive import find_file_ranges, find_position_at, read_stored_events_at
from headrace.spark.schema import check_schema, event_schema
from headrace.spark.source.offsets import (
    LastEvent,
    LastEvents,
    Range,
    Split,
    build_offset,
    check_batch,
    continue_from,
    limit_positions,
    positions_of,
    ranges_between,
    split_ranges,
)
from headrace.spark.source.options import REGISTRY, Bound, Positions, SourceOptions, from_offset, to_offset
from headrace.spark.source.payload_types import Type, parse_ddl
from headrace.spark.source.range_reader import read_split

T = TypeVar("T")


class Planner:
    """Reads the state of the logs on all shards. Keeps its connections: the planning process lives as long as its stream."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._open: dict[str, tuple[ExitStack, Connection]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_open": {}}

    def logs(self) -> list[Range]:
        """The subscribed logs, by shard and topic; raises UnknownTopic for a topic that no shard has."""
        logs = [log for target in self._options.access.targets() for log in self._logs_of(target)]
        if missing := set(self._options.topics) - {log.topic for log in logs}:
            raise UnknownTopic(f"no topic {', '.join(sorted(missing))} in the namespace; headrace topic list shows the topics")
        return sorted(logs, key=lambda log: log.log)

    def positions(self, logs: list[Range], bound: Bound) -> Positions:
        """The positions that a bound means."""
        if bound.at is None:
            return positions_of(logs, bound)
        return {log.log: self._position_at(log, bound.at) for log in logs}

    def last_events(self, logs: list[Range], positions: Positions) -> LastEvents:
        """The event before each position; one query per shard."""
        events: dict[tuple[str, str], LastEvent] = {}
        for shard in sorted({log.shard for log in logs}):
            known = {log.topic_id: log for log in logs if log.shard == shard and log.log in positions}
            places = {"topic_ids": list(known), "positions": [positions[log.log] - 1 for log in known.values()]}
            rows = self._run(shard, lambda conn, p=places: conn.execute(query("spark/continuity"), p).fetchall())  # type: ignore[misc]
            events |= {known[row[0]].log: LastEvent(*row) for row in rows}
        return events

    def last_times(self, logs: list[Range], end: Positions) -> dict[tuple[str, str], datetime]:
        """The log's time of the last event before each position; logs without one are left out."""
        times: dict[tuple[str, str], datetime] = {}
        for log in logs:
            last = min(end.get(log.log, log.until), log.until) - 1
            if last >= log.first:
                events = self._run(log.shard, lambda conn, log=log, last=last: self._events_at(conn, log, last))  # type: ignore[misc]
                if last in events:
                    times[log.log] = events[last].appended_at
        return times

    def splits(self, start: Positions, end: Positions) -> list[InputPartition]:
        """The tasks that read from start to end: ranges of positions, without any address."""
        ranges = ranges_between(self.logs(), start, end, self._options)
        parts = [part for range_ in ranges for part in self._locate(range_)]
        # Count the cores of this machine: the process that plans does not know the cluster, for which there is minPartitions.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        splits = split_ranges(parts, partitions_min=self._options.partitions_min, cores=cores)
        return [InputPartition(split) for split in splits]

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1][0].close()

    def _locate(self, range_: Range) -> list[Range]:
        """The parts of a range in files of the archive, and the part in the log."""
        archived, folder = replace(range_, until=min(range_.until, range_.log_first)), self._options.archive_folder
        if not len(archived):
            return [range_]
        files = self._run(range_.shard, lambda conn: find_file_ranges(conn, archived, folder=folder))
        logged = replace(range_, first=archived.until)
        return range_.in_files(files) + ([logged] if len(logged) else [])

    def _events_at(self, conn: Connection, log: Range, position: int) -> dict[int, StoredEvent]:
        return read_stored_events_at(conn, log, {position}, folder=self._options.archive_folder)

    def _position_at(self, log: Range, at: datetime) -> int:
        folder = self._options.archive_folder
        return self._run(log.shard, lambda conn: find_position_at(conn, log, at, folder=folder))

    def _logs_of(self, target: Target) -> list[Range]:
        parameters = {"namespace": self._options.namespace, "archive": self._options.use_archive}
        rows = self._run(target.name, lambda conn: conn.execute(query("spark/logs"), parameters).fetchall())
        logs = [Range(*row, target.name) for row in cast(list[tuple[int, str, int, int, int]], rows)]
        return [log for log in logs if self._options.subscribes(log.topic)]

    def _run(self, shard: str, work: Callable[[Connection], T]) -> T:
        is_old = shard in self._open
        try:
            with map_database_errors():
                return work(self._connection(shard))
        except (psycopg.OperationalError, HeadraceError):
            self._open.pop(shard, (ExitStack(), None))[0].close()
            if not is_old:
                raise
            # The server may have restarted since the connection was opened.
            return self._run(shard, work)

    def _connection(self, shard: str) -> Connection:
        if shard not in self._open:
            stack, access = ExitStack(), self._options.access
            self._open[shard] = (stack, stack.enter_context(access.connect(access.target(shard))))
        return self._open[shard][1]


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
        options = SourceOptions.from_options(self._raw_options)
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


def with_payload_type(schema: StructType, options: SourceOptions) -> StructType:
    """The schema of a read with the payload typed, where the options ask for that. Raises UnknownSchema."""
    if not options.has_typed_payload or "payload" not in schema.fieldNames():
        return schema
    payload_type = _payload_type(options)
    fields = schema.jsonValue()["fields"]
    return StructType.fromJson(
        {
            "fields": [
                {**field, "type": payload_type, "nullable": True} if field["name"] == "payload" else field for field in fields
            ]
        }
    )


def _payload_type(options: SourceOptions) -> Type:
    assert options.payload_schema is not None
    if options.payload_schema != REGISTRY:
        return parse_ddl(options.payload_schema)
    types = options.rows.types or ()
    if len(types) != 1:
        raise Invalid("option schema=registry gives the payload the type of one event type; name it in the option types")
    access = options.access
    with access.connect(access.targets()[0]) as conn:
        return spark_type(get_schema(conn, types[0], namespace=options.namespace).values)


def plan_splits(options: SourceOptions) -> list[Split]:
    """The tasks of a batch with these options. Raises what is wrong with topics, addresses, rights, positions and columns."""
    schema = event_schema(options.columns, extracted=[extract.name for extract in options.extracts])
    return [part.value for part in EventReader(options, schema).partitions() if part.value is not None]
