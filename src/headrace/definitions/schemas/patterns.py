"""Patterns of strings: which of them mean the same in JSON Schema (ECMA-262), Python and PostgreSQL, and an example for each."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from headrace.lang.condition import RegexDialect, RegexError, regex_text

_NOT_ALIKE: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:\.|\\[sS])")
r"""`.` matches a line break in conditions but not in ECMA-262, and \s has other spaces there. Other differences do not exist in
the regexes that conditions allow."""
_CHARACTERS: Final = "a0A-_ .:/@+é~!#$%&'*,;<=>?[]{}|\"\\^`()zZ9\n\t"


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
    text = _Sampler(pattern).sample()
    return text if text is not None and regex.search(text) else None


class _Sampler:
    """Reads a pattern of the common subset and writes the shortest text of its first branches."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def sample(self) -> str | None:
        text = self._branches()
        return text if self._at == len(self._pattern) else None

    def _next(self) -> str:
        return self._pattern[self._at] if self._at < len(self._pattern) else ""

    def _branches(self) -> str:
        first = self._branch()
        while self._next() == "|":
            self._at += 1
            self._branch()
        return first

    def _branch(self) -> str:
        parts: list[str] = []
        while (char := self._next()) and char not in "|)":
            piece = self._piece(char)
            parts.append(piece * self._times())
        return "".join(parts)

    def _piece(self, char: str) -> str:
        if char in "^$":
            self._at += 1
            return ""
        if char == "(":
            self._at += 1
            if self._pattern.startswith("?:", self._at):
                self._at += 2
            inner = self._branches()
            self._at += 1
            return inner
        start = self._at
        if char == "[":
            self._at += 2 if self._pattern.startswith("[^", start) else 1
            self._at += self._next() == "]"
            while self._next() not in ("]", ""):
                self._at += 2 if self._next() == "\\" else 1
            self._at += 1
        else:
            self._at += 2 if char == "\\" else 1
        if char not in "[\\":
            return char
        single = compile_pattern(f"^{self._pattern[start : self._at]}$")
        known = [chr(code) for code in range(32, 127)]
        return next((c for c in [*_CHARACTERS, *known] if single is not None and single.search(c)), "")

    def _times(self) -> int:
        char = self._next()
        if char in ("*", "?"):
            self._at += 1
            return 0
        if char == "+":
            self._at += 1
            return 1
        if char == "{" and (bounds := re.compile(r"\{(\d+)(?:,\d*)?\}").match(self._pattern, self._at)):
            self._at = bounds.end()
            return int(bounds[1])
        return 1
