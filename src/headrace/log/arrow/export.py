"""Writes events to a file: Parquet, Arrow, CSV or JSON lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, get_args

import msgspec

from headrace.core import Conflict, Invalid
from headrace.log.arrow.events import Events

if TYPE_CHECKING:
    import pyarrow as pa

ExportFormat = Literal["parquet", "arrow", "csv", "jsonl"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
_JSON_COLUMNS = ("payload", "headers")


@dataclass(frozen=True)
class ExportProgress:
    """Events written so far."""

    events: int


def export(
    events: Events, path: Path, *, format: ExportFormat | None = None, overwrite: bool = False
) -> Iterator[ExportProgress]:
    """Writes events to a file, whose name tells the format unless it is given; yields the progress.

    The file has its name once it is complete. In JSON lines, payload and headers are JSON; elsewhere they are JSON text."""
    format = format or _format_of(path)
    if path.exists() and not overwrite:
        raise Conflict(f"{path} exists already; choose another name, or overwrite it")
    temporary = path.with_name(f".{path.name}.writing")
    try:
        count = 0
        with temporary.open("wb") as file:
            for written in _write(events, file, format):
                count += written
                yield ExportProgress(count)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _format_of(path: Path) -> ExportFormat:
    for format in EXPORT_FORMATS:
        if path.suffix == f".{format}":
            return format
    names = ", ".join(f".{format}" for format in EXPORT_FORMATS)
    raise Invalid(f"the name {path.name!r} does not tell the format; end it with {names}, or give the format")


def _write(events: Events, file: BinaryIO, format: ExportFormat) -> Iterator[int]:
    batches = events.batches()
    if format == "jsonl":
        for batch in batches:
            file.write(b"".join(_lines(batch)))
            yield batch.num_rows
        return
    with _open_writer(file, events.schema, format) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield batch.num_rows


@contextmanager
def _open_writer(file: BinaryIO, schema: pa.Schema, format: ExportFormat) -> Iterator[pa.RecordBatchFileWriter]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    if format == "parquet":
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            yield writer
    elif format == "csv":
        with pa.csv.CSVWriter(file, schema) as writer:
            yield writer
    else:
        with pa.ipc.new_file(file, schema) as writer:
            yield writer


def _lines(batch: pa.RecordBatch) -> Iterable[bytes]:
    for row in batch.to_pylist():
        for name in _JSON_COLUMNS:
            if name in row:
                row[name] = msgspec.Raw(row[name].encode())
        yield msgspec.json.encode(row) + b"\n"
