"""Patterns of `like`: `%` any text, `_` one character, `\\` takes the next character as it is.

PostgreSQL gets the pattern itself. Java and Python get a regex that goes forward only: each part between two `%` is
matched once, in an atomic group, so that the time is bounded by length of text times length of pattern.
"""

from __future__ import annotations

from typing import Final

from headrace.lang.condition.regex import RegexDialect, escape_char

_ANY: Final = None
Part = tuple[str | None, ...]

_UPPER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_LOWER = {code + 32: code for code in _UPPER}


def ascii_lower(text: str) -> str:
    """Lower case of A to Z, as `lower` does under collation "C"."""
    return text.translate(_UPPER)


def ascii_upper(text: str) -> str:
    """Upper case of a to z, as `upper` does under collation "C"."""
    return text.translate(_LOWER)


def like_parts(pattern: str) -> tuple[Part, ...] | None:
    """The parts between the `%` signs, with None for `_`. None for a pattern that ends in a lone backslash."""
    parts: list[list[str | None]] = [[]]
    chars = iter(pattern)
    for char in chars:
        if char == "%":
            parts.append([])
        elif char == "_":
            parts[-1].append(_ANY)
        elif char == "\\":
            literal = next(chars, None)
            if literal is None:
                return None
            parts[-1].append(literal)
        else:
            parts[-1].append(char)
    return tuple(tuple(part) for part in parts)


def like_regex(pattern: str, dialect: RegexDialect) -> str:
    """A regex for the whole text; `.` must match line breaks."""
    parts = like_parts(pattern) or ((),)
    first, *middle, last = (_part_regex(part) for part in parts) if len(parts) > 1 else (_part_regex(parts[0]), "")
    if len(parts) == 1:
        return f"^{first}{dialect.value}"
    middle_regex = "".join(f"(?>.*?{part})" for part in middle if part)
    return f"^{first}{middle_regex}.*{last}{dialect.value}"


def _part_regex(part: Part) -> str:
    return "".join("." if char is _ANY else escape_char(char) for char in part)
