"""Writing a file of the archive, and the checksum of its rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core import ArchiveDiffers

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 131_072
"""Rows of a row group: what a reader of a range has to decompress at least, and enough for zstd to find what repeats."""
_BITS = 60


@dataclass(frozen=True)
class Content:
    """What a file holds, by its rows."""

    first_position: int
    last_position: int
    events: int
    checksum: str


def file_schema() -> pa.Schema:
    """The columns of a file: those of the log, JSON as its text."""
    import pyarrow as pa

    moment = pa.timestamp("us", tz="UTC")
    fields = [
        ("position", pa.int64(), False),
        ("appended_at", moment, False),
        ("emitted_at", moment, False),
        ("partition", pa.int32(), False),
        ("event_id", pa.string(), False),
        ("type", pa.string(), False),
        ("key", pa.string(), True),
        ("payload", pa.string(), False),
        ("headers", pa.string(), False),
        ("producer", pa.string(), True),
    ]
    return pa.schema([pa.field(name, kind, nullable=nullable) for name, kind, nullable in fields])


def write_file(path: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Writes rows, which come in order, to a file that is on the disk when this ends; yields how many came with each batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = file_schema()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        with pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=["type", "key", "headers", "producer", "partition"],
            sorting_columns=[pq.SortingColumn(0)],
        ) as writer:
            for batch in _regrouped(batches, schema):
                writer.write_table(pa.Table.from_batches([batch]), row_group_size=GROUP_ROWS)
                yield batch.num_rows
        file.flush()
        os.fsync(file.fileno())


def _regrouped(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """In pieces of a row group's size, whatever size they come in."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        columns = [batch.column(field.name) for field in schema]
        plain = [one.storage if isinstance(one, pa.ExtensionArray) else one for one in columns]
        waiting.append(
            pa.RecordBatch.from_arrays([one.cast(f.type) for one, f in zip(plain, schema, strict=True)], schema=schema)
        )
        count += batch.num_rows
        if count >= GROUP_ROWS:
            yield pa.concat_batches(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def read_content(path: Path) -> Content:
    """Reads a whole file and says what it holds. Raises ArchiveDiffers for one that is no such file, or is not in order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    total, events, first, last = 0, 0, 0, 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=file_schema().names):
                for row in _plain_rows(batch):
                    position = row[0]
                    if events and position != last + 1:
                        raise ArchiveDiffers(f"{path}: position {position} stands after {last}; archive this day again")
                    first = first or position
                    last = position
                    events += 1
                    total += row_hash(*row)
    except (OSError, pa.ArrowException) as error:
        raise ArchiveDiffers(f"{path} cannot be read: {error}; archive this day again while the log has it") from None
    return Content(first, last, events, str(total))


def _plain_rows(batch: pa.RecordBatch) -> Iterator[tuple[int, int, int, int, str, str, str | None, str, str, str | None]]:
    import pyarrow as pa

    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist() for column in batch.columns
    ]
    return zip(*columns, strict=True)


def row_hash(
    position: int,
    appended_us: int,
    emitted_us: int,
    partition: int,
    event_id: str,
    type: str,
    key: str | None,
    payload: str,
    headers: str,
    producer: str | None,
) -> int:
    """60 bits of a row's SHA-256: the same number as queries/archive/days.sql adds up."""
    text = (
        f"{position} {appended_us} {emitted_us} {partition} {event_id} {type} "
        f"{_measured(key)} {_measured(producer)} {_measured(headers)} {payload}"
    )
    return int.from_bytes(sha256(text.encode()).digest()[:8]) >> (64 - _BITS)


def _measured(text: str | None) -> str:
    return "-" if text is None else f"{len(text)}:{text}"
