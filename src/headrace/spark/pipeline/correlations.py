"""The keeping of a correlator's micro-batch: states before, stepping, states after, outputs in the database's order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.correlators import Batch, Classified, Correlation, deliver_correlations, from_us, read_instances, write_instances
from headrace.db import Connection
from headrace.lang.ecl import TimerFlood
from headrace.spark import MicroBatch
from headrace.spark.pipeline.states import read_states, write_states


def keep_micro_batch(conn: Connection, correlator_id: int, version_id: int, micro: MicroBatch) -> tuple[int, int | None]:
    """Steps a micro-batch in the caller's transaction. Returns how many outputs were delivered, and the position up to which it
    came if that is not the end: timers that tick through a long silence are cut into several batches, as in the database."""
    if not micro.events.num_rows:
        return 0, None
    states = read_states(conn, correlator_id, micro.events["key"].combine_chunks().unique())
    try:
        stepped = micro.step(states)
    except TimerFlood:
        return _keep_slowly(conn, correlator_id, version_id, micro)
    write_states(conn, correlator_id, stepped.states)
    return deliver_correlations(conn, version_id, correlations(stepped.outputs, micro.events)), None


def correlations(outputs: pa.Table, events: pa.Table) -> list[Correlation]:
    """Outputs in the order in which an engine makes them that takes one event after the other."""
    rows = outputs.take(pa.array(delivery_order(outputs, events))).to_pylist()
    return [
        Correlation(
            row["key"], row["offset"], row["time"], row["token"], row["place"], tuple(row["evidence"]), row["evidence_total"]
        )
        for row in rows
    ]


def delivery_order(outputs: pa.Table, events: pa.Table) -> np.ndarray:
    """By the event that made an output. For a timer's that is the first event of its key that came at its deadline or later."""
    offset = outputs["offset"].combine_chunks()
    by_timer = offset.is_null().to_numpy(zero_copy_only=False)
    cause = offset.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if by_timer.any():
        chosen = outputs.filter(pa.array(by_timer))
        cause = cause.copy()
        cause[by_timer] = _next_events(chosen["key"], chosen["time"].to_numpy(), events)
    return np.argsort(cause, kind="stable")


def _next_events(keys: pa.ChunkedArray, times: np.ndarray, events: pa.Table) -> np.ndarray:
    coded = pc.dictionary_encode(pa.chunked_array([*keys.chunks, *events["key"].chunks], pa.string()).combine_chunks())
    code = coded.indices.to_numpy()
    time = np.concatenate([times, events["time"].to_numpy()])
    offset = np.concatenate([np.zeros(times.size, np.int64), events["offset"].to_numpy()])
    is_event = np.arange(time.size) >= times.size
    # At the same time the timer comes first.
    order = np.lexsort((offset, is_event, time, code))
    place = np.where(is_event[order], np.arange(order.size), order.size - 1)
    following = np.minimum.accumulate(place[::-1])[::-1]
    cause = np.empty(time.size, np.int64)
    cause[order] = offset[order[following]]
    return cause[: times.size]


def _keep_slowly(conn: Connection, correlator_id: int, version_id: int, micro: MicroBatch) -> tuple[int, int | None]:
    """Event by event, with the limit of firings per batch that the database's engine has."""
    spec = micro.spec
    batch = Batch(spec.table, spec.evidence_max, spec.forgets)
    batch.know(read_instances(conn, correlator_id, micro.keys))
    came_to = None
    for event in classified_events(micro.events):
        if not batch.take(event):
            came_to = event.position - 1
            break
    write_instances(conn, correlator_id, batch.changed)
    return deliver_correlations(conn, version_id, batch.outputs), came_to


def classified_events(events: pa.Table) -> list[Classified]:
    """The rows of a micro-batch one by one, by position."""
    symbols = [name for name in events.column_names if name.startswith("symbol")]
    return [
        Classified(row["offset"], row["key"], None, [row[name] for name in symbols], from_us(row["time"]))
        for row in events.sort_by("offset").to_pylist()
    ]
