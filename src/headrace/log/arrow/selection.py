"""Selection: which columns and rows of a log are read, in the log's own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core import STORED_COLUMNS, Invalid
from headrace.log.archive import RowFilter, file_schema

if TYPE_CHECKING:
    import pyarrow as pa

READ_COLUMNS = tuple(column.name for column in STORED_COLUMNS)
"""The columns of an event in log and archive, in the order of a read without `columns`."""
PLACE_COLUMNS = ("topic", "shard")
"""Columns with one value for a log: nothing reads them."""
ALL_ROWS = RowFilter()


@dataclass(frozen=True)
class Extract:
    """A column from the payload: the text that `#>>` gives, or with `as_json` the value's JSON text, so that "5" and 5 differ."""

    name: str
    path: tuple[str, ...]
    as_json: bool = False

    @classmethod
    def from_path(cls, name: str, path: str | Sequence[str], *, as_json: bool = False) -> Extract:
        """From a path such as `customer.city` or `["customer", "city"]`. Raises Invalid for an empty one."""
        steps = tuple(path.removeprefix("$.").split(".")) if isinstance(path, str) else tuple(path)
        if not steps or not all(steps):
            raise Invalid(f"extract has no path for {name!r}")
        return cls(name, steps, as_json)


@dataclass(frozen=True)
class Selection:
    """The columns to read, of READ_COLUMNS, and the rows: those that pass the filter and for which the condition is true."""

    columns: tuple[str, ...]
    extracts: tuple[Extract, ...] = ()
    rows: RowFilter = ALL_ROWS
    where: str | None = None
    """A condition of the rules' language."""

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The same, but at least one: a read of no column still counts rows."""
        return self.columns if self.columns or self.extracts else ("position",)


def table_schema(columns: Sequence[str], extracts: Sequence[Extract] = ()) -> pa.Schema:
    """The Arrow schema of a read: the types of the archive's files; extracted columns are text. Raises Invalid for other columns."""
    import pyarrow as pa

    known = {field.name: field for field in file_schema()} | {
        name: pa.field(name, pa.string(), nullable=False) for name in PLACE_COLUMNS
    }
    if unknown := [name for name in columns if name not in known]:
        raise Invalid(f"events have no column {', '.join(unknown)}; they have {', '.join((*READ_COLUMNS, *PLACE_COLUMNS))}")
    if clashes := [extract.name for extract in extracts if extract.name in known]:
        raise Invalid(f"extract names {', '.join(clashes)}, which events have already; choose another name")
    names = [*columns, *(extract.name for extract in extracts)]
    if len(set(names)) < len(names):
        raise Invalid(f"a column is named twice: {', '.join(names)}")
    return pa.schema([*(known[name] for name in columns), *(pa.field(extract.name, pa.string()) for extract in extracts)])
