"""Stepping: runs the machines of a correlator's keys in the caller's transaction, for events and for due timers.

Their states are rows of headrace.correlator_instance, which become Arrow and back by whole columns. A batch may have 100 000 keys; a Python
object for each of their values would take longer than stepping them."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.correlators import deliver_correlations, instance_of, read_instances, write_instances
from headrace.db import Connection, query
from headrace.evaluate import STATE_SCHEMA, CorrelatorSpec, WarmStates
from headrace.lang.condition import micros_of
from headrace.lang.ecl import Correlation, TimerFlood, make_batch
from headrace.spark.binary_arrays import ArrowArray, list_texts, register_arrow_arrays
from headrace.spark.frames import MicroBatch
from headrace.spark.pipeline.topics import ConsumerSnapshot

KEYS_MAX = 1_000
"""Keys whose timers fire in one transaction."""


def step_micro_batch(
    conn: Connection, correlator_id: int, snapshot: ConsumerSnapshot, micro_batch: MicroBatch, warm: WarmStates, upto: int
) -> tuple[int, int | None]:
    """Steps a micro-batch and writes states and outputs. Returns the number of outputs, and the last handled position if that
    is not the end, `upto`: timers that fire all through a long silence are spread over several batches, as in the database."""
    events, version_id = micro_batch.events, snapshot.version_id
    if not events.num_rows:
        return 0, None
    if micro_batch.spec.table.registers:
        return _step_event_by_event(conn, correlator_id, version_id, micro_batch)
    keys = events["key"].combine_chunks().unique()
    # Only a batch changes the states of a simple table whose keys are not forgotten; timers and the node's clean-up change others.
    is_warm = micro_batch.spec.table.simple and not micro_batch.spec.forgets

    def load(missing: pa.StringArray) -> pa.Table:
        return read_states(conn, correlator_id, missing)

    states = warm.read((version_id, snapshot.erasures, snapshot.position), keys, load) if is_warm else load(keys)
    try:
        stepped = micro_batch.step(states)
    except TimerFlood:
        return _step_event_by_event(conn, correlator_id, version_id, micro_batch)
    write_states(conn, correlator_id, stepped.states)
    if is_warm:
        # If the transaction is rolled back, the cursor is not at this position, and the states are read again.
        warm.write((version_id, snapshot.erasures, upto), stepped.states)
    rows = stepped.outputs.take(pa.array(_delivery_order(stepped.outputs, events))).to_pylist()
    outputs = [
        Correlation(
            row["key"], row["offset"], row["time"], row["token"], row["place"], tuple(row["evidence"]), row["evidence_total"]
        )
        for row in rows
    ]
    return deliver_correlations(conn, version_id, outputs), None


def fire_timers(
    conn: Connection, correlator_id: int, version_id: int, spec: CorrelatorSpec, settled: datetime
) -> tuple[int, int]:
    """Fires the timers due by `settled`, a time that no later event is before. Returns the number of keys and of outputs."""
    statement = "select version_id from headrace_internal.claim_correlator(%s, p_settled => %s, p_engine => 'spark')"
    claim = conn.execute(statement, (correlator_id, settled)).fetchone()
    if claim is None or claim[0] != version_id:
        return 0, 0
    parameters = {"correlator_id": correlator_id, "settled": settled, "max": KEYS_MAX}
    due = [instance_of(row) for row in conn.execute(query("correlators/due_instances"), parameters).fetchall()]
    batch = make_batch(spec.table, spec.evidence_max, spec.forgets)
    batch.load(due)
    for instance in due:
        if not batch.tick(instance.key, micros_of(settled)):
            break
    write_instances(conn, correlator_id, batch.changed)
    return len(due), deliver_correlations(conn, version_id, batch.outputs)


def _step_event_by_event(
    conn: Connection, correlator_id: int, version_id: int, micro_batch: MicroBatch
) -> tuple[int, int | None]:
    """With the limit on timers per batch that the database's engine has."""
    spec = micro_batch.spec
    batch = make_batch(spec.table, spec.evidence_max, spec.forgets)
    batch.load(read_instances(conn, correlator_id, micro_batch.keys))
    symbols = [name for name in micro_batch.events.column_names if name.startswith("symbol")]
    upto = None
    for row in micro_batch.events.sort_by("offset").to_pylist():
        if not batch.step(row["key"], row["offset"], tuple(row[name] for name in symbols), row["time"], row.get("facts")):
            upto = row["offset"] - 1
            break
    write_instances(conn, correlator_id, batch.changed)
    return deliver_correlations(conn, version_id, batch.outputs), upto


