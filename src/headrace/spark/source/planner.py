"""Planner: which tasks read what.

Promises: a split is a range of positions that all exist when it is planned, so reading it again gives the same rows."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime

import psycopg
from pyspark.sql.datasource import InputPartition

from headrace.archive import FileRange, file_ranges_statement, first_position_at
from headrace.core import HeadraceError, UnknownTopic
from headrace.db import Connection, Target, map_database_errors, query
from headrace.spark.source.bounds import Bound, Positions
from headrace.spark.source.offsets import Log, Range, clip_ranges, positions_of, ranges_between, split_ranges
from headrace.spark.source.options import SourceOptions


class Split(InputPartition):
    """What one task reads: a range of positions, without any address."""

    def __init__(self, range_: Range) -> None:
        super().__init__(range_)
        self.range = range_


class Planner:
    """Reads the state of the logs on all shards. Keeps its connections: the planning process lives as long as its stream."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._open: dict[str, tuple[ExitStack, Connection]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_open": {}}

    def logs(self) -> list[Log]:
        """The subscribed logs, by shard and topic; raises UnknownTopic for a topic that no shard has."""
        logs = [log for target in self._options.access.targets() for log in self._logs_of(target)]
        if missing := set(self._options.topics) - {log.topic for log in logs}:
            raise UnknownTopic(f"no topic {', '.join(sorted(missing))} in the namespace; headrace topic list shows the topics")
        return sorted(logs, key=lambda log: log.name)

    def positions(self, logs: list[Log], bound: Bound) -> Positions:
        """The positions that a bound means."""
        if bound.at is None:
            return positions_of(logs, bound)
        return {log.name: self._position_at(log, bound.at) for log in logs}

    def splits(self, start: Positions, end: Positions) -> list[InputPartition]:
        """The tasks that read from start to end."""
        logs, options = self.logs(), self._options
        ranges = ranges_between(logs, start, end, fail_on_data_loss=options.fail_on_data_loss)
        logged = {log.name: log.logged for log in logs}
        parts = [
            part
            for range_ in clip_ranges(ranges, options.from_position, options.to_position)
            for part in self._locate(range_, min(range_.until, logged[range_.shard, range_.topic]))
        ]
        return [Split(part) for part in split_ranges(parts, partitions_min=options.partitions_min)]

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1][0].close()

    def _locate(self, range_: Range, logged: int) -> list[Range]:
        """The parts of a range in files of the archive, and the part in the log."""
        if range_.first >= logged:
            return [range_]
        target = self._options.access.target(range_.shard)
        rows = self._fetch(target, file_ranges_statement(range_.topic_id, range_.first, logged), {})
        archived = range_.in_files(rows, logged, self._options.archive_folder)
        return archived + ([replace(range_, first=logged)] if logged < range_.until else [])

    def _position_at(self, log: Log, at: datetime) -> int:
        target, parameters = self._options.access.target(log.shard), {"topic_id": log.topic_id, "at": at}
        if log.first < log.logged and (rows := self._fetch(target, query("archive/file_at"), parameters)):
            file = FileRange.of(rows[0], log.first, log.logged, self._options.archive_folder)
            if (archived := first_position_at(file, at)) is not None:
                return archived
        position = self._fetch(target, query("spark/position_at"), parameters)[0][0]
        return log.until if position is None else int(str(position))

    def _logs_of(self, target: Target) -> list[Log]:
        parameters: dict[str, object] = {"namespace": self._options.namespace, "archive": self._options.use_archive}
        rows = self._fetch(target, query("spark/logs"), parameters)
        logs = [Log(target.name, str(row[0]), *(int(str(value)) for value in row[1:])) for row in rows]
        return [log for log in logs if self._options.subscribes(log.topic)]

    def _fetch(self, target: Target, statement: str, parameters: dict[str, object]) -> list[tuple[object, ...]]:
        is_old = target.name in self._open
        try:
            with map_database_errors():
                return self._connection(target).execute(statement.encode(), parameters).fetchall()
        except (psycopg.OperationalError, HeadraceError):
            self._open.pop(target.name, (ExitStack(), None))[0].close()
            if not is_old:
                raise
            # The server may have restarted since the connection was opened.
            return self._fetch(target, statement, parameters)

    def _connection(self, target: Target) -> Connection:
        if target.name not in self._open:
            stack = ExitStack()
            self._open[target.name] = (stack, stack.enter_context(self._options.access.connect(target)))
        return self._open[target.name][1]
