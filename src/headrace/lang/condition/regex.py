"""The regex subset of `~`: one pattern that means the same in PostgreSQL, Java and Python, and cannot run away.

Only true regular expressions are admitted (no back references, no lookaround), so all engines agree on whether there
is a match. Java and Python backtrack: repetition is for single characters and classes, and the product of a pattern's
choices over a subject of bounded length has a limit. `.` and `[^…]` match a line break; `^` and `$` are the ends of
the whole text; \\d \\w \\s are ASCII.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from headrace.lang.condition.limits import (
    REGEX_CHARS_MAX,
    REGEX_DEPTH_MAX,
    REGEX_REPEAT_MAX,
    REGEX_STEPS_MAX,
    REGEX_SUBJECT_CHARS_MAX,
)

REGEX_ALLOWED: Final = (
    r"characters, . [a-z] [^a-z] \d \w \s \D \W \S \n \t \r, \ before a punctuation mark, (a|b), ^ and $ at the ends, "
    "* + ? {m,n} after one character or class, ? after a group"
)


class Dialect(Enum):
    """How an engine writes the end of the text."""

    POSTGRES = "$"
    JAVA = r"\z"
    PYTHON = r"\Z"


class RegexError(Exception):
    """The pattern is outside the subset; `at` counts characters of the pattern."""

    def __init__(self, at: int, reason: str, allowed: str = REGEX_ALLOWED) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class _Chars:
    """One character out of ranges, or outside of them. No ranges and negated: any character."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    branches: tuple[_Branch, ...]


@dataclass(frozen=True, slots=True)
class _Item:
    atom: _Chars | _Group
    low: int = 1
    high: int | None = 1


@dataclass(frozen=True, slots=True)
class _Branch:
    items: tuple[_Item, ...]
    at_start: bool
    at_end: bool


_DIGIT = (("0", "9"),)
_WORD = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_SPACE = (("\t", "\r"), (" ", " "))
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


@lru_cache(maxsize=1024)
def regex_text(pattern: str, dialect: Dialect) -> str:
    """The pattern as the engine reads it; for Java and Python `.` must match line breaks (`(?s)`, DOTALL)."""
    return "|".join(_branch_text(branch, dialect) for branch in _parsed(pattern).branches)


def check_regex(pattern: str) -> None:
    """Raise RegexError where the pattern is outside the subset or its limits."""
    steps = sum(_branch_steps(b) * (1 if b.at_start else REGEX_SUBJECT_CHARS_MAX) for b in _parsed(pattern).branches)
    if steps > REGEX_STEPS_MAX:
        raise RegexError(
            0,
            f"the pattern may take {steps:.0e} steps on a text of {REGEX_SUBJECT_CHARS_MAX} characters",
            f"{REGEX_STEPS_MAX:.0e} steps: use fewer * + {{m,n}} and alternatives, or begin with ^",
        )


@lru_cache(maxsize=1024)
def _parsed(pattern: str) -> _Group:
    if len(pattern) > REGEX_CHARS_MAX:
        raise RegexError(0, f"the pattern has {len(pattern)} characters", f"{REGEX_CHARS_MAX} characters")
    return _Reader(pattern).whole()


def _branch_steps(branch: _Branch) -> int:
    steps = 1
    for item in branch.items:
        if isinstance(item.atom, _Group):
            steps *= sum(_branch_steps(inner) for inner in item.atom.branches) + (1 - item.low)
        else:
            steps *= REGEX_SUBJECT_CHARS_MAX if item.high is None else item.high - item.low + 1
    return steps