def _delivery_order(outputs: pa.Table, events: pa.Table) -> np.ndarray:
    """The order of an engine that takes one event after the other: by the event that caused an output. A timer's cause is the
    first event of its key at its deadline or later."""
    offset = outputs["offset"].combine_chunks()
    by_timer = offset.is_null().to_numpy(zero_copy_only=False)
    cause = offset.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if by_timer.any():
        timers = outputs.filter(pa.array(by_timer))
        cause = cause.copy()
        cause[by_timer] = _next_events(timers["key"], timers["time"].to_numpy(), events)
    return np.argsort(cause, kind="stable")


def _next_events(keys: pa.ChunkedArray, times: np.ndarray, events: pa.Table) -> np.ndarray:
    all_keys = pa.chunked_array([*keys.chunks, *events["key"].chunks], pa.string()).combine_chunks()
    key = pc.dictionary_encode(all_keys).indices.to_numpy()
    time = np.concatenate([times, events["time"].to_numpy()])
    offset = np.concatenate([np.zeros(times.size, np.int64), events["offset"].to_numpy()])
    is_event = np.arange(time.size) >= times.size
    # At the same time the timer comes first.
    order = np.lexsort((offset, is_event, time, key))
    place = np.where(is_event[order], np.arange(order.size), order.size - 1)
    following = np.minimum.accumulate(place[::-1])[::-1]
    cause = np.empty(time.size, np.int64)
    cause[order] = offset[order[following]]
    return cause[: times.size]


LISTS = ("units", "deadlines", "evidence")
_COLUMNS = (*LISTS, "evidence_total", "started_at", "seen_at")
"""As the query spark/read_states returns them, after the numbers of the keys."""


def read_states(conn: Connection, correlator_id: int, keys: pa.StringArray) -> pa.Table:
    """The states of those keys that have one."""
    register_arrow_arrays(conn)
    parameters = {"correlator_id": correlator_id, "keys": ArrowArray(keys)}
    row = conn.execute(query("spark/read_states"), parameters).fetchone() if len(keys) else None
    if row is None or row[0] is None:
        return STATE_SCHEMA.empty_table()
    # The keys do not travel back: their numbers say which of them have a state.
    columns = {"key": keys.take(pc.subtract(_numbers(row[0]), 1))}
    # Tables with registers are stepped row by row; the states of all others have no memory.
    columns["memory"] = pa.nulls(len(columns["key"]), pa.string())
    for name, text in zip(_COLUMNS, row[1:], strict=True):
        columns[name] = _parse_lists(_split(text, ";")) if name in LISTS else _numbers(text)
    return pa.table({name: columns[name].cast(STATE_SCHEMA.field(name).type) for name in STATE_SCHEMA.names}, schema=STATE_SCHEMA)


def write_states(conn: Connection, correlator_id: int, states: pa.Table) -> None:
    """Inserts or updates the states of keys."""
    if not states.num_rows:
        return
    register_arrow_arrays(conn)
    parameters: dict[str, object] = {"correlator_id": correlator_id}
    for name in ("key", *_COLUMNS):
        column = states[name].combine_chunks()
        parameters[name] = ArrowArray(list_texts(column, "{", "}", "NULL") if name in LISTS else column)
    conn.execute(query("spark/write_states"), parameters)


def _parse_lists(texts: pa.StringArray) -> pa.ListArray:
    """The opposite of `list_texts`."""
    bare = pc.utf8_trim(texts, "{}")
    parts = pc.split_pattern(bare, ",")
    lengths = np.where(pc.equal(bare, "").to_numpy(zero_copy_only=False), 0, pc.list_value_length(parts).to_numpy())
    words = parts.flatten()
    # An empty list splits into one empty word.
    words = words.filter(pc.not_equal(words, ""))
    return _to_lists(pc.if_else(pc.equal(words, "NULL"), pa.scalar(None, pa.string()), words).cast(pa.int64()), lengths)


def _to_lists(values: pa.Array, lengths: np.ndarray) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), values)


def _split(text: str, separator: str) -> pa.StringArray:
    return pc.split_pattern(pa.array([text], pa.string()), separator).flatten()


def _numbers(text: str) -> pa.Int64Array:
    return _split(text, ",").cast(pa.int64())
