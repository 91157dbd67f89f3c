"""Patterns over text, `~` and `like`: each means the same in PostgreSQL and Python, and cannot run away.

Of `~` only true regular expressions are admitted (no back references, no lookaround), so all engines agree on whether there
is a match. Python backtracks: repetition is for single characters and classes, and the product of a pattern's
choices over a subject of bounded length has a limit. `.` and `[^…]` match a line break; `^` and `$` are the ends of
the whole text; \\d \\w \\s are ASCII.

In `like`, `%` is any text, `_` one character, and `\\` takes the next character as it is. PostgreSQL gets the pattern itself. Python
gets a regex that goes forward only: each part between two `%` is matched once, in an atomic group, so that the time is bounded by length
of text times length of pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from headrace.lang.condition.errors import (
    REGEX_CHARS_MAX,
    REGEX_DEPTH_MAX,
    REGEX_REPEAT_MAX,
    REGEX_STEPS_MAX,
    REGEX_SUBJECT_CHARS_MAX,
    Diagnostic,
)

REGEX_ALLOWED: Final = (
    r"characters, . [a-z] [^a-z] \d \w \s \D \W \S \n \t \r, \ before a punctuation mark, (a|b), ^ and $ at the ends, "
    "* + ? {m,n} after one character or class, ? after a group"
)


class RegexDialect(Enum):
    """How an engine writes the end of the text."""

    POSTGRES = "$"
    PYTHON = r"\Z"


class RegexError(Diagnostic):
    """The pattern is outside the subset; `at` counts characters of the pattern."""

    def __init__(self, at: int, reason: str, allowed: str = REGEX_ALLOWED) -> None:
        super().__init__(at, reason, allowed)


@dataclass(frozen=True, slots=True)
class _Branch:
    """An alternative as text that all engines read alike, how many ways there are to match it from one character on, and a short text
    that it matches."""

    text: str
    ways: int
    example: str
    at_start: bool = False
    at_end: bool = False


_DIGIT = (("0", "9"),)
_WORD = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_SPACE = (("\t", "\r"), (" ", " "))
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_USUAL = "a0A-_ .:/@+é~\n\t" + "".join(map(chr, range(32, 127)))
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}
_BOUND_ALLOWED = f"{{m}}, {{m,}} or {{m,n}} with m <= n <= {REGEX_REPEAT_MAX}"


@lru_cache(maxsize=1024)
def regex_text(pattern: str, dialect: RegexDialect) -> str:
    """The pattern as the engine reads it; for Python `.` must match line breaks (DOTALL)."""
    return "|".join(
        f"{'^' if branch.at_start else ''}{branch.text}{dialect.value if branch.at_end else ''}" for branch in _parse(pattern)
    )


def check_regex(pattern: str) -> None:
    """Raises RegexError for a pattern outside of the subset or its limits."""
    steps = sum(branch.ways * (1 if branch.at_start else REGEX_SUBJECT_CHARS_MAX) for branch in _parse(pattern))
    if steps > REGEX_STEPS_MAX:
        raise RegexError(
            0,
            f"the pattern may take {steps:.0e} steps on a text of {REGEX_SUBJECT_CHARS_MAX} characters",
            f"{REGEX_STEPS_MAX:.0e} steps: use fewer * + {{m,n}} and alternatives, or begin with ^",
        )


def regex_example(pattern: str) -> str:
    """A short text in which the pattern occurs."""
    return _parse(pattern)[0].example


@lru_cache(maxsize=1024)
def _parse(pattern: str) -> tuple[_Branch, ...]:
    if len(pattern) > REGEX_CHARS_MAX:
        raise RegexError(0, f"the pattern has {len(pattern)} characters", f"{REGEX_CHARS_MAX} characters")
    parser = _RegexParser(pattern)
    branches = parser.alternatives()
    if parser.at < len(pattern):
        raise RegexError(parser.at, "unbalanced ) in the pattern")
    return branches


class _RegexParser:
    """Translates a pattern from left to right; nesting is bounded, so recursion is too."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0

    def alternatives(self) -> tuple[_Branch, ...]:
        branches = [self.branch()]
        while self.accept("|"):
            branches.append(self.branch())
        return tuple(branches)

    def branch(self) -> _Branch:
        begin = self.at
        at_start = self.accept("^")
        text, ways, example = "", 1, ""
        while self.peek() not in ("", "|", ")", "$"):
            item = self.item()
            text += item.text
            ways *= item.ways
            example += item.example
        at_end = self.accept("$")
        if self.depth and (at_start or at_end):
            raise RegexError(begin, "^ or $ inside a group")
        if self.peek() not in ("", "|", ")"):
            raise RegexError(self.at, "$ in the middle of the pattern")
        if not text and not (at_start and at_end):
            raise RegexError(begin, "an empty alternative")
        return _Branch(text, ways, example, at_start, at_end)

    def item(self) -> _Branch:
        """A group or a class of characters, with its quantifier."""
        branches = self.group() if self.accept("(") else None
        text = "" if branches else self.chars()
        begin = self.at
        low, high = self.quantifier()
        if self.peek() and self.peek() in "*+?{":
            raise RegexError(self.at, "a repetition of a repetition")
        if branches is None:
            ways = REGEX_SUBJECT_CHARS_MAX if high is None else high - low + 1
            return _Branch(text + _quantifier_text(low, high), ways, _example_char(text) * low)
        if (low, high) not in ((1, 1), (0, 1)):
            raise RegexError(begin, "a repeated group")
        text = f"(?:{'|'.join(branch.text for branch in branches)})"
        ways = sum(branch.ways for branch in branches) + (1 - low)
        return _Branch(text + ("?" if low == 0 else ""), ways, branches[0].example * low)

    def group(self) -> tuple[_Branch, ...]:
        self.depth += 1
        if self.depth > REGEX_DEPTH_MAX:
            raise RegexError(self.at, f"groups nested {self.depth} deep", f"{REGEX_DEPTH_MAX} deep")
        if self.accept("?") and not self.accept(":"):
            raise RegexError(self.at, "(? is a special group")
        branches = self.alternatives()
        if not self.accept(")"):
            raise RegexError(self.at, "unbalanced ( in the pattern")
        self.depth -= 1
        return branches

    def quantifier(self) -> tuple[int, int | None]:
        for mark, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self.accept(mark):
                return low, high
        return self.counts() if self.accept("{") else (1, 1)

    def counts(self) -> tuple[int, int | None]:
        begin = self.at
        low = self.number()
        high: int | None = low
        if self.accept(","):
            high = None if self.peek() == "}" else self.number()
        if not self.accept("}") or max(low, high or 0) > REGEX_REPEAT_MAX or (high is not None and high < low):
            raise RegexError(begin, "a bound that cannot be read", _BOUND_ALLOWED)
        return low, high

    def number(self) -> int:
        begin = self.at
        while self.peek() and self.peek() in "0123456789":
            self.at += 1
        if not 0 < self.at - begin < 5:
            raise RegexError(begin, "a bound that cannot be read", _BOUND_ALLOWED)
        return int(self.pattern[begin : self.at])

    def chars(self) -> str:
        """One character: any, out of a class, or itself."""
        begin, char = self.at, self.next()
        if char == "[":
            return self.bracket()
        if char == ".":
            return "."
        if char == "\\":
            return self.escape()
        if char in "^*+?{}]":
            raise RegexError(begin, f"{char} does not belong here")
        return escape_char(char)

    def escape(self) -> str:
        begin, char = self.at, self.next()
        if char.lower() in _CLASSES:
            return _class_text(_CLASSES[char.lower()], negated=char.isupper())
        return escape_char(self.literal_escape(begin, char))

    def literal_escape(self, begin: int, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if not char.isascii() or char.isalnum() or not char.isprintable() or char in "_ ":
            raise RegexError(begin, f"the escape \\{char}")
        return char

    def bracket(self) -> str:
        negated = self.accept("^")
        ranges: list[tuple[str, str]] = []
        while not self.accept("]"):
            begin, low = self.at, self.next()
            if low == "\\" and self.peek() in _CLASSES and self.peek():
                ranges.extend(_CLASSES[self.next()])
                continue
            low = self.bracket_char(begin, low)
            high = low
            if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                high = self.bracket_char(self.at, self.next())
            if high < low:
                raise RegexError(begin, f"the range {low}-{high} is in reverse order")
            ranges.append((low, high))
        if not ranges:
            raise RegexError(self.at, "an empty class []")
        return _class_text(ranges, negated=negated)

    def bracket_char(self, begin: int, char: str) -> str:
        if char == "[":
            raise RegexError(begin, "[ inside a class", r"\[ inside a class; named classes such as [:alpha:] are not")
        return self.literal_escape(self.at, self.next()) if char == "\\" else char

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def next(self) -> str:
        char = self.peek()
        if not char:
            raise RegexError(self.at, "the pattern ends too early")
        self.at += 1
        return char

    def accept(self, char: str) -> bool:
        accepted = self.peek() == char
        self.at += accepted
        return accepted


def escape_char(char: str) -> str:
    """One literal character: ASCII marks by number, which no engine can read as syntax."""
    return char if not char.isascii() or char.isalnum() else f"\\u{ord(char):04x}"


def _example_char(text: str) -> str:
    """A character that the text of one character or class matches, a usual one if there is one."""
    if text.startswith("\\u"):
        return chr(int(text[2:], 16))
    return next((char for char in _USUAL if re.fullmatch(text, char)), "") if text.startswith(("[", ".")) else text


def _quantifier_text(low: int, high: int | None) -> str:
    if high is None:
        return {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    return "" if (low, high) == (1, 1) else f"{{{low},{high}}}"


def _class_text(ranges: Sequence[tuple[str, str]], *, negated: bool) -> str:
    inner = "".join(escape_char(a) if a == b else f"{escape_char(a)}-{escape_char(b)}" for a, b in ranges)
    return f"[{'^' if negated else ''}{inner}]"


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


def like_regex(pattern: str) -> str:
    """A regex of Python for the whole text; `.` must match line breaks."""
    parts = like_parts(pattern) or ((),)
    first, *middle, last = (_part_regex(part) for part in parts) if len(parts) > 1 else (_part_regex(parts[0]), "")
    if len(parts) == 1:
        return rf"^{first}\Z"
    middle_regex = "".join(f"(?>.*?{part})" for part in middle if part)
    return rf"^{first}{middle_regex}.*{last}\Z"


def _part_regex(part: Part) -> str:
    return "".join("." if char is _ANY else escape_char(char) for char in part)
