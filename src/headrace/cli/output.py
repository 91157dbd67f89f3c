"""What comes back: tables for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_COLUMNS = 200
"""Width of a table that goes into a pipe: wide enough that nothing is cut off."""

_encode = msgspec.json.Encoder(decimal_format="number").encode


def console(*, stderr: bool = False) -> Console:
    """A console on the stream as it is now; tests and pipes change it."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else PIPE_COLUMNS, highlight=False)


def say(text: str) -> None:
    """One line of result, as it is, and at once: a reader at the other end of a pipe is waiting."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """One line beside the result."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def json_line(value: object) -> None:
    """One JSON document on one line."""
    say(to_json(value))


def to_json(value: object) -> str:
    return _encode(value).decode()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """A table of values; numbers stand on the right."""
    listed = [list(row) for row in rows]
    made = Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(row[index], int | float | None) for row in listed)
        made.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        # As Text, not as markup: a payload may have square brackets.
        made.add_row(*(value if isinstance(value, Text) else Text(shown(value)) for value in row))
    return made


def shown(value: object) -> str:
    """A value as people read it."""
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return form(value)
    return str(value)


_FORMS: tuple[tuple[type, Callable[..., str]], ...] = (
    (type(None), lambda _: "–"),
    (bool, lambda value: "yes" if value else "no"),
    (int, lambda value: f"{value:,}".replace(",", " ")),
    (float, lambda value: f"{value:,.1f}".replace(",", " ")),
    (datetime, lambda value: value.isoformat(sep=" ", timespec="seconds")),
    (timedelta, lambda value: str(value).removesuffix(", 0:00:00")),
)
