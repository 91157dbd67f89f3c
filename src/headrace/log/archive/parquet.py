"""Writes and checks the Parquet files of the archive. A checksum over the rows is computed in SQL and in Python alike."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from headrace.core import STORED_COLUMNS, ArchiveMismatch

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

GROUP_ROWS = 131_072
"""Rows per row group: the least that a reader of a range decompresses, and enough for zstd to find repetitions."""
_BITS = 60
_BYTES, _CHARACTERS = 16, 36
_GROUPS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
"""The digits between dashes."""
_HASHED = ("position", "appended_at", "emitted_at", "partition", "event_id", "type", "key", "payload", "headers", "producer")
"""The columns of a row's hash, in the order of the query log/archive/days."""
_Row = tuple[int, int, int, int, str, str, str | None, str, str, str | None]
"""These columns of a row, with times in microseconds."""


@dataclass(frozen=True)
class Content:
    """What a file holds."""

    first_position: int
    last_position: int
    events: int
    checksum: str

    def __str__(self) -> str:
        return f"{self.events} events, {self.first_position} to {self.last_position}, with checksum {self.checksum}"


def file_schema() -> pa.Schema:
    """The columns of a file: those of the log, with JSON and ids as text."""
    import pyarrow as pa

    types = {"bigint": pa.int64(), "integer": pa.int32(), "timestamptz": pa.timestamp("us", tz="UTC")}
    return pa.schema([pa.field(name, types.get(type, pa.string()), nullable=nullable) for name, type, nullable in STORED_COLUMNS])


def write_file(path: Path, batches: Iterable[pa.RecordBatch], metadata: Mapping[bytes, bytes]) -> Iterator[int]:
    """Writes ordered rows to a file, which is on disk at the end; yields the number of rows of each batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = file_schema().with_metadata(dict(metadata))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        with pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=["type", "key", "headers", "producer", "partition"],
            sorting_columns=[pq.SortingColumn(0)],
        ) as writer:
            for batch in _row_groups(batches, schema):
                writer.write_table(pa.Table.from_batches([batch]), row_group_size=GROUP_ROWS)
                yield batch.num_rows
        file.flush()
        os.fsync(file.fileno())


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in batches of a row group's size, whatever size they come in."""
    import pyarrow as pa

    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        columns = [batch.column(field.name) for field in schema]
        plain = [plain_column(column) for column in columns]
        arrays = [column.cast(field.type) for column, field in zip(plain, schema, strict=True)]
        group.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        rows += batch.num_rows
        if rows >= GROUP_ROWS:
            yield pa.concat_batches(group)
            group, rows = [], 0
    if group:
        yield pa.concat_batches(group)


def read_content(path: Path | BinaryIO) -> Content:
    """Reads a whole file. Raises ArchiveMismatch for a file that cannot be read or whose positions have gaps."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    total, events, first, last = 0, 0, 0, 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=file_schema().names):
                for row in file_rows(batch):
                    position = row[0]
                    if events and position != last + 1:
                        raise ArchiveMismatch(f"{path}: position {position} follows {last}; archive this day again")
                    first = first or position
                    last = position
                    events += 1
                    total += row_hash(row)
    except (KeyError, OSError, pa.ArrowException) as error:
        raise ArchiveMismatch(f"{path} cannot be read: {error}; archive this day again while the log has it") from None
    return Content(first, last, events, str(total))


def file_rows(batch: pa.RecordBatch) -> Iterator[_Row]:
    """The rows of a batch with all columns of a file, as `row_hash` takes them."""
    import pyarrow as pa

    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        # A file that is older than a column of events does not have it.
        for column in (batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows) for name in _HASHED)
    ]
    return zip(*columns, strict=True)


def row_hash(row: _Row) -> int:
    """The first 60 bits of a row's SHA-256. The query log/archive/days adds up the same numbers."""
    *numbers_and_type, key, payload, headers, producer = row
    words = [*map(str, numbers_and_type), _with_length(key), _with_length(producer), _with_length(headers), payload]
    return int.from_bytes(sha256(" ".join(words).encode()).digest()[:8]) >> (64 - _BITS)


def _with_length(text: str | None) -> str:
    return "-" if text is None else f"{len(text)}:{text}"


def plain_column(column: pa.Array) -> pa.Array:
    """A column of the log as a file has it: the server sends ids as bytes, because to make text of them costs it a tenth of a read."""
    import pyarrow as pa

    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    return uuid_texts(storage) if pa.types.is_fixed_size_binary(storage.type) else storage


def uuid_texts(column: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """The texts of UUIDs that come as 16 bytes each."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    count = len(column)
    data = column.buffers()[1]
    if count == 0 or data is None:
        return pa.nulls(count, pa.string())
    begin = column.offset * _BYTES
    pairs = _digits()[np.frombuffer(data, np.uint8)[begin : begin + count * _BYTES]]
    digits = pairs.view(np.uint8).reshape(count, 2 * _BYTES)
    characters = np.full((count, _CHARACTERS), ord("-"), np.uint8)
    for dashes, (low, high) in enumerate(_GROUPS):
        characters[:, low + dashes : high + dashes] = digits[:, low:high]
    offsets = np.arange(0, (count + 1) * _CHARACTERS, _CHARACTERS, dtype=np.int32)
    texts = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(characters))
    return texts if column.null_count == 0 else pc.if_else(column.is_valid(), texts, None)


@cache
def _digits() -> NDArray[np.uint16]:
    """The two digits of every byte, as they lie in memory."""
    import numpy as np

    return np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
