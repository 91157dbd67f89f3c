"""Tables: described once, shown as HTML and exported as JSON or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec
from psycopg.rows import dict_row

from headrace.core import map_database_errors, safe_json, safe_lines
from headrace.db import Connection, query
from headrace.web.console.texts import cell_text, identified

Kind: TypeAlias = Literal["text", "code", "number", "seconds", "bytes", "time", "state", "payload", "spark"]
Row: TypeAlias = Mapping[str, Any]

ROWS_MAX = 500
"""Rows in a page. An export has all."""
# A spreadsheet would run a cell that starts with one of these as a formula.
_encode = msgspec.json.Encoder(decimal_format="number").encode
HEADINGS = {"lag_events": "lag", "lag_s": "behind", "retry_at": "next attempt", "duration_s": "took"}
"""Of columns that several tables have under another name than their own."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Column:
    """A column: the field of the row, how it is shown, and where it leads. Several names, separated by blanks, are several columns."""

    name: str
    label: str | None = None
    kind: Kind | None = None
    """None: it follows from the name and the values."""
    link: Callable[[Row], str | None] | None = None
    hint: str | None = None
    """What the column means, shown when the mouse rests on its heading."""
    wide: bool = False
    """Hidden on narrow screens."""

    @property
    def heading(self) -> str:
        return self.label or HEADINGS.get(self.name) or self.name.removesuffix("_at").replace("_", " ")

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "seconds", "bytes")

    def with_kind(self, rows: Sequence[Row]) -> Column:
        """The column with its kind: of a state by its name, of a number or time by the first value of the rows."""
        value = next((row[self.name] for row in rows if row.get(self.name) is not None), None)
        kind: Kind = "state" if self.name in ("state", "outcome", "level") else "text"
        if isinstance(value, datetime):
            kind = "time"
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            kind = "seconds" if self.name.endswith("_s") and not self.name.endswith("_per_s") else "number"
        return replace(self, kind=self.kind or kind)


def wide(names: str) -> Column:
    return Column(names, wide=True)


@dataclass(frozen=True)
class Table:
    """A table of a page. `name` is the one of its export."""

    name: str
    listed: Sequence[Column | str]
    """The columns; a text has the names of those of which there is nothing else to say."""
    rows: Sequence[Row]
    empty: str = ""
    """A command that fills the table."""
    empty_text: str = "Nothing here yet."
    title: str | None = None
    sort: str | None = None
    descending: bool = False
    key: Sequence[str] = ()
    """The fields that tell its rows apart, where the first column does not."""

    @cached_property
    def columns(self) -> Sequence[Column]:
        parts = [Column(part) if isinstance(part, str) else part for part in self.listed]
        return [replace(part, name=name).with_kind(self.rows) for part in parts for name in part.name.split()]

    @cached_property
    def shown_by_id(self) -> Sequence[tuple[str, Row]]:
        """The rows of the page, each with the id of its element."""
        return identified(self.visible_rows, f"row-{self.name}", *(self.key or (self.columns[0].name,)))

    @cached_property
    def visible_rows(self) -> Sequence[Row]:
        return self.rows[:ROWS_MAX]

    @property
    def left_out(self) -> int:
        return len(self.rows) - len(self.visible_rows)

    def select(self, *, search: str = "", sort: str = "", descending: bool = False) -> Table:
        """The rows that contain a text, in the order of a column."""
        rows = list(self.rows)
        if search:
            rows = [
                row for row in rows if any(search.lower() in str(row.get(column.name, "")).lower() for column in self.columns)
            ]
        if any(column.name == sort for column in self.columns):
            present = [row for row in rows if row.get(sort) is not None]
            missing = [row for row in rows if row.get(sort) is None]
            rows = sorted(present, key=lambda row: _sort_key(row[sort]), reverse=descending) + missing
        else:
            sort = ""
        return replace(self, rows=rows, sort=sort or None, descending=descending)

    def with_shards(self, several: bool) -> Table:
        """With the column `shard` in front where there are several."""
        if not several or any(column.name == "shard" for column in self.columns) or not any("shard" in row for row in self.rows):
            return self
        return replace(self, listed=("shard", *self.listed))

    def to_json(self) -> str:
        return safe_json(_encode([dict(row) for row in self.rows]).decode())

    def to_csv(self) -> str:
        names = list(dict.fromkeys(name for row in self.rows for name in row)) or [column.name for column in self.columns]
        file = io.StringIO()
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([_csv_cell(row.get(name)) for name in names] for row in self.rows)
        return file.getvalue()


def to_row(value: object) -> Row:
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    raise TypeError(f"{type(value).__name__} is no row")


def fetch_dicts(conn: Connection, statement: str, *, namespace: str, **parameters: object) -> list[Row]:
    """The rows of a statement of the console's own, by the names of their columns."""
    with map_database_errors(), conn.cursor(row_factory=dict_row) as cursor:
        return list(cursor.execute(query(f"web/console/{statement}"), {"namespace": namespace, **parameters}).fetchall())


def _sort_key(value: object) -> Any:
    return value if isinstance(value, int | float) or hasattr(value, "timestamp") else cell_text(value).lower()


def _csv_cell(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping | list | tuple):
        value = safe_json(_encode(value).decode())
    # Control characters as escapes: who prints the file in a terminal must not run them.
    text = safe_lines(value.isoformat() if hasattr(value, "isoformat") else str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text
