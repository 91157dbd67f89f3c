"""Patterns of strings: which of them mean the same in JSON Schema (ECMA-262), Python and PostgreSQL, and an example for each."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from headrace.lang.condition import RegexDialect, RegexError, regex_example, regex_text

_NOT_ALIKE: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:\.|\\[sS])")
r"""`.` matches a line break in conditions but not in ECMA-262, and \s has other spaces there. Other differences do not exist in
the regexes that conditions allow."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str] | None:
    """The pattern in Python; None if it may mean something else in another engine."""
    text = _common_text(pattern, RegexDialect.PYTHON)
    return None if text is None else re.compile(text, re.DOTALL)


def postgres_pattern(pattern: str) -> str | None:
    """The pattern in PostgreSQL; None if it may mean something else there."""
    return _common_text(pattern, RegexDialect.POSTGRES)


def _common_text(pattern: str, dialect: RegexDialect) -> str | None:
    if _NOT_ALIKE.search(pattern):
        return None
    try:
        return regex_text(pattern, dialect)
    except RegexError:
        return None


@lru_cache(maxsize=256)
def example_of_pattern(pattern: str) -> str | None:
    """A short text in which the pattern occurs; None if we find none."""
    regex = compile_pattern(pattern)
    if regex is None:
        return None
    text = regex_example(pattern)
    return text if regex.search(text) else None
