"""Columns of Arrow as arrays in PostgreSQL's binary format, built by whole columns: nothing is escaped and no row is a Python object."""

from __future__ import annotations

from struct import pack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import Connection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

_EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts time from 2000-01-01."""
_TEXT, _BIGINT, _INTEGER, _TIMESTAMPTZ = 25, 20, 23, 1184
_ARRAY_OIDS = {_TEXT: 1009, _BIGINT: 1016, _INTEGER: 1007, _TIMESTAMPTZ: 1185}
_WIDTHS = {_BIGINT: ">i8", _INTEGER: ">i4", _TIMESTAMPTZ: ">i8"}


class ArrowArray:
    """A parameter: a column of text, whole numbers or times."""

    def __init__(self, column: pa.Array | pa.ChunkedArray) -> None:
        self.column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        self.element = _element(self.column.type)


class _ArrowArrayDumper(Dumper):
    format = Format.BINARY

    def get_key(self, obj: ArrowArray, format: object) -> tuple[type, int]:  # type: ignore[override]
        return (ArrowArray, obj.element)

    def upgrade(self, obj: ArrowArray, format: object) -> _ArrowArrayDumper:
        dumper = _ArrowArrayDumper(ArrowArray)
        dumper.oid = _ARRAY_OIDS[obj.element]
        return dumper

    def dump(self, obj: ArrowArray) -> Buffer:
        return _texts(obj.column) if obj.element == _TEXT else _numbers(obj.column, obj.element)


def register_arrow_arrays(conn: Connection[tuple[object, ...]]) -> None:
    """Makes ArrowArray a parameter of statements on this connection."""
    conn.adapters.register_dumper(ArrowArray, _ArrowArrayDumper)


def list_texts(lists: pa.ListArray, left: str, right: str, null: str) -> pa.StringArray:
    """Lists of integers as texts, such as `{1,NULL,3}` or `[1,null,3]`."""
    words = pc.fill_null(lists.flatten().cast(pa.string()), null)
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    parts = pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), words)
    return pc.binary_join_element_wise(left, pc.binary_join(parts, ","), right, "")


def _element(type_: pa.DataType) -> int:
    if pa.types.is_timestamp(type_):
        return _TIMESTAMPTZ
    if pa.types.is_int32(type_):
        return _INTEGER
    return _BIGINT if pa.types.is_int64(type_) else _TEXT


def _texts(column: pa.Array) -> bytes:
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    texts = pc.fill_null(column.cast(pa.large_string()), "")
    count = len(texts)
    if count == 0:
        return _array(_TEXT, is_null, np.array([], np.int64), np.array([], np.uint8))
    _, offsets_buffer, data = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset : texts.offset + count + 1]
    content = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.array([], np.uint8)
    return _array(_TEXT, is_null, np.diff(offsets), content)


def _numbers(column: pa.Array, element: int) -> bytes:
    if element == _TIMESTAMPTZ:
        column = pc.subtract(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), _EPOCH_US)
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    values = pc.drop_null(column).to_numpy(zero_copy_only=False).astype(_WIDTHS[element])
    lengths = np.where(is_null, 0, values.itemsize)
    return _array(element, is_null, lengths, values.view(np.uint8))


def _array(element: int, is_null: NDArray[np.bool_], lengths: NDArray[np.int64], content: NDArray[np.uint8]) -> bytes:
    """A header, then for each element its length (-1 for null) and its bytes."""
    count = lengths.size
    if count == 0:
        return pack("!iii", 0, 0, element)
    heads = np.zeros(count, np.int64)
    np.cumsum(lengths[:-1] + 4, out=heads[1:])
    places = heads[:, None] + np.arange(4)
    elements = np.empty(content.size + 4 * count, np.uint8)
    is_content = np.ones(elements.size, bool)
    is_content[places] = False
    elements[places] = np.where(is_null, -1, lengths).astype(">i4").view(np.uint8).reshape(count, 4)
    elements[is_content] = content
    return pack("!iiiii", 1, int(is_null.any()), element, count, 1) + elements.tobytes()
