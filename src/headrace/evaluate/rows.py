"""The Arrow form of stepping: classified events and states in, outputs and states out.

A *state row* is the stored state of a key; it comes before the key's events and has offset -1 and the symbol STATE_ROW."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

STATE_ROW = -1
"""The symbol of a row that is no event: it sets the state of the machine."""
STATE_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("units", pa.list_(pa.int32())),
        ("deadlines", pa.list_(pa.int64())),
        ("evidence", pa.list_(pa.int64())),
        ("evidence_total", pa.int64()),
        ("started_at", pa.int64()),
        ("seen_at", pa.int64()),
        ("memory", pa.string()),
    ]
)
"""The instance state of a key, as in the rows of headrace.correlator_instance; times in microseconds."""
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
        ("captured", pa.string()),
    ]
)
"""An output: of an event, or of a timer (offset and event_id are null). `place` counts from 1 among the outputs
of that event or deadline; `time` is that of the event or the deadline."""


@dataclass(frozen=True)
class Rows:
    """A piece of classified rows."""

    key: pa.Array
    symbol: np.ndarray
    offset: np.ndarray
    time: np.ndarray
    event_id: pa.Array
    states: pa.Table | None = None
    """One row of STATE_SCHEMA per state row, in their order; None where there is no state row."""
    others: tuple[np.ndarray, ...] = ()
    """The symbols in the other alphabets, where the table has more than one."""
    facts: pa.Array | None = None
    """Lists of texts, where the table has registers."""

    @classmethod
    def from_table(cls, table: pa.Table | pa.RecordBatch) -> Rows:
        """Reads the columns key, symbol, offset, time, event_id and, where present, symbol1 … and those of STATE_SCHEMA."""
        symbol = numbers(table["symbol"])
        states = None
        if "units" in table.schema.names and (symbol == STATE_ROW).any():
            columns = pa.table({name: table[name] for name in STATE_SCHEMA.names})
            states = columns.filter(pa.array(symbol == STATE_ROW))
        others = tuple(numbers(table[name]) for name in table.schema.names if name.startswith("symbol") and name != "symbol")
        offset, time = numbers(table["offset"]), numbers(table["time"])
        facts = _whole(table["facts"]) if "facts" in table.schema.names else None
        return cls(_whole(table["key"]), symbol, offset, time, _whole(table["event_id"]), states, others, facts)


def numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A column as 64-bit integers."""
    return np.asarray(_whole(column).cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


@dataclass(frozen=True)
class Stepped:
    """The outputs of a batch, and the states that changed: the rows to write back."""

    outputs: pa.Table
    states: pa.Table


def slices(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> pa.ListArray:
    """`values[low[i]:high[i]]` for every i, as one list array."""
    lengths = high - low
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values[np.repeat(low, lengths) + within], pa.int64()))


_DIGIT_BITS = 16
"""numpy sorts 16-bit numbers by counting, in a tenth of the time."""


def sort_rows(rows: pa.Table) -> pa.Table:
    """The rows of each key together, by offset."""
    encoded = pc.dictionary_encode(rows["key"].combine_chunks())
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    offsets = rows["offset"].to_numpy()
    # PostgreSQL reads a range in any order, though nearly always in that of positions.
    is_ordered = bool((offsets[1:] >= offsets[:-1]).all())
    return rows.take(pa.array(sort_codes(codes, len(encoded.dictionary)) if is_ordered else np.lexsort((offsets, codes))))


def sort_codes(codes: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The rows by their codes, which are less than `count`; rows of one code keep their order."""
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    shift = _DIGIT_BITS
    while count > 1 << shift:
        order = order[np.argsort((codes[order] >> shift).astype(np.uint16), kind="stable")]
        shift += _DIGIT_BITS
    return order
