"""Instance states: rows of headrace.correlator_instance as Arrow, and back, by whole columns. A batch may have 100 000
keys; a Python object for each of their values would take longer than stepping them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.db import Connection, query
from headrace.spark.binary_arrays import ArrowArray, list_texts, register_arrow_arrays
from headrace.spark.correlate import state_schema

STATE_SCHEMA = state_schema()
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
