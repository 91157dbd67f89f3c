"""Planner: which tasks read what.

Promises: a split is a range of positions that are all there when it is planned, so reading it again gives the same rows."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime

import psycopg
from pyspark.sql.datasource import InputPartition

from headrace.archive import FileRange, files_statement, first_at
from headrace.core import HeadraceError, UnknownTopic
from headrace.db import Connection, Target, map_database_errors, query
from headrace.spark.source.bounds import Bound, Positions
from headrace.spark.source.offsets import Log, Span, check_topics, narrowed, positions_of, spans, split
from headrace.spark.source.options import SourceOptions


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
            with map_database_errors():
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
