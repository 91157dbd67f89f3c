"""Reads an archive file as Arrow: a range of positions, some columns, and the rows that pass a filter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg import sql

from headrace.core import ArchiveMismatch, NotFound
from headrace.db import query
from headrace.log.archive.parquet import file_schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

BATCH_ROWS = 16_384


def literal_query(name: LiteralString, **parts: object) -> str:
    """A query with values as literals in its text, for ADBC: a statement with parameters would not use binary COPY."""
    composed = {name: part if isinstance(part, sql.Composable) else sql.Literal(part) for name, part in parts.items()}
    return sql.SQL(query(name)).format(**composed).as_string(None)


@dataclass(frozen=True)
class StoredRange:
    """A range of a topic's positions, from `first` to before `until`; those before `log_first` are only in the archive."""

    topic_id: int
    topic: str
    first: int
    until: int
    log_first: int

    def __len__(self) -> int:
        return max(0, self.until - self.first)


@dataclass(frozen=True)
class FileRange:
    """A range of positions in one file: from `first` to before `until`."""

    path: str
    first: int
    until: int

    @classmethod
    def from_row(cls, row: Sequence[Any], span: StoredRange, folder: str | None) -> FileRange:
        """From a row of the query log/archive/files, cut to a range. `folder` is where the files are now, if they were moved."""
        first, until, recorded_folder, file = row
        return cls(str(Path(folder or recorded_folder) / file), max(first, span.first), min(until, span.until))


@dataclass(frozen=True)
class RowFilter:
    """Which rows pass; None lets all pass. Times are the events' own, from `from_time` to before `to_time`."""

    types: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None
    from_time: datetime | None = None
    to_time: datetime | None = None
    positions: tuple[int, ...] | None = None


def read_archive_file(file_range: FileRange, columns: Sequence[str], rows: RowFilter = RowFilter()) -> Iterator[pa.RecordBatch]:
    """The rows of a range that pass the filter, in the order of positions. Raises NotFound if the file is missing."""
    if rows == RowFilter():
        whole = _read_whole_file(file_range, columns)
        if whole is not None:
            yield from whole
            return
    for batch in _open_dataset(file_range.path).to_batches(
        columns=list(columns), filter=_condition(file_range, rows), batch_size=BATCH_ROWS, use_threads=False
    ):
        if batch.num_rows:
            yield batch


def _read_whole_file(file_range: FileRange, columns: Sequence[str]) -> Iterator[pa.RecordBatch] | None:
    """The batches of a file, if the range is all of it: opening a dataset takes three times as long as reading a small file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(file_range.path)
    except FileNotFoundError:
        raise _missing(file_range.path) from None
    except (OSError, pa.ArrowException) as error:
        raise ArchiveMismatch(f"{file_range.path} cannot be read: {error}; restore it from a copy of the archive") from None
    if file.metadata.num_rows != file_range.until - file_range.first or not set(columns) <= set(file.schema_arrow.names):
        file.close()
        return None
    # Selected again: the reader gives columns in the order of the file.
    return (batch.select(list(columns)) for batch in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False))


def first_position_at(file_range: FileRange, at: datetime) -> int | None:
    """The first position of a range that was appended at a time or later."""
    import pyarrow.compute as pc

    condition = _condition(file_range, RowFilter()) & (pc.field("appended_at") >= at)
    table = _open_dataset(file_range.path).to_table(columns=["position"], filter=condition, use_threads=False)
    position = pc.min(table.column("position")).as_py()
    return None if position is None else int(position)


def _open_dataset(path: str) -> ds.Dataset:
    import pyarrow.dataset as ds

    try:
        # Read with our schema: a file that is older than a column of events has nulls in it.
        return ds.dataset(path, file_schema(), format="parquet")
    except FileNotFoundError:
        raise _missing(path) from None


def _missing(path: str) -> NotFound:
    return NotFound(
        f"the catalog names the archive file {path}, which does not exist; "
        "every reading process needs the folder under this name, or under the name that the option archive gives"
    )


def _condition(file_range: FileRange, rows: RowFilter) -> ds.Expression:
    import pyarrow.compute as pc

    # The reader skips row groups by their statistics.
    condition = (pc.field("position") >= file_range.first) & (pc.field("position") < file_range.until)
    for column, values in (("type", rows.types), ("key", rows.keys), ("position", rows.positions)):
        if values is not None:
            condition &= pc.field(column).isin(list(values))
    if rows.from_time is not None:
        condition &= pc.field("emitted_at") >= rows.from_time
    if rows.to_time is not None:
        condition &= pc.field("emitted_at") < rows.to_time
    return condition
