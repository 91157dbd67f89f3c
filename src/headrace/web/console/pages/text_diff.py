"""The lines of two texts, as a person compares them."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff

LINES_MAX = 2_000
"""Lines compared; difflib takes quadratic time at worst."""


@dataclass(frozen=True)
class DiffLine:
    """A line with `+` (new), `-` (old), `@` (a gap) or a space (both)."""

    sign: str
    text: str


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """What differs, with three lines around; empty where nothing does."""
    lines = unified_diff(before.splitlines()[:LINES_MAX], after.splitlines()[:LINES_MAX], lineterm="", n=3)
    return [DiffLine(line[0], line[1:]) for line in lines if not line.startswith(("---", "+++"))]
