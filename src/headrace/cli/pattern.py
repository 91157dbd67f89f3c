"""A pattern on the command line: its text, or the file it is in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.core import Invalid
from headrace.lang.ecl import Pattern, PatternError, parse

PatternText = Annotated[str, typer.Argument(metavar="PATTERN", help="ECL, or @FILE.", show_default=False)]


def read_pattern(given: str) -> Pattern:
    """The pattern; `@name` reads it from a file. Raises PatternError with its place."""
    try:
        return parse(read_text(given))
    except PatternError as error:
        if given.startswith("@"):
            error.add_note(f"in {given[1:]}")
        raise


def read_text(given: str) -> str:
    """The text of a pattern; `@name` reads it from a file."""
    if not given.startswith("@"):
        return given
    path = Path(given[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {error}; write the pattern itself, or @ and the name of its file") from None
