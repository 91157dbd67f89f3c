"""Sink: the rows of a frame become events or actions, exactly once.

Tasks stage their rows under a token of their attempt. The driver's commit publishes the rows of the attempts that succeeded, in
one transaction with a row (query, batch) in the ledger. Promises: a batch or write that Spark repeats finds that row and publishes nothing;
a row that breaks a limit fails the write before anything is published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.core import Conflict, Invalid
from headrace.db import Connection, Shards, Target, map_database_errors
from headrace.spark.binary_arrays import ArrowArray, register_arrow_arrays
from headrace.spark.credentials import OPTIONS, Access
from headrace.spark.schema import EVENT_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KNOWN = OPTIONS | {"topic", "type", "action", "as", "namespace", "producer", "writeid", "path", "checkpointlocation", "queryname"}
"""Names in lower case; the last three are Spark's own."""
_COMMON_COLUMNS = {"key": "string", "payload": "string", "event_id": "string", "timestamp": "timestamp"}
EVENT = _COMMON_COLUMNS | {"topic": "string", "type": "string", "producer": "string", "headers": "string"}
ACTION = _COMMON_COLUMNS | {"action": "string", "priority": "int"}
IGNORED = frozenset(column.name for column in EVENT_COLUMNS)
"""The source's other columns: a frame from there can be written as it is."""


