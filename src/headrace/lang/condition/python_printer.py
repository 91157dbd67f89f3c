"""Tree → a Python function: nested closures, built once. Never raises; unknown is None."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, cast

from headrace.lang.condition import tree
from headrace.lang.condition.condition import Condition
from headrace.lang.condition.like import ascii_lower, ascii_upper, like_regex
from headrace.lang.condition.limits import FACTOR_SCALE, PRODUCT_SCALE, QUOTIENT_SCALE, REGEX_SUBJECT_CHARS_MAX
from headrace.lang.condition.python_fields import EXACT, NodeFunction, compile_field, round_half_up, to_bigint, to_int, to_numeric
from headrace.lang.condition.regex import RegexDialect, regex_text
from headrace.lang.condition.subject import Subject
from headrace.lang.condition.tree import Constant, Extraction, Node, Type, Value

Evaluate = Callable[[Subject], bool | None]
"""A condition as a function of an event: True, False, or None for unknown."""
Number = int | Decimal
_COMPARE: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CASTS: Final[dict[Extraction, Callable[[Number | None], Number | None]]] = {
    Extraction.INT: to_int,
    Extraction.BIGINT: to_bigint,
    Extraction.NUMERIC: to_numeric,
}


def to_python(condition: Condition) -> Evaluate:
    """The condition as a function of an event: True, False, or None for unknown."""
    return cast(Evaluate, compile_node(condition.tree))


def compile_node(node: Node) -> NodeFunction:
    """The node as a function of an event."""
    match node:
        case tree.Field():
            return compile_field(node)
        case Constant():
            value = node.value
            return lambda subject: value
        case tree.Slot():
            # The subject is then the sequence of values itself.
            return cast(NodeFunction, operator.itemgetter(node.number))
        case tree.Not():
            return _unary(compile_node(node.operand), operator.not_)
        case tree.Junction():
            return _junction(node.word == "and", [compile_node(operand) for operand in node.operands])
        case tree.Compare():
            return _compare(node)
        case tree.In():
            return _in(compile_node(node.operand), [compile_node(item) for item in node.items])
        case tree.Between():
            low, high = tree.Compare(">=", node.operand, node.low), tree.Compare("<=", node.operand, node.high)
            return _junction(True, [compile_node(low), compile_node(high)])
        case tree.Like() | tree.Match():
            return _pattern(node)
        case tree.Is():
            operand, answer = compile_node(node.operand), node.answer
            return lambda subject: operand(subject) is answer
        case tree.Arithmetic():
            return _binary(node.left, node.right, (_INTEGER if node.type is Type.INTEGER else _NUMERIC)[node.operator])
        case tree.Negate():
            return _unary(compile_node(node.operand), lambda a: -a if type(a) is int else EXACT.minus(Decimal(cast(Number, a))))
        case tree.Cast():
            return _unary(compile_node(node.operand), cast(Callable[[Value], Value | None], _CASTS[node.to]))
        case tree.Call():
            return _call(node)


def _junction(is_and: bool, functions: list[NodeFunction]) -> NodeFunction:
    decisive = not is_and

    def evaluate(subject: Subject) -> Value | None:
        result: bool | None = is_and
        for function in functions:
            value = function(subject)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return evaluate


def _compare(node: tree.Compare) -> NodeFunction:
    left = compile_node(node.left)
    if node.operator == "is distinct from":
        right = compile_node(node.right)
        return lambda subject: left(subject) != right(subject)
    test = _COMPARE[node.operator]
    if not isinstance(node.right, Constant):
        return _binary(node.left, node.right, test)
    constant = node.right.value

    def evaluate(subject: Subject) -> Value | None:
        value = left(subject)
        return None if value is None else test(value, constant)

    return evaluate


def _in(operand: NodeFunction, items: list[NodeFunction]) -> NodeFunction:
    def evaluate(subject: Subject) -> Value | None:
        value = operand(subject)
        if value is None:
            return None
        values = [function(subject) for function in items]
        if any(item is not None and item == value for item in values):
            return True
        return None if None in values else False

    return evaluate


def _pattern(node: tree.Like | tree.Match) -> NodeFunction:
    """`like` and `~` are both a regex here; only `~` has a bound on its subject."""
    chars_max: float = float("inf")
    fold = isinstance(node, tree.Like) and node.fold
    if isinstance(node, tree.Match):
        chars_max = REGEX_SUBJECT_CHARS_MAX
        text = regex_text(node.pattern, RegexDialect.PYTHON)
    else:
        text = like_regex(ascii_lower(node.pattern) if fold else node.pattern, RegexDialect.PYTHON)
    search = re.compile(text, re.DOTALL).search

    def matches(value: Value) -> bool | None:
        subject = cast(str, value)
        return None if len(subject) > chars_max else search(ascii_lower(subject) if fold else subject) is not None

    return _unary(compile_node(node.operand), matches)


def _unary(operand: NodeFunction, function: Callable[[Value], Value | None]) -> NodeFunction:
    def evaluate(subject: Subject) -> Value | None:
        value = operand(subject)
        return None if value is None else function(value)

    return evaluate


def _binary(left: Node, right: Node, function: Callable[..., Value | None]) -> NodeFunction:
    a, b = compile_node(left), compile_node(right)

    def evaluate(subject: Subject) -> Value | None:
        x, y = a(subject), b(subject)
        return None if x is None or y is None else function(x, y)

    return evaluate


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
    exact = EXACT.multiply(round_half_up(a, FACTOR_SCALE), round_half_up(b, FACTOR_SCALE))
    return to_numeric(round_half_up(exact, PRODUCT_SCALE))


def _ratio(a: Number, b: Number) -> Number | None:
    if b == 0:
        return None
    # Half away from zero at the first scale by integers, since a Context rounds to digits, not to a scale.
    x, y = (int(EXACT.scaleb(round_half_up(n, 18), 18)) for n in (a, b))
    scaled, rest = divmod(abs(x) * 10**QUOTIENT_SCALE, abs(y))
    scaled += 2 * rest >= abs(y)
    quotient = Decimal(scaled).scaleb(-QUOTIENT_SCALE, context=EXACT)
    return to_numeric(round_half_up(quotient if (x < 0) == (y < 0) else quotient.copy_negate(), PRODUCT_SCALE))


_INTEGER: Final[dict[str, Callable[..., Value | None]]] = {
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


def _call(node: tree.Call) -> NodeFunction:
    if node.name in _TEXT_FUNCTIONS:
        return _unary(compile_node(node.arguments[0]), cast(Callable[[Value], Value], _TEXT_FUNCTIONS[node.name]))
    if node.name == "abs":
        return _unary(compile_node(node.arguments[0]), lambda a: abs(a) if type(a) is int else cast(Decimal, a).copy_abs())
    if node.name == "div":
        return _binary(node.arguments[0], node.arguments[1], _quotient)
    if node.name == "starts_with":
        return _binary(node.arguments[0], node.arguments[1], str.startswith)
    functions = [compile_node(argument) for argument in node.arguments]
    return lambda subject: next((value for function in functions if (value := function(subject)) is not None), None)
