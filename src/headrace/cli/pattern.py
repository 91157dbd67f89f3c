"""ECL patterns on the command line: the text itself, or @FILE."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from typer import Argument

from headrace.core import Invalid
from headrace.lang.ecl import Pattern, PatternError, parse

PATTERN = "ECL pattern, or @FILE."
PatternText = Annotated[str, Argument(metavar="PATTERN", help=PATTERN, show_default=False)]


def register_words(captured: Mapping[str, object]) -> str:
    """What one instance keeps, without what is empty."""
    return ", ".join(f"{name} = {value}" for name, value in captured.items() if value is not None)


def read_pattern(argument: str) -> Pattern:
    """Parses a pattern; `@name` reads it from a file. Raises PatternError with line and column."""
    try:
        return parse(read_text(argument))
    except PatternError as error:
        if argument.startswith("@"):
            error.add_note(f"in {argument[1:]}")
        raise


def read_text(argument: str) -> str:
    """The text of a pattern; `@name` reads it from a file."""
    if not argument.startswith("@"):
        return argument
    path = Path(argument[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read {path}: {error}; write the pattern itself, or @ and the name of its file") from None
