"""Readers: plan the splits of a batch or of a micro-batch, and read a split as Arrow.

Promises: a split is a range of positions that are all there when it is planned, so reading it again gives the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import cached_property

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headrace.archive import FileRange, files_statement, first_at
from headrace.core import HeadraceError, Invalid, UnknownTopic
from headrace.db import Connection, Target, query, translated
from headrace.spark._offsets import Log, Span, admit, check_topics, narrowed, positions_of, spans, split
from headrace.spark._reader_arrow import read_span
from headrace.spark._schema import check_schema
from headrace.spark._source_options import Bound, Positions, SourceOptions


class Split(InputPartition):
    """What one task reads: a range of positions, and nothing about how to get there."""

    def __init__(self, span: Span) -> None:
        super().__init__(span)
        self.span = span


class Planner:
    """Looks at the logs of all shards. Keeps its connections: the process that plans a stream lives as long as the stream."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._open: dict[str, tuple[ExitStack, Connection]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_open": {}}

    def logs(self) -> list[Log]:
        """The logs subscribed to, by shard and topic; raises UnknownTopic for one that no shard has."""
        found = [found for target in self._options.access.targets() for found in self._logs_of(target)]
        missing = set(self._options.topics) - {log.topic for log in found}
        if missing:
            raise UnknownTopic(f"no topic {', '.join(sorted(missing))} in the namespace; headrace topic list shows what is there")
        return sorted(found, key=lambda log: (log.shard, log.topic))

    def bound(self, logs: list[Log], bound: Bound) -> Positions:
        """The positions a bound stands for."""
        if bound.at is None:
            return positions_of(logs, bound)
        found: Positions = {}
        for log in logs:
            found.setdefault(log.shard, {})[log.topic] = self._position_at(log, bound.at)
        return found

    def _position_at(self, log: Log, at: datetime) -> int:
        target, given = self._options.access.target(log.shard), {"topic_id": log.topic_id, "at": at}
        if log.first < log.logged and (rows := self._ask(target, query("archive/file_at"), given)):
            held = FileRange.of(rows[0], log.first, log.logged, self._options.archive.folder)
            if (archived := first_at(held, at)) is not None:
                return archived
        position = self._ask(target, query("spark/position_at"), given)[0][0]
        return log.until if position is None else int(str(position))

    def splits(self, start: Positions, end: Positions) -> list[InputPartition]:
        """The tasks that read from start to end."""
        logs = self.logs()
        options = self._options
        if options.fail_on_data_loss:
            check_topics(logs, end)
        found = spans(logs, start, end, fail_on_data_loss=options.fail_on_data_loss)
        logged = {(log.shard, log.topic): log.logged for log in logs}
        placed = [
            piece
            for span in narrowed(found, options.filters)
            for piece in self._placed(span, min(span.until, logged[span.shard, span.topic]))
        ]
        return [Split(piece) for piece in split(placed, partitions_min=options.partitions_min)]

    def _placed(self, span: Span, logged: int) -> list[Span]:
        """The range as pieces of the archive's files, and what comes from the log."""
        if span.first >= logged:
            return [span]
        rows = self._ask(self._options.access.target(span.shard), files_statement(span.topic_id, span.first, logged), {})
        files = [FileRange.of(row, span.first, logged, self._options.archive.folder) for row in rows]
        archived = [replace(span, first=one.first, until=one.until, file=one.path) for one in files]
        return archived + ([replace(span, first=logged)] if logged < span.until else [])

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1][0].close()

    def _logs_of(self, target: Target) -> list[Log]:
        given: dict[str, object] = {"namespace": self._options.namespace, "archive": self._options.archive.used}
        rows = self._ask(target, query("spark/logs"), given)
        logs = [Log(target.name, str(row[0]), *(int(str(value)) for value in row[1:])) for row in rows]
        return [log for log in logs if self._options.wants(log.topic)]

    def _ask(self, target: Target, statement: str, given: dict[str, object]) -> list[tuple[object, ...]]:
        reused = target.name in self._open
        try:
            with translated():
                return self._connection(target).execute(statement.encode(), given).fetchall()
        except (psycopg.OperationalError, HeadraceError):
            self._open.pop(target.name, (ExitStack(), None))[0].close()
            if not reused:
                raise
            # The connection was an old one; the server may have restarted since.
            return self._ask(target, statement, given)

    def _connection(self, target: Target) -> Connection:
        if target.name not in self._open:
            stack = ExitStack()
            self._open[target.name] = (stack, stack.enter_context(self._options.access.connect(target)))
        return self._open[target.name][1]


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
