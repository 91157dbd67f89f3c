"""Reading a file of the archive, as Arrow: a range of positions, the columns wanted, the rows that pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core import NotFound

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

BATCH_ROWS = 16_384


@dataclass(frozen=True)
class FileRange:
    """A range of positions in one file: from `first` to before `until`."""

    path: str
    first: int
    until: int

    @classmethod
    def of(cls, row: Sequence[object], first: int, until: int, folder: str | None) -> FileRange:
        """From a row of queries/archive/files.sql, cut to a range."""
        begins, ends, recorded, file = row
        return cls(str(Path(folder or str(recorded)) / str(file)), max(first, int(str(begins))), min(until, int(str(ends))))


@dataclass(frozen=True)
class RowFilter:
    """Which rows pass; None lets all pass. Times are the events' own, from the first to before the second."""

    types: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None
    from_time: datetime | None = None
    to_time: datetime | None = None
    positions: tuple[int, ...] | None = None


def read_file(piece: FileRange, columns: Sequence[str], rows: RowFilter = RowFilter()) -> Iterator[pa.RecordBatch]:
    """The rows of a range that pass, in the order of positions, with the log's columns wanted. Raises NotFound."""
    for batch in _dataset(piece.path).to_batches(
        columns=list(columns), filter=_condition(piece, rows), batch_size=BATCH_ROWS, use_threads=False
    ):
        if batch.num_rows:
            yield batch


def first_at(piece: FileRange, at: datetime) -> int | None:
    """The first position of a range that was appended at a time or later."""
    import pyarrow.compute as pc

    found = _dataset(piece.path).to_table(
        columns=["position"], filter=_condition(piece, RowFilter()) & (pc.field("appended_at") >= at), use_threads=False
    )
    least = pc.min(found.column("position")).as_py()
    return None if least is None else int(least)


def _dataset(path: str) -> ds.Dataset:
    import pyarrow.dataset as ds

    try:
        return ds.dataset(path, format="parquet")
    except FileNotFoundError:
        raise NotFound(
            f"the catalog names the archive file {path}, which is not there; "
            "every process that reads needs the folder under this name, or under the one that the option archive names"
        ) from None


def _condition(piece: FileRange, rows: RowFilter) -> ds.Expression:
    import pyarrow.compute as pc

    # The statistics of the row groups let the others be passed over.
    passes = (pc.field("position") >= piece.first) & (pc.field("position") < piece.until)
    if rows.types is not None:
        passes &= pc.field("type").isin(list(rows.types))
    if rows.keys is not None:
        passes &= pc.field("key").isin(list(rows.keys))
    if rows.positions is not None:
        passes &= pc.field("position").isin(list(rows.positions))
    if rows.from_time is not None:
        passes &= pc.field("emitted_at") >= rows.from_time
    if rows.to_time is not None:
        passes &= pc.field("emitted_at") < rows.to_time
    return passes
