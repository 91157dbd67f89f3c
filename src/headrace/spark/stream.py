"""correlate_stream: a streaming frame → outputs in PostgreSQL.

A micro-batch is classified by tasks and stepped by the driver. One transaction writes outputs, states and the position of the stream.
Events up to that position are skipped, so a batch that Spark repeats after a crash, whole or cut in another way, changes nothing.

Importing this module imports pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core import Invalid
from headrace.db import Connection, connect, map_database_errors, query
from headrace.evaluate import STATE_SCHEMA, CorrelatorSpec, WarmStates, step
from headrace.spark.binary_arrays import ArrowArray, list_texts, register_arrow_arrays
from headrace.spark.credentials import Access
from headrace.spark.frames import AnyCorrelator, check_event_columns, correlator_specs
from headrace.spark.frames.classified_events import Watched, classify_frame, within
from headrace.spark.frames.evaluation import empty_events
from headrace.spark.schema import check_types
from headrace.spark.source import narrow_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def correlate_stream(
    df: DataFrame,
    correlators: AnyCorrelator | Sequence[AnyCorrelator],
    *,
    stream: str,
    checkpoint: str | None = None,
    access: Access = Access(),
    key: str | None = None,
    namespace: str | None = None,
    available_now: bool = False,
    interval_s: float | None = None,
) -> StreamingQuery:
    """Runs correlators over a streaming frame of one topic, and writes their outputs to headrace.stream_output, each exactly once.

    `stream` names the states and outputs in PostgreSQL: a query with the same name continues them, after a crash also with a
    new checkpoint that starts earlier. A correlator is what `correlate` takes, but for the name of a live one. `access` says where
    the driver finds the database. With `available_now` the query ends when it has caught up; `interval_s` is the time between
    micro-batches. Timers fire up to the last event of each micro-batch.
    Raises Invalid for a frame that is no stream or lacks a column, and for a stream that was begun with other patterns."""
    specs = correlator_specs(correlators, key=key)
    _check_frame(df, specs)
    store = StreamStore(access, stream, specs, namespace)
    run = StreamRun(store, specs)
    # A Python source sends all its columns, whatever is read of them.
    frame = narrow_stream(df, {*run.columns, "shard", "topic"})
    writer = frame.writeStream.queryName(stream).foreachBatch(run.handle)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif interval_s is not None:
        writer = writer.trigger(processingTime=f"{interval_s} seconds")
    return writer.start()


def _check_frame(df: DataFrame, specs: Sequence[CorrelatorSpec]) -> None:
    if not df.isStreaming:
        raise Invalid("the frame is no stream; use correlate for a batch")
    if not hasattr(df, "_jdf"):
        raise Invalid("a stream needs a driver that reaches the database, which Spark Connect does not have; use a pipeline")
    check_event_columns(df.columns, specs, set())
    missing = [column for column in Watched((), tuple(specs), is_log=False).columns if column not in df.columns]
    if missing:
        raise Invalid(f"the frame has no column {', '.join(missing)}, which is needed; it has {', '.join(df.columns)}")
    check_types(df)


class StreamRun:
    """Handles the micro-batches of a stream, one after the other."""

    def __init__(self, store: StreamStore, specs: Sequence[CorrelatorSpec]) -> None:
        self._store = store
        self._watched = Watched((), tuple(specs), is_log=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of events that are read."""
        return self._watched.columns

    def handle(self, batch: DataFrame, number: int) -> None:
        """One micro-batch, in one transaction. Spark's own number of it does not matter: positions say what is new."""
        while not self._handle(batch):
            pass

    def _handle(self, batch: DataFrame) -> bool:
        """False if an erasure came between: the events must be read again."""
        with map_database_errors():
            erasures = self._store.read_erasures()
        classified = classify_frame(batch, self._watched)
        if len(classified.ends) > 1:
            names = ", ".join(sorted(f"{topic or 'a topic'} on shard {shard or '?'}" for shard, topic in classified.ends))
            raise Invalid(f"a stream of correlators runs over one log, but the frame has events of {names}; filter the frame")
        for log, (last, time) in classified.ends.items():
            self._check_topic(log[1])
            with map_database_errors():
                if self._store.write(log, last, time, classified.events, erasures=erasures) is None:
                    return False
        return True

    def _check_topic(self, topic: str | None) -> None:
        for spec in self._watched.correlators:
            if topic is not None and spec.topic not in (None, topic):
                raise Invalid(f"correlator {spec.name!r} is over topic {spec.topic}, but the frame has events of {topic}")


