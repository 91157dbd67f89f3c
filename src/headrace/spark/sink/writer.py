"""Sink: a frame's rows become events or actions, exactly once.

Tasks stage their rows under a token of their attempt; the driver's commit publishes the rows of the attempts that succeeded, in
one transaction with a row (query, batch) in the ledger. A batch that Spark repeats finds that row and publishes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import UUID, uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.core import Conflict
from headrace.db import Connection, Shards, Target, map_database_errors, query
from headrace.spark.sink.options import SinkOptions

__all__ = ["EventStreamWriter", "EventWriter", "SinkOptions"]

CHUNK_ROWS = 5_000
COLUMNS = ("place", "topic", "type", "key", "payload", "headers", "event_id", "emitted_at", "producer", "priority")
Row = tuple[object, ...]


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What an attempt has staged where: rows by shard."""

    query: str
    batch: int
    token: UUID
    rows: dict[str, int]


class EventWriter(DataSourceArrowWriter):
    """One write. Told a `writeId`, the same write done again publishes nothing."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._query = f"write-{options.write_id or uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage(self._options, self._query, 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self._options, self._query, 0, _staged(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        forget(self._options, _staged(messages))


class EventStreamWriter(DataSourceStreamArrowWriter):
    """The micro-batches of a stream, known by the query's id, which its checkpoint keeps, and the batch's number."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty("sql.streaming.queryId")
        batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        if query_id is None or batch is None:
            raise Conflict("Spark does not tell which query and batch a task belongs to; without that nothing is written once")
        return stage(self._options, query_id, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        staged = _staged(messages)
        if staged:
            commit(self._options, staged[0].query, batchId, staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        forget(self._options, _staged(messages))


def stage(options: SinkOptions, query_id: str, batch: int, batches: Iterable[pa.RecordBatch]) -> Staged:
    """Stages the rows of one attempt on the shards they belong to."""
    staged = Staged(query_id, batch, uuid4(), {})
    shards = Shards(options.access.targets())
    place = 0
    with ExitStack() as stack:
        open_: dict[str, Connection] = {}
        for chunk in _chunks(batches):
            rows = _rows(options, chunk, place)
            place += len(rows)
            for target, own in _routed(shards, rows):
                if target.name not in open_:
                    open_[target.name] = stack.enter_context(options.access.connect(target))
                given = dict(zip(COLUMNS, map(list, zip(*own, strict=True)), strict=True))
                told = {"namespace": options.namespace, "query": query_id, "batch": batch, "token": staged.token}
                with map_database_errors():
                    open_[target.name].execute(query("spark/stage"), told | given)
                staged.rows[target.name] = staged.rows.get(target.name, 0) + len(own)
    return staged


def commit(options: SinkOptions, query_id: str, batch: int, staged: Sequence[Staged]) -> None:
    """Publishes what was staged, once per shard. A crash between shards is mended when Spark repeats the batch."""
    for target in options.access.targets():
        own = [one for one in staged if target.name in one.rows]
        told = {"namespace": options.namespace, "query": query_id, "batch": batch}
        rows = {"tokens": [one.token for one in own], "rows": sum(one.rows[target.name] for one in own)}
        with options.access.connect(target) as conn, map_database_errors():
            conn.execute(query("spark/commit_batch"), told | rows)


def forget(options: SinkOptions, staged: Sequence[Staged]) -> None:
    """Drops what a failed batch had staged."""
    if not staged:
        return
    told = {"namespace": options.namespace, "query": staged[0].query, "batch": staged[0].batch}
    for target in options.access.targets():
        with options.access.connect(target) as conn, map_database_errors():
            conn.execute(query("spark/drop_stage"), told | {"tokens": [one.token for one in staged]})


def _staged(messages: Iterable[WriterCommitMessage | None]) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, CHUNK_ROWS):
            yield batch.slice(start, CHUNK_ROWS)


def _rows(options: SinkOptions, chunk: pa.RecordBatch, first: int) -> list[Row]:
    """In the order of COLUMNS. An option counts for every row, before a column."""
    count = chunk.num_rows

    def values(column: str, option: str | None = None) -> list[object]:
        there = option is None and column in chunk.schema.names
        return chunk.column(column).to_pylist() if there else [option] * count

    name = values("action" if options.actions else "type", options.name)
    topic = [None] * count if options.actions else values("topic", options.topic)
    headers = [None] * count if options.actions else values("headers")
    priority = values("priority") if options.actions else [None] * count
    producer = values("producer", options.producer)
    own = (values("key"), values("payload"), headers, values("event_id"), values("timestamp"), producer, priority)
    return list(zip(range(first, first + count), topic, name, *own, strict=True))


def _routed(shards: Shards, rows: list[Row]) -> Iterator[tuple[Target, list[Row]]]:
    """By key as everywhere; without one by content, so that a repeated batch sends every row to the same shard again."""
    if len(shards.targets) == 1:
        yield shards.targets[0], rows
        return
    own: dict[str, list[Row]] = {}
    for row in rows:
        key = row[3] if row[3] is not None else f"\0{row[2]}\0{row[4]}"
        own.setdefault(shards.shard_of(str(key)).name, []).append(row)
    for target in shards.targets:
        if target.name in own:
            yield target, own[target.name]
