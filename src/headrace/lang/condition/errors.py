"""The error of the condition language, and its limits: what is wrong, where, and what is allowed.

Every text, tree and number has a limit, so that no condition can stall an engine."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from headrace.core import Invalid

_SHOWN_CHARS = 120


class ConditionError(Invalid):
    """The text is not a condition: it does not parse, a type does not fit, or it exceeds a limit."""

    sqlstate = "HR310"

    def __init__(self, reason: str, *, line: int, column: int, excerpt: str, allowed: str) -> None:
        self.reason = reason
        self.line = line
        self.column = column
        self.allowed = allowed
        super().__init__(f"condition, line {line}, column {column}: {reason}\n{excerpt}\n{allowed}")


class Diagnostic(Exception):
    """An error at a character of the text, raised where the text itself is not at hand."""

    def __init__(self, at: int, reason: str, allowed: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason
        self.allowed = allowed


def locate_error(text: str, diagnostic: Diagnostic) -> ConditionError:
    """The diagnostic with its place in the text: line, column and a caret under the character."""
    at = min(diagnostic.at, len(text))
    line_start = text.rfind("\n", 0, at) + 1
    line_end = text.find("\n", at)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    column = at - line_start
    crop = max(0, column - _SHOWN_CHARS // 2)
    excerpt = "".join(char if char.isprintable() else "?" for char in line[crop : crop + _SHOWN_CHARS])
    return ConditionError(
        diagnostic.reason,
        line=text.count("\n", 0, at) + 1,
        column=column + 1,
        excerpt=f"  {excerpt}\n  {' ' * (column - crop)}^",
        allowed=f"allowed: {diagnostic.allowed}",
    )


TEXT_CHARS_MAX: Final = 10_000
DEPTH_MAX: Final = 50
# The canonical text may put each level in parentheses, and must still parse.
NESTING_MAX: Final = 2 * DEPTH_MAX + 10
NODES_MAX: Final = 1_000
PATH_STEPS_MAX: Final = 16
# Each such step is a key or an index: what it finds is known only when it is followed.
KEY_OR_INDEX_STEPS_MAX: Final = 3

# Without -2^63 the domain is symmetric: negation, abs and division cannot overflow.
INTEGER_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1

# decimal(37, 18): a sum still fits decimal(38, 18), the widest of Arrow and Spark, so nothing that computes there rounds it.
NUMERIC_BOUND: Final = Decimal(10) ** 19
NUMERIC_SCALE: Final = 18
# 19 + 2 * 10 digits: decimals of 39 digits hold a product in the domain exactly before its one rounding.
FACTOR_SCALE: Final = 10
# The scale that Spark SQL leaves a product or quotient of wide decimals: a column computed there is the same.
PRODUCT_SCALE: Final = 6
# Divided to this scale first, as Spark SQL does, and then rounded: both engines round twice.
QUOTIENT_SCALE: Final = 39

REGEX_CHARS_MAX: Final = 500
REGEX_REPEAT_MAX: Final = 100
# Python backtracks: the subject is bounded, and so is the product of a pattern's choices.
REGEX_SUBJECT_CHARS_MAX: Final = 1_000
REGEX_STEPS_MAX: Final = 10**9
REGEX_DEPTH_MAX: Final = 10
