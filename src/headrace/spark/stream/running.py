"""correlate_stream: a streaming frame → outputs in PostgreSQL.

A micro-batch is classified by tasks and stepped by the driver. One transaction writes outputs, states and the position of the stream.
Events up to that position are skipped, so a batch that Spark repeats after a crash, whole or cut in another way, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core import Invalid
from headrace.db import map_database_errors
from headrace.evaluate import CorrelatorSpec
from headrace.spark.correlate import AnyCorrelator, check_event_columns, correlator_specs
from headrace.spark.credentials import Access
from headrace.spark.match import check_types
from headrace.spark.source import narrow_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.spark.stream.store import StreamStore


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
    from headrace.spark.stream.store import StreamStore

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
    from headrace.spark.scan import Watched

    if not df.isStreaming:
        raise Invalid("the frame is no stream; use correlate for a batch")
    if not hasattr(df, "_jdf"):
        raise Invalid("a stream needs a driver that reaches the database, which Spark Connect does not have; use a pipeline")
    check_event_columns(df.columns, specs, set())
    missing = [column for column in Watched((), tuple(specs)).columns if column not in df.columns]
    if missing:
        raise Invalid(f"the frame has no column {', '.join(missing)}, which is needed; it has {', '.join(df.columns)}")
    check_types(df)


class StreamRun:
    """Handles the micro-batches of a stream, one after the other."""

    def __init__(self, store: StreamStore, specs: Sequence[CorrelatorSpec]) -> None:
        from headrace.spark.scan import Watched

        self._store = store
        self._watched = Watched((), tuple(specs))

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
        from headrace.spark.scan import classify_frame

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
