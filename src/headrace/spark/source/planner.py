"""Planner: which tasks read what.

Promises: a split is a range of positions that all exist when it is planned, so reading it again gives the same rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from typing import TypeVar, cast

import psycopg
from pyspark.sql.datasource import InputPartition

from headrace.core import HeadraceError, StoredEvent, UnknownTopic
from headrace.db import Connection, Target, map_database_errors, query
from headrace.log.archive import find_file_ranges, find_position_at, read_stored_events_at
from headrace.spark.source.bounds import Bound, Positions
from headrace.spark.source.continuity import LastEvent, LastEvents
from headrace.spark.source.offsets import Range, positions_of, ranges_between, split_ranges
from headrace.spark.source.options import SourceOptions

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
        # Of this machine: the process that plans does not know the cluster, for which there is minPartitions.
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