class _Reader:
    """Reads one pattern from left to right; nesting is bounded, so recursion is too."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0

    def whole(self) -> _Group:
        group = self.alternatives()
        if self.at < len(self.pattern):
            raise RegexError(self.at, "unbalanced ) in the pattern")
        return group

    def alternatives(self) -> _Group:
        branches = [self.branch()]
        while self.take("|"):
            branches.append(self.branch())
        return _Group(tuple(branches))

    def branch(self) -> _Branch:
        begin = self.at
        at_start = self.take("^")
        items: list[_Item] = []
        while self.peek() not in ("", "|", ")", "$"):
            items.append(self.item())
        at_end = self.take("$")
        if self.depth and (at_start or at_end):
            raise RegexError(begin, "^ or $ inside a group")
        if self.peek() not in ("", "|", ")"):
            raise RegexError(self.at, "$ in the middle of the pattern")
        if not items and not (at_start and at_end):
            raise RegexError(begin, "an empty alternative")
        return _Branch(tuple(items), at_start, at_end)

    def item(self) -> _Item:
        atom = self.group() if self.take("(") else self.chars()
        begin = self.at
        low, high = self.quantifier()
        if self.peek() and self.peek() in "*+?{":
            raise RegexError(self.at, "a repetition of a repetition")
        if isinstance(atom, _Group) and (low, high) not in ((1, 1), (0, 1)):
            raise RegexError(begin, "a repeated group")
        return _Item(atom, low, high)

    def group(self) -> _Group:
        self.depth += 1
        if self.depth > REGEX_DEPTH_MAX:
            raise RegexError(self.at, f"groups nested {self.depth} deep", f"{REGEX_DEPTH_MAX} deep")
        if self.take("?") and not self.take(":"):
            raise RegexError(self.at, "(? is a special group")
        inner = self.alternatives()
        if not self.take(")"):
            raise RegexError(self.at, "unbalanced ( in the pattern")
        self.depth -= 1
        return inner

    def quantifier(self) -> tuple[int, int | None]:
        for mark, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self.take(mark):
                return low, high
        return self.bound() if self.take("{") else (1, 1)

    def bound(self) -> tuple[int, int | None]:
        begin = self.at
        low = self.number()
        high: int | None = low
        if self.take(","):
            high = None if self.peek() == "}" else self.number()
        if not self.take("}") or max(low, high or 0) > REGEX_REPEAT_MAX or (high is not None and high < low):
            raise RegexError(begin, "a bound that cannot be read", f"{{m}}, {{m,}} or {{m,n}} with m <= n <= {REGEX_REPEAT_MAX}")
        return low, high

    def number(self) -> int:
        begin = self.at
        while self.peek() and self.peek() in "0123456789":
            self.at += 1
        if not 0 < self.at - begin < 5:
            raise RegexError(begin, "a bound that cannot be read", f"{{m}}, {{m,}} or {{m,n}} up to {REGEX_REPEAT_MAX}")
        return int(self.pattern[begin : self.at])

    def chars(self) -> _Chars:
        begin, char = self.at, self.next()
        if char == "[":
            return self.bracket()
        if char == ".":
            return _Chars((), negated=True)
        if char == "\\":
            return self.escape()
        if char in "^*+?{}]":
            raise RegexError(begin, f"{char} does not belong here")
        return _Chars(((char, char),))

    def escape(self) -> _Chars:
        begin, char = self.at, self.next()
        if char.lower() in _CLASSES:
            return _Chars(_CLASSES[char.lower()], negated=char.isupper())
        literal = self.literal_escape(begin, char)
        return _Chars(((literal, literal),))

    def literal_escape(self, begin: int, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if not char.isascii() or char.isalnum() or not char.isprintable() or char in "_ ":
            raise RegexError(begin, f"the escape \\{char}")
        return char

    def bracket(self) -> _Chars:
        negated = self.take("^")
        ranges: list[tuple[str, str]] = []
        while not self.take("]"):
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
                raise RegexError(begin, f"the range {low}-{high} is upside down")
            ranges.append((low, high))
        if not ranges:
            raise RegexError(self.at, "an empty class []")
        return _Chars(tuple(ranges), negated)

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

    def take(self, char: str) -> bool:
        found = self.peek() == char
        self.at += found
        return found


def escaped(char: str) -> str:
    """One literal character: ASCII marks by number, which no engine can read as syntax."""
    return char if not char.isascii() or char.isalnum() else f"\\u{ord(char):04x}"


def _branch_text(branch: _Branch, dialect: Dialect) -> str:
    inner = "".join(_item_text(item, dialect) for item in branch.items)
    return f"{'^' if branch.at_start else ''}{inner}{dialect.value if branch.at_end else ''}"


def _item_text(item: _Item, dialect: Dialect) -> str:
    if isinstance(item.atom, _Group):
        inner = "|".join(_branch_text(branch, dialect) for branch in item.atom.branches)
        return f"(?:{inner})" + ("?" if item.low == 0 else "")
    return _chars_text(item.atom) + _quantifier_text(item.low, item.high)


def _quantifier_text(low: int, high: int | None) -> str:
    if high is None:
        return {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    return "" if (low, high) == (1, 1) else f"{{{low},{high}}}"


def _chars_text(chars: _Chars) -> str:
    if not chars.ranges:
        return "."
    if len(chars.ranges) == 1 and not chars.negated and chars.ranges[0][0] == chars.ranges[0][1]:
        return escaped(chars.ranges[0][0])
    inner = "".join(escaped(a) if a == b else f"{escaped(a)}-{escaped(b)}" for a, b in chars.ranges)
    return f"[{'^' if chars.negated else ''}{inner}]"
