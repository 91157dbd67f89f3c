"""The rows of headrace.correlator_instance as Arrow, and back: by whole columns, since a batch may have 100 000 keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.db import Connection, query
from headrace.spark._correlate_rows import STATE_SCHEMA

LISTS = ("units", "deadlines", "evidence")
_NAMES = ("key", "units", "deadlines", "evidence", "evidence_total", "started_at", "seen_at")


def read_states(conn: Connection, correlator_id: int, keys: Sequence[str]) -> pa.Table:
    """The states of those of the keys that have one."""
    if not keys:
        return STATE_SCHEMA.empty_table()
    row = conn.execute(query("pipeline/read_states"), {"correlator_id": correlator_id, "keys": list(keys)}).fetchone()
    assert row is not None
    columns = {
        name: lists_of(pa.array(values, pa.string())) if name in LISTS else pa.array(values, STATE_SCHEMA.field(name).type)
        for name, values in zip(_NAMES, row, strict=True)
    }
    columns["units"] = columns["units"].cast(STATE_SCHEMA.field("units").type)
    return pa.table({name: columns[name] for name in STATE_SCHEMA.names}, schema=STATE_SCHEMA)


def write_states(conn: Connection, correlator_id: int, states: pa.Table) -> None:
    """Writes the states of keys, new or known."""
    if not states.num_rows:
        return
    given: dict[str, object] = {"correlator_id": correlator_id}
    for name in STATE_SCHEMA.names:
        column = states[name].combine_chunks()
        given[name] = (literals(column) if name in LISTS else column).to_pylist()
    conn.execute(query("pipeline/write_states"), given)


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