@dataclass(frozen=True)
class SinkOptions:
    """What the rows of a frame become. `name` is the event type or action of every row; None: a column has it."""

    access: Access
    actions: bool
    topic: str | None
    name: str | None
    namespace: str | None
    producer: str | None
    write_id: str | None

    @classmethod
    def from_options(cls, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
        options = {name.lower(): value for name, value in options.items()}
        access = Access.from_options(options)
        if unknown := sorted(set(options) - KNOWN):
            raise Invalid(f"the sink has no option {', '.join(unknown)}; docs/spark.md lists the options")
        if overwrite:
            raise Invalid("a log is only ever appended to; write with mode append (a stream: output mode append or update)")
        kind = options.get("as", "events")
        if kind not in ("events", "actions"):
            raise Invalid(f"option as is events or actions, not {kind!r}")
        actions = kind == "actions"
        topic = None if actions else options.get("topic") or options.get("path")
        name = options.get("action" if actions else "type")
        _check_columns(schema, actions=actions, has_name=name is not None, has_topic=topic is not None)
        return cls(access, actions, topic, name, options.get("namespace"), options.get("producer"), options.get("writeid"))


def _check_columns(schema: StructType, *, actions: bool, has_name: bool, has_topic: bool) -> None:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    known = ACTION if actions else EVENT
    if unknown := sorted(types.keys() - known.keys() - IGNORED):
        raise Invalid(
            f"the sink does not know column {', '.join(unknown)}; it takes {', '.join(known)}. "
            "Put other values into the payload: to_json(struct(…)) as payload"
        )
    for name in known.keys() & types.keys():
        if types[name] != known[name]:
            raise Invalid(f"column {name!r} is {types[name]}; the sink takes {known[name]} (to_json makes a string of a struct)")
    needed = {"payload": True, "action" if actions else "type": not has_name, "topic": not actions and not has_topic}
    if missing := [name for name, is_needed in needed.items() if is_needed and name not in types]:
        raise Invalid(f"the frame has no column {', '.join(missing)}, and no option gives it for all rows")


CHUNK_ROWS = 5_000
STAGED_COLUMNS = ("place", "topic", "type", "key", "payload", "headers", "event_id", "emitted_at", "producer", "priority")
_STAGE = """select headrace.stage_rows(%(query)s, %(batch)s, %(token)s, %(place)s::bigint[], %(topic)s::text[], %(type)s::text[],
    %(key)s::text[], %(payload)s::text[], %(headers)s::text[], %(event_id)s::text[], %(emitted_at)s::timestamptz[],
    %(producer)s::text[], %(priority)s::integer[], %(namespace)s)"""
_TYPES = {"emitted_at": pa.timestamp("us", "UTC"), "priority": pa.int32()}
Messages = list[WriterCommitMessage | None]


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What an attempt has staged: the number of rows by shard."""

    query: str
    batch: int
    token: UUID
    rows: dict[str, int]


class EventWriter(DataSourceArrowWriter):
    """One write. With a `writeId`, the same write again publishes nothing."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._query = f"write-{options.write_id or uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage(self._options, self._query, 0, iterator)

    def commit(self, messages: Messages) -> None:
        commit(self._options, self._query, 0, _staged(messages))

    def abort(self, messages: Messages) -> None:
        discard(self._options, _staged(messages))


class EventStreamWriter(DataSourceStreamArrowWriter):
    """The micro-batches of a stream, identified by the query's id, which its checkpoint keeps, and the batch's number."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty("sql.streaming.queryId")
        batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        if query_id is None or batch is None:
            raise Conflict("Spark does not say which query and batch this task belongs to; without that nothing is written once")
        return stage(self._options, query_id, int(batch), iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        if staged := _staged(messages):
            commit(self._options, staged[0].query, batchId, staged)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        discard(self._options, _staged(messages))


def stage(options: SinkOptions, query_id: str, batch: int, batches: Iterable[pa.RecordBatch]) -> Staged:
    """Stages the rows of one attempt on their shards."""
    staged = Staged(query_id, batch, uuid4(), {})
    parameters = {"query": query_id, "batch": batch, "token": staged.token, "namespace": options.namespace}
    shards = Shards(options.access.targets())
    place = 0
    with ExitStack() as stack:
        connections: dict[str, Connection] = {}
        for chunk in _chunks(batches):
            rows = _rows(options, chunk, place)
            place += rows.num_rows
            for target, own in _route(shards, rows):
                if target.name not in connections:
                    connections[target.name] = stack.enter_context(options.access.connect(target))
                    register_arrow_arrays(connections[target.name])
                columns = {name: ArrowArray(own[name]) for name in STAGED_COLUMNS}
                with map_database_errors():
                    connections[target.name].execute(_STAGE, parameters | columns)
                staged.rows[target.name] = staged.rows.get(target.name, 0) + own.num_rows
    return staged


def commit(options: SinkOptions, query_id: str, batch: int, staged: Sequence[Staged]) -> None:
    """Publishes what was staged, once per shard. After a crash between shards, Spark repeats the batch, which completes it."""
    for target in options.access.targets():
        own = [attempt for attempt in staged if target.name in attempt.rows]
        rows = sum(attempt.rows[target.name] for attempt in own)
        with options.access.connect(target) as conn, map_database_errors():
            conn.execute(
                "select headrace.commit_spark_batch(p_query => %s, p_batch => %s, p_tokens => %s::uuid[], p_rows => %s,"
                " p_namespace => %s)",
                (query_id, batch, [attempt.token for attempt in own], rows, options.namespace),
            )


def discard(options: SinkOptions, staged: Sequence[Staged]) -> None:
    """Deletes what a failed batch has staged."""
    if not staged:
        return
    tokens = [attempt.token for attempt in staged]
    for target in options.access.targets():
        with options.access.connect(target) as conn, map_database_errors():
            conn.execute(
                "select headrace.drop_staged_rows(%s, %s, %s::uuid[], %s)",
                (staged[0].query, staged[0].batch, tokens, options.namespace),
            )


def _staged(messages: Messages) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, CHUNK_ROWS):
            yield batch.slice(start, CHUNK_ROWS)


def _rows(options: SinkOptions, chunk: pa.RecordBatch, first: int) -> pa.Table:
    """The columns STAGED_COLUMNS. An option counts for every row and wins over a column; a column may have another name."""
    sources = {"type": "action"} if options.actions else {}
    sources["emitted_at"] = "timestamp"
    constants = {"type": options.name, "topic": options.topic, "producer": options.producer}
    ignored = {"topic", "headers"} if options.actions else {"priority"}

    def values(name: str) -> pa.Array:
        source = sources.get(name, name)
        if name in ignored or constants.get(name) is not None or source not in chunk.schema.names:
            return pa.repeat(pa.scalar(constants.get(name), _TYPES.get(name, pa.string())), chunk.num_rows)
        return chunk.column(source)

    places = pa.array(range(first, first + chunk.num_rows), pa.int64())
    return pa.table({"place": places, **{name: values(name) for name in STAGED_COLUMNS[1:]}})


def _route(shards: Shards, rows: pa.Table) -> Iterator[tuple[Target, pa.Table]]:
    """By key as everywhere; without a key by content, so that a repeated batch sends every row to the same shard."""
    if len(shards.targets) == 1:
        yield shards.targets[0], rows
        return
    fields = zip(*(rows[name].to_pylist() for name in ("key", "type", "payload")), strict=True)
    names = [shards.shard_of(key if key is not None else f"\0{type_}\0{payload}").name for key, type_, payload in fields]
    for target in shards.targets:
        if target.name in names:
            yield target, rows.filter(pa.array([name == target.name for name in names]))
