"""What stepping takes and gives, as Arrow: classified events and states in, outputs and states out.

A *state row* is a key's state from before; it stands before the key's events and has offset -1 and the symbol STATE_ROW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
import pyarrow as pa

OUTPUT, STATE = 0, 1
STATE_ROW = -1
"""The symbol of a row that is no event: it puts the machine into a state."""
STATE_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("units", pa.list_(pa.int32())),
        ("deadlines", pa.list_(pa.int64())),
        ("evidence", pa.list_(pa.int64())),
        ("evidence_total", pa.int64()),
        ("started_at", pa.int64()),
        ("seen_at", pa.int64()),
    ]
)
"""Where the machine of a key stands, as the rows of headrace_internal.correlator_instance have it; times in microseconds."""
OUTPUT_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("token", pa.string()),
        ("offset", pa.int64()),
        ("time", pa.int64()),
        ("place", pa.int32()),
        ("evidence", pa.list_(pa.int64())),
        ("evidence_total", pa.int64()),
        ("event_id", pa.string()),
    ]
)
"""A token that was pushed: by an event, or by a timer (offset and event_id are null). `place` counts from 1 among the outputs
of that event or deadline; `time` is that of the event or the deadline."""
BOTH_SCHEMA = pa.schema(
    [("kind", pa.int32()), *OUTPUT_SCHEMA, *(column for column in STATE_SCHEMA if column.name not in OUTPUT_SCHEMA.names)]
)
BOTH_DDL = (
    "kind int, key string, token string, `offset` bigint, time bigint, place int, evidence array<bigint>,"
    " evidence_total bigint, event_id string, units array<int>, deadlines array<bigint>, started_at bigint, seen_at bigint"
)


class StateRow(TypedDict):
    """A row of STATE_SCHEMA."""

    key: str
    units: list[int]
    deadlines: list[int | None]
    evidence: list[int]
    evidence_total: int
    started_at: int
    seen_at: int


@dataclass(frozen=True)
class Rows:
    """A piece of classified rows. Columns of states are there where there are state rows."""

    key: pa.Array
    symbol: np.ndarray
    offset: np.ndarray
    time: np.ndarray
    event_id: pa.Array
    states: pa.Table | None = None
    """One row per state row, in their order."""
    others: tuple[np.ndarray, ...] = ()
    """The symbols in the other alphabets, where the table has more than one."""

    @classmethod
    def of(cls, table: pa.Table | pa.RecordBatch) -> Rows:
        """Out of the columns key, symbol, offset, time, event_id and, where given, symbol1 … and those of states."""
        symbol = _numbers(table["symbol"])
        states = None
        if "units" in table.schema.names and (symbol == STATE_ROW).any():
            chosen = pa.table({name: table[name] for name in STATE_SCHEMA.names})
            states = chosen.filter(pa.array(symbol == STATE_ROW))
        others = tuple(_numbers(table[name]) for name in table.schema.names if name.startswith("symbol") and name != "symbol")
        offset, time = _numbers(table["offset"]), _numbers(table["time"])
        return cls(_whole(table["key"]), symbol, offset, time, _whole(table["event_id"]), states, others)


def _numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    return np.asarray(_whole(column).cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


@dataclass(frozen=True)
class Stepped:
    """The outputs of a batch, and the states of the keys that changed: the rows to be written back."""

    outputs: pa.Table
    states: pa.Table


@dataclass
class Lists:
    """Rows of outputs or states that are made one by one."""

    schema: pa.Schema
    columns: dict[str, list[object]] = field(init=False)

    def __post_init__(self) -> None:
        self.columns = {name: [] for name in self.schema.names}

    def add(self, *values: object) -> None:
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)

    def table(self) -> pa.Table:
        return pa.table(self.columns, schema=self.schema)


def slices(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> pa.ListArray:
    """`values[low[i]:high[i]]` for every i, as one list array."""
    lengths = high - low
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values[np.repeat(low, lengths) + within], pa.int64()))


def tagged(kind: int, table: pa.Table) -> pa.Table:
    """Outputs or states in the schema of both."""
    columns = [
        pa.array(np.full(table.num_rows, kind, np.int32))
        if column.name == "kind"
        else table[column.name]
        if column.name in table.column_names
        else pa.nulls(table.num_rows, column.type)
        for column in BOTH_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=BOTH_SCHEMA)


def joined(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(tables) if tables else schema.empty_table()
