"""Tree → a Python function: nested closures, built once. Never raises; unknown is None."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, cast

from headrace.lang.condition.condition import Condition
from headrace.lang.condition.like import ascii_lower, ascii_upper, like_regex
from headrace.lang.condition.limits import FACTOR_SCALE, PRODUCT_SCALE, QUOTIENT_SCALE, REGEX_SUBJECT_CHARS_MAX
from headrace.lang.condition.python_fields import EXACT, Read, reader_of, rounded, to_bigint, to_int, to_numeric
from headrace.lang.condition.regex import Dialect, regex_text
from headrace.lang.condition.subject import Subject
from headrace.lang.condition.tree import (
    Arithmetic,
    Between,
    Call,
    Cast,
    Compare,
    Constant,
    Field,
    In,
    Is,
    Junction,
    Like,
    Match,
    Negate,
    Node,
    Not,
    Take,
    Type,
    Value,
)

Evaluate = Callable[[Subject], bool | None]
Number = int | Decimal
_COMPARE: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CASTS: Final[dict[Take, Callable[[Number | None], Number | None]]] = {
    Take.INT: to_int,
    Take.BIGINT: to_bigint,
    Take.NUMERIC: to_numeric,
}


def to_python(condition: Condition) -> Evaluate:
    """The condition as a function of an event: True, False, or None for unknown."""
    return cast(Evaluate, compiled(condition.tree))


def compiled(node: Node) -> Read:
    """The node as a function of an event."""
    match node:
        case Field():
            return reader_of(node)
        case Constant():
            value = node.value
            return lambda subject: value
        case Not():
            return _not(compiled(node.operand))
        case Junction():
            return _junction(node.word == "and", [compiled(operand) for operand in node.operands])
        case Compare():
            return _compare(node)
        case In():
            return _in(compiled(node.operand), [compiled(item) for item in node.items])
        case Between():
            low, high = Compare(">=", node.operand, node.low), Compare("<=", node.operand, node.high)
            return _junction(True, [compiled(low), compiled(high)])
        case Like() | Match():
            return _pattern(node)
        case Is():
            return _is(compiled(node.operand), node.answer)
        case Arithmetic():
            return _binary(node.left, node.right, _arithmetic(node))
        case Negate():
            return _unary(compiled(node.operand), lambda a: -a if type(a) is int else EXACT.minus(Decimal(cast(Number, a))))
        case Cast():
            return _unary(compiled(node.operand), cast(Callable[[Value], Value | None], _CASTS[node.to]))
        case Call():
            return _call(node)


def _not(inner: Read) -> Read:
    def negated(subject: Subject) -> Value | None:
        value = inner(subject)
        return None if value is None else not value

    return negated


def _junction(is_and: bool, inner: list[Read]) -> Read:
    decisive = not is_and
    reads = tuple(inner)

    def joined(subject: Subject) -> Value | None:
        result: bool | None = is_and
        for read in reads:
            value = read(subject)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return joined


def _compare(node: Compare) -> Read:
    left, right = compiled(node.left), compiled(node.right)
    if node.operator == "is distinct from":
        return lambda subject: left(subject) != right(subject)
    test = _COMPARE[node.operator]
    if isinstance(node.right, Constant):
        constant = node.right.value

        def against(subject: Subject) -> Value | None:
            value = left(subject)
            return None if value is None else test(value, constant)

        return against

    def compared(subject: Subject) -> Value | None:
        a, b = left(subject), right(subject)
        return None if a is None or b is None else test(a, b)

    return compared


def _in(operand: Read, items: list[Read]) -> Read:
    def member(subject: Subject) -> Value | None:
        value = operand(subject)
        if value is None:
            return None
        values = [item(subject) for item in items]
        if any(found is not None and found == value for found in values):
            return True
        return None if None in values else False

    return member


def _is(operand: Read, answer: bool | None) -> Read:
    return lambda subject: operand(subject) is answer


def _pattern(node: Like | Match) -> Read:
    """Both kinds of pattern are a regex here; only `~` has a bound on its subject."""
    longest: float = float("inf")
    fold = isinstance(node, Like) and node.fold
    if isinstance(node, Match):
        longest = REGEX_SUBJECT_CHARS_MAX
        text = regex_text(node.pattern, Dialect.PYTHON)
    else:
        text = like_regex(ascii_lower(node.pattern) if fold else node.pattern, Dialect.PYTHON)
    search = re.compile(text, re.DOTALL).search

    def matches(value: Value) -> bool | None:
        subject = cast(str, value)
        return None if len(subject) > longest else search(ascii_lower(subject) if fold else subject) is not None

    return _unary(compiled(node.operand), matches)


def _unary(operand: Read, function: Callable[[Value], Value | None]) -> Read:
    def applied(subject: Subject) -> Value | None:
        value = operand(subject)
        return None if value is None else function(value)

    return applied


def _binary(left: Node, right: Node, function: Callable[..., Value | None]) -> Read:
    a, b = compiled(left), compiled(right)

    def applied(subject: Subject) -> Value | None:
        x, y = a(subject), b(subject)
        return None if x is None or y is None else function(x, y)

    return applied


def _arithmetic(node: Arithmetic) -> Callable[..., Value | None]:
    return (_WHOLE if node.type is Type.INTEGER else _NUMERIC)[node.operator]


def _quotient(a: int, b: int) -> int | None:
    """Towards zero, as SQL divides integers."""
    if b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int | None:
    """With the sign of the dividend."""
    if b == 0:
        return None
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _product(a: Number, b: Number) -> Number | None:
    exact = EXACT.multiply(rounded(a, FACTOR_SCALE), rounded(b, FACTOR_SCALE))
    return to_numeric(rounded(exact, PRODUCT_SCALE))


def _ratio(a: Number, b: Number) -> Number | None:
    if b == 0:
        return None
    # Half away from zero at the first scale by integers, since a Context rounds to digits, not to a scale.
    x, y = (int(EXACT.scaleb(rounded(n, 18), 18)) for n in (a, b))
    scaled, rest = divmod(abs(x) * 10**QUOTIENT_SCALE, abs(y))
    scaled += 2 * rest >= abs(y)
    quotient = Decimal(scaled).scaleb(-QUOTIENT_SCALE, context=EXACT)
    return to_numeric(rounded(quotient if (x < 0) == (y < 0) else quotient.copy_negate(), PRODUCT_SCALE))


_WHOLE: Final[dict[str, Callable[..., Value | None]]] = {
    "+": lambda a, b: to_bigint(a + b),
    "-": lambda a, b: to_bigint(a - b),
    "*": lambda a, b: to_bigint(a * b),
    "/": _quotient,
    "%": _remainder,
}
_NUMERIC: Final[dict[str, Callable[..., Value | None]]] = {
    "+": lambda a, b: to_numeric(EXACT.add(a, b)),
    "-": lambda a, b: to_numeric(EXACT.subtract(a, b)),
    "*": _product,
    "/": _ratio,
    "%": lambda a, b: None if b == 0 else EXACT.remainder(a, b),
}
_TEXT_FUNCTIONS: Final[dict[str, Callable[[str], Value]]] = {"lower": ascii_lower, "upper": ascii_upper, "length": len}


def _call(node: Call) -> Read:
    if node.name in _TEXT_FUNCTIONS:
        return _unary(compiled(node.arguments[0]), cast(Callable[[Value], Value], _TEXT_FUNCTIONS[node.name]))
    if node.name == "abs":
        return _unary(compiled(node.arguments[0]), lambda a: abs(a) if type(a) is int else cast(Decimal, a).copy_abs())
    if node.name == "div":
        return _binary(node.arguments[0], node.arguments[1], _quotient)
    if node.name == "starts_with":
        return _binary(node.arguments[0], node.arguments[1], str.startswith)
    return _coalesce([compiled(argument) for argument in node.arguments])


def _coalesce(reads: list[Read]) -> Read:
    def first(subject: Subject) -> Value | None:
        for read in reads:
            value = read(subject)
            if value is not None:
                return value
        return None

    return first
