"""Limits of the condition language. Every text, tree and number has one, so that no condition can stall an engine."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

TEXT_CHARS_MAX: Final = 10_000
DEPTH_MAX: Final = 50
# The canonical text may put each level in parentheses, and must still parse.
NESTING_MAX: Final = 2 * DEPTH_MAX + 10
NODES_MAX: Final = 1_000
PATH_STEPS_MAX: Final = 16
# Spark prints each such step twice: once as key, once as index.
KEY_OR_INDEX_STEPS_MAX: Final = 3

# Without -2^63 the domain is symmetric: negation, abs and division cannot overflow.
INTEGER_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1

# decimal(37, 18): a sum still fits Spark's decimal(38, 18), so no engine rounds it.
NUMERIC_BOUND: Final = Decimal(10) ** 19
NUMERIC_SCALE: Final = 18
# 19 + 2 * 10 digits: Spark multiplies with 39 digits, so a product in the domain is exact before its one rounding.
FACTOR_SCALE: Final = 10
# The scale that Spark leaves a product or quotient of wide decimals.
PRODUCT_SCALE: Final = 6
# Spark divides to this scale first; the others do the same, so that the second rounding agrees.
QUOTIENT_SCALE: Final = 39

REGEX_CHARS_MAX: Final = 500
REGEX_REPEAT_MAX: Final = 100
# Java and Python backtrack: the subject is bounded, and so is the product of a pattern's choices.
REGEX_SUBJECT_CHARS_MAX: Final = 1_000
REGEX_STEPS_MAX: Final = 10**9
REGEX_DEPTH_MAX: Final = 10
