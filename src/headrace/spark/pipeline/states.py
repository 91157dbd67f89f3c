"""The rows of headrace_internal.correlator_instance as Arrow, and back, by whole columns: a batch may have 100 000 keys, and a Python
object for each of their values would take longer than stepping them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.db import Connection, query
from headrace.spark.correlate.rows import STATE_SCHEMA

LISTS = ("units", "deadlines", "evidence")
_FOUND = ("units", "deadlines", "evidence", "evidence_total", "started_at", "seen_at")


def read_states(conn: Connection, correlator_id: int, keys: pa.StringArray) -> pa.Table:
    """The states of those of the keys that have one."""
    given = {"correlator_id": correlator_id, "keys": array_literal(keys)}
    row = conn.execute(query("spark/pipeline/read_states"), given).fetchone() if len(keys) else None
    if row is None or row[0] is None:
        return STATE_SCHEMA.empty_table()
    # Keys do not come back: which of those given have a state is told by their numbers.
    columns = {"key": keys.take(pc.subtract(_numbers(row[0]), 1))}
    for name, text in zip(_FOUND, row[1:], strict=True):
        columns[name] = lists_of(_split(text, ";")) if name in LISTS else _numbers(text)
    return pa.table({name: columns[name].cast(STATE_SCHEMA.field(name).type) for name in STATE_SCHEMA.names}, schema=STATE_SCHEMA)


def write_states(conn: Connection, correlator_id: int, states: pa.Table) -> None:
    """Writes the states of keys, new or known."""
    if not states.num_rows:
        return
    given: dict[str, object] = {"correlator_id": correlator_id}
    for name in STATE_SCHEMA.names:
        column = states[name].combine_chunks()
        given[name] = array_literal(literals(column) if name in LISTS else column)
    conn.execute(query("spark/pipeline/write_states"), given)


def array_literal(column: pa.Array) -> str:
    """A column of texts or integers as PostgreSQL reads an array of them."""
    words = column
    if pa.types.is_string(column.type):
        for special in ("\\", '"'):
            words = pc.replace_substring(words, special, "\\" + special)
        words = pc.binary_join_element_wise('"', words, '"', "")
    return "{" + ",".join(pc.fill_null(words.cast(pa.string()), "NULL").to_pylist()) + "}"


def lists_of(texts: pa.StringArray) -> pa.ListArray:
    """Arrays of integers as PostgreSQL writes them, `{1,NULL,3}`, as lists."""
    bare = pc.utf8_trim(texts, "{}")
    parts = pc.split_pattern(bare, ",")
    lengths = np.where(pc.equal(bare, "").to_numpy(zero_copy_only=False), 0, pc.list_value_length(parts).to_numpy())
    words = parts.flatten()
    # An empty list splits into one empty word.
    words = words.filter(pc.not_equal(words, ""))
    values = pc.if_else(pc.equal(words, "NULL"), pa.scalar(None, pa.string()), words).cast(pa.int64())
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), values)


def literals(lists: pa.ListArray) -> pa.StringArray:
    """Lists of integers as PostgreSQL reads an array of them."""
    words = pc.fill_null(lists.flatten().cast(pa.string()), "NULL")
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    split = pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), words)
    return pc.binary_join_element_wise("{", pc.binary_join(split, ","), "}", "")


def _split(text: str, separator: str) -> pa.StringArray:
    return pc.split_pattern(pa.array([text], pa.string()), separator).flatten()


def _numbers(text: str) -> pa.Int64Array:
    return _split(text, ",").cast(pa.int64())
