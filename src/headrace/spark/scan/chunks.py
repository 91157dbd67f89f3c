"""Chunks: rows on their way from the tasks that read to those that step, many in one binary value.

Spark then moves a few values per task instead of every event, and neither converts nor sorts rows. A chunk has the rows of one
group and of one partition of the keys."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

CHUNK_SCHEMA = pa.schema([("partition", pa.int32()), ("group", pa.int32()), ("first", pa.int64()), ("data", pa.binary())])
CHUNK_TYPE = "partition int, group int, first bigint, data binary"
RULES, LIVE = -1, -2
"""Groups of rows that are no correlator's events: firings of rules, and outputs of the live correlators."""


def partitions_of(keys: pa.StringArray | pa.ChunkedArray, count: int) -> NDArray[np.int64]:
    """The partition of each key."""
    array = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    encoded = pc.dictionary_encode(array)
    numbers = np.fromiter(
        (zlib.crc32(key.encode()) % count for key in encoded.dictionary.to_pylist()), np.int64, len(encoded.dictionary)
    )
    partitions: NDArray[np.int64] = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return partitions


def make_chunks(group: int, rows: pa.Table, count: int) -> Iterator[pa.RecordBatch]:
    """The rows of a group as chunks, one per partition."""
    partitions = partitions_of(rows["key"], count) if count > 1 else np.zeros(rows.num_rows, np.int64)
    for partition in np.unique(partitions).tolist():
        yield make_chunk(partition, group, rows if count == 1 else rows.filter(pa.array(partitions == partition)))


def make_chunk(partition: int, group: int, rows: pa.Table) -> pa.RecordBatch:
    first = rows["offset"][0].as_py() if "offset" in rows.column_names and rows.num_rows else 0
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data = sink.getvalue().to_pybytes()
    return pa.record_batch([[partition], [group], [first], pa.array([data], pa.binary())], schema=CHUNK_SCHEMA)


def read_chunks(batches: Iterable[pa.RecordBatch]) -> dict[int, pa.Table]:
    """The rows of each group, by the first offset of their chunks."""
    chunks: dict[int, list[tuple[int, bytes]]] = {}
    for batch in batches:
        for group, first, data in zip(*(batch.column(name).to_pylist() for name in ("group", "first", "data")), strict=True):
            chunks.setdefault(group, []).append((first, data))
    return {
        group: pa.concat_tables([pa.ipc.open_stream(data).read_all() for _, data in sorted(parts, key=lambda part: part[0])])
        for group, parts in chunks.items()
    }