LogName = tuple[str | None, str | None]
"""Shard and topic; None where the frame does not say."""
_STATE = ("units", "deadlines", "evidence", "evidence_total", "started_at", "seen_at", "memory")


class StreamStore:
    """One stream. Keeps a connection of its own."""

    def __init__(self, access: Access, stream: str, specs: Sequence[CorrelatorSpec], namespace: str | None) -> None:
        targets = access.targets()
        if len(targets) > 1:
            raise Invalid("a stream keeps its states in one database; name one shard's address")
        self._open = ExitStack()
        with access.use_service_file():
            self._conn: Connection = self._open.enter_context(connect(targets[0]))
        register_arrow_arrays(self._conn)
        self._stream = stream
        self._specs = tuple(specs)
        self._warm = [WarmStates() for _ in specs]
        self._erasures: object = None
        self._stream_id = self._begin(namespace)

    def close(self) -> None:
        self._open.close()

    def _begin(self, namespace: str | None) -> int:
        correlators = msgspec.json.encode(
            [(spec.name, spec.version, spec.key, spec.pattern, spec.evidence_max, spec.since_offset) for spec in self._specs]
        ).decode()
        parameters = {"namespace": namespace, "stream": self._stream, "correlators": correlators}
        with map_database_errors():
            row = self._conn.execute(query("spark/begin_stream"), parameters).fetchone()
        assert row is not None
        if row[1] != correlators:
            raise Invalid(
                f"stream {self._stream!r} was begun with other correlators, and its states are of their patterns; "
                "give the stream another name, and start it where the new patterns should start"
            )
        return int(row[0])

    def read_erasures(self) -> object:
        """A value that changes with every erasure; read it before the events."""
        return self._conn.execute(query("spark/erasures")).fetchone()

    def write(self, log: LogName, last: int, time: int, events: Mapping[int, pa.Table], *, erasures: object) -> int | None:
        """A micro-batch with events up to the position `last` and the time `time`, in one transaction. Returns the number of
        outputs; events that were handled before give none. None if there was an erasure since `read_erasures` returned `erasures`:
        the events may hold what was erased, so read them again."""
        with self._conn.transaction():
            row = self._conn.execute(query("spark/lock_stream"), {"stream_id": self._stream_id}).fetchone()
            if row is None:
                raise Invalid(f"stream {self._stream!r} was dropped while it ran; start it again")
            shard, topic, position = row
            if position and (shard, topic) != log:
                raise Invalid(
                    f"stream {self._stream!r} is over topic {topic} on shard {shard}, but the frame has events of {log[1]} on "
                    f"shard {log[0]}; give the new frame a stream of its own"
                )
            if last <= position:
                return 0
            # An erasure deletes states; it locks the stream's row, too.
            self._erasures = self.read_erasures()
            if self._erasures != erasures:
                return None
            outputs = sum(
                self._step(
                    number, within(own, position, last) if (own := events.get(number)) is not None else None, position, last, time
                )
                for number in range(len(self._specs))
            )
            place = {"shard": log[0], "topic": log[1], "position": last, "passed_us": time, "outputs": outputs}
            self._conn.execute(query("spark/advance_stream"), {"stream_id": self._stream_id, **place})
        return outputs

    def _step(self, number: int, events: pa.Table | None, position: int, last: int, time: int) -> int:
        spec, warm = self._specs[number], self._warm[number]
        events = empty_events(spec) if events is None else events
        keys = pa.concat_arrays([events["key"].combine_chunks().unique(), self._due_keys(number, time)]).unique()
        if not len(keys):
            return 0
        states = warm.read((self._erasures, position), keys, lambda missing: self._read_states(number, missing))
        stepped = step(events, states, spec.table, evidence_max=spec.evidence_max, until=time, forgets=spec.forgets)
        self._write_states(number, stepped.states)
        # If the transaction is rolled back, the stream is at another position than these states.
        warm.write((self._erasures, last), stepped.states)
        self._write_outputs(spec, stepped.outputs)
        return int(stepped.outputs.num_rows)

    def _due_keys(self, number: int, time: int) -> pa.StringArray:
        if not self._specs[number].table.timers:
            return pa.array([], pa.string())
        parameters = {"stream_id": self._stream_id, "correlator": number, "until": time}
        rows = self._conn.execute(query("spark/due_stream_keys"), parameters).fetchall()
        return pa.array([key for (key,) in rows], pa.string())

    def _read_states(self, number: int, keys: pa.StringArray) -> pa.Table:
        parameters = {"stream_id": self._stream_id, "correlator": number, "keys": keys.to_pylist()}
        rows = self._conn.execute(query("spark/read_stream_states"), parameters).fetchall()
        decode = _decoder().decode
        states = [(key, *decode(text)) for key, text in rows]
        columns = list(zip(*states, strict=True)) or [()] * (1 + len(_STATE))
        return pa.table(
            {
                name: pa.array(column, STATE_SCHEMA.field(name).type)
                for name, column in zip(("key", *_STATE), columns, strict=True)
            }
        ).select(STATE_SCHEMA.names)

    def _write_states(self, number: int, states: pa.Table) -> None:
        if not states.num_rows:
            return
        states = states.combine_chunks()
        parameters = {
            "stream_id": self._stream_id,
            "correlator": number,
            "keys": ArrowArray(states["key"]),
            "deadlines": ArrowArray(_first_deadlines(states["deadlines"].combine_chunks())),
            "states": ArrowArray(state_texts(states)),
        }
        self._conn.execute(query("spark/write_stream_states"), parameters)

    def _write_outputs(self, spec: CorrelatorSpec, outputs: pa.Table) -> None:
        if not outputs.num_rows:
            return
        columns = {
            "keys": "key", "tokens": "token", "positions": "offset", "times": "time", "places": "place", "totals": "evidence_total",
            "captured": "captured",
        }  # fmt: skip
        parameters: dict[str, object] = {name: outputs[column].to_pylist() for name, column in columns.items()}
        parameters["evidence"] = ["{" + ",".join(map(str, own)) + "}" for own in outputs["evidence"].to_pylist()]
        labels = {"stream_id": self._stream_id, "correlator": spec.name, "version": spec.version}
        self._conn.execute(query("spark/write_stream_outputs"), {**parameters, **labels})


def state_texts(states: pa.Table) -> pa.StringArray:
    """Each state as a JSON array in the order of _STATE, as `_decoder` reads it."""
    columns = []
    for name in _STATE:
        column = states[name].combine_chunks()
        if pa.types.is_list(column.type):
            columns.append(list_texts(column, "[", "]", "null"))
        elif name == "memory" and column.null_count < len(column):
            columns.append(pa.array([msgspec.json.encode(memory).decode() for memory in column.to_pylist()], pa.string()))
        else:
            columns.append(pc.fill_null(column.cast(pa.string()), "null"))
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*columns, ","), "]", "")


def _first_deadlines(deadlines: pa.ListArray) -> pa.Int64Array:
    """The earliest deadline of each state; null without one."""
    if not len(pc.drop_null(deadlines.flatten())):
        return pa.nulls(len(deadlines), pa.int64())
    return pa.array([min((at for at in own if at is not None), default=None) for own in deadlines.to_pylist()], pa.int64())


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cast(Any, tuple[list[int], list[int | None], list[int], int, int, int, str | None]))
