"""Output: tables for people, JSON for programs.

Keys, producers, payloads and errors come from whoever publishes. Control characters in them could move the cursor of the operator's
terminal, change its title or the clipboard, and forge lines; bidirectional overrides could reorder what is read. Here they become
visible escapes."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeAlias

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Column as RichColumn, Table
from rich.text import Text

from headrace.core import encode, redact, safe_json, safe_lines

PIPE_COLUMNS = 200
"""Width of a table that is written into a pipe: wide enough that nothing is cut off."""
GAP = 3
"""Between two columns of a table."""
LONG_WORD = 24
"""A word of more letters may be broken."""
SIGNS = {
    "ok": Text("✓", style="green"),
    "info": Text("·", style="dim"),
    "warning": Text("!", style="bold yellow"),
    "problem": Text("✗", style="bold red"),
}
"""The sign of each level of a finding."""

Column: TypeAlias = str | tuple[str, str | Callable[[Any], object]]
"""A column of a table: the name of a field, or a heading with the name of a field or a function of the value."""

_encode = msgspec.json.Encoder(decimal_format="number").encode


def console(*, stderr: bool = False) -> Console:
    """A console on the current stream; tests and pipes replace the streams."""
    stream = sys.stderr if stderr else sys.stdout
    return SafeConsole(file=stream, width=None if stream.isatty() else PIPE_COLUMNS, highlight=False, emoji=False)


def progress_bar(*, hide: bool, count: Literal["percent", "numbers"] = "numbers") -> Progress:
    """A progress bar on standard error."""
    counter = MofNCompleteColumn() if count == "numbers" else TextColumn("{task.percentage:>3.0f}%")
    columns = (TextColumn("{task.description:<22}"), BarColumn(), counter, TimeElapsedColumn())
    return Progress(*columns, console=console(stderr=True), disable=hide)


def say(text: str) -> None:
    """Writes lines of our own making as they are, and flushes: a reader at the other end of a pipe may be waiting."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    sys.stderr.write(safe_lines(text) + "\n")
    sys.stderr.flush()


def json_line(value: object) -> None:
    say(to_json(value))


def first_line(text: str | None) -> str | None:
    """The first line of an error: its class and what happened."""
    return text.strip().split("\n", 1)[0] if text else None


def to_json(value: object) -> str:
    return safe_json(_encode(value).decode())


class FittingTable(Table):
    """A table that shows each row in lines of its own where the terminal is too narrow for the words of its columns."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_wide = len(self.columns) > 2 and sum(map(_column_width, self.columns)) > options.max_width
        return self._records().__rich_console__(console, options) if is_wide else super().__rich_console__(console, options)

    def _records(self) -> Table:
        records = Table(title=self.title, box=None, show_header=False, title_justify="left", pad_edge=False)
        records.add_column(style="table.header", no_wrap=True)
        records.add_column(overflow="fold")
        headings = [column.header for column in self.columns]
        for row in zip(*(column.cells for column in self.columns), strict=True):
            for heading, cell in zip(headings, row, strict=True):
                records.add_row(heading, cell)
            records.add_row()
        return records


def _column_width(column: RichColumn) -> int:
    """The width that a column needs with its gap, so that it breaks no words but very long ones."""
    words = [word for text in (column.header, *column.cells) for word in str(text).split()]
    longest = max(map(len, words), default=0)
    return GAP + (longest if column.no_wrap else min(longest, LONG_WORD))


def table(columns: Sequence[Column], values: Iterable[object], *, title: str | None = None) -> Table:
    """A table with a row for each value: an object, a mapping, or the cells themselves. Numbers are aligned to the right.

    An id is never broken: people copy it."""
    rows = [cells(columns, value) for value in values]
    result = FittingTable(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float | None) for row in rows)
        heading = re.sub(r"_(s|ms|events)$", r" (\1)", column).replace("_", " ") if isinstance(column, str) else column[0]
        result.add_column(heading, justify="right" if numeric else "left", overflow="fold", no_wrap=heading == "id")
    for row in rows:
        # Print Text, not markup: a payload may contain square brackets.
        result.add_row(*(value if isinstance(value, Text) else Text(safe_lines(format_value(value))) for value in row))
    return result


def cells(columns: Sequence[Column], value: Any) -> list[object]:
    if isinstance(value, list | tuple):
        return list(value)
    sources = [column if isinstance(column, str) else column[1] for column in columns]
    get = value.get if isinstance(value, Mapping) else partial(getattr, value)
    return [get(source) if isinstance(source, str) else source(value) for source in sources]


def format_value(value: object) -> str:
    """A value as people read it."""
    for kind, to_text in _FORMATS:
        if isinstance(value, kind):
            return to_text(value)
    return str(value)


def format_span(seconds: float) -> str:
    """A span of time in its largest unit, for narrow columns."""
    left = max(seconds, 0)
    for unit, size, limit in (("s", 1, 100), ("min", 60, 6_000), ("h", 3600, 172_800)):
        if left < limit:
            return f"{left / size:.0f} {unit}"
    return f"{left / 86_400:.0f} d"


_FORMATS: tuple[tuple[type, Callable[..., str]], ...] = (
    (type(None), lambda _: "–"),
    (bool, lambda value: "yes" if value else "no"),
    (int, lambda value: f"{value:,}".replace(",", " ")),
    (float, lambda value: f"{value:,.1f}".replace(",", " ")),
    (datetime, lambda value: value.isoformat(sep=" ", timespec="seconds")),
    (timedelta, lambda value: str(value).removesuffix(", 0:00:00")),
    (list, lambda value: ", ".join(map(format_value, value))),
    (dict, lambda value: encode(value)),
)


class SafeConsole(Console):
    """A console whose texts are safe; its own colours and cursor movements are not text and stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else safe_lines(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)


def safe_log_entry(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog: texts without control characters. Further lines are indented, so that none can be forged."""
    for name, value in entry.items():
        if isinstance(value, str):
            entry[name] = safe_lines(value).replace("\n", "\n    ")
    return entry


def redact_log_entry(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog: texts without passwords, also inside of the fields that an application adds."""
    for name, value in entry.items():
        entry[name] = _redact_value(value)
    return entry


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {name: _redact_value(part) for name, part in value.items()}
    return [_redact_value(part) for part in value] if isinstance(value, list | tuple) else value


def print_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The hook for errors that nobody caught."""
    sys.stderr.write(safe_lines(redact("".join(traceback.format_exception(kind, error, trace)))))
