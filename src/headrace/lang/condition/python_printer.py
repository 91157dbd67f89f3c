"""Tree → a Python function: nested closures, built once. Fields → functions that extract a value from an event.

Promises: they never raise; unknown is None."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final, cast

from headrace.lang.condition import tree
from headrace.lang.condition.condition import Condition
from headrace.lang.condition.errors import (
    FACTOR_SCALE,
    INT_MAX,
    INT_MIN,
    INTEGER_MAX,
    NUMERIC_BOUND,
    NUMERIC_SCALE,
    PRODUCT_SCALE,
    QUOTIENT_SCALE,
    REGEX_SUBJECT_CHARS_MAX,
)
from headrace.lang.condition.postgres_printer import FALSE_TEXTS, INTEGER_TEXT, NUMERIC_TEXT, TRUE_TEXTS
from headrace.lang.condition.subject import Json, Subject, decimal_of, jsonb_text, micros_of, micros_of_text
from headrace.lang.condition.text_patterns import RegexDialect, ascii_lower, ascii_upper, like_regex, regex_text
from headrace.lang.condition.tree import Constant, Extraction, Field, KeyOrIndex, Node, Step, Type, Value

NodeFunction = Callable[[Subject], "Value | None"]


class _Missing:
    """The path leads to nothing. A JSON null is None."""


_MISSING: Final = _Missing()
_JsonValue = Json | Mapping[str, Json] | _Missing
# Wide enough for every digit that jsonb can hold, so that nothing is rounded by accident.
EXACT: Final = Context(prec=40_000, rounding=ROUND_HALF_UP)
_QUANTA: Final = {scale: Decimal(1).scaleb(-scale) for scale in range(40)}
_INTEGER_TEXT = re.compile(INTEGER_TEXT.replace("$", r"\Z"))
_NUMERIC_TEXT = re.compile(NUMERIC_TEXT.replace("$", r"\Z"))
_TRUTH = {**dict.fromkeys(TRUE_TEXTS, True), **dict.fromkeys(FALSE_TEXTS, False)}


def compile_field(field: Field) -> NodeFunction:
    """A function from the event to the field's value."""
    if field.extraction is Extraction.COLUMN:
        return lambda subject: micros_of(subject.emitted_at)
    if field.root in ("type", "key"):
        return _compile_column(field)
    find = _compile_path(field.root, field.path)
    if field.extraction is Extraction.HAS_KEY:
        key = field.key or ""
        return lambda subject: _has(find(subject), key)
    extract = _EXTRACTIONS[field.extraction]
    return lambda subject: extract(find(subject))


def _compile_column(field: Field) -> NodeFunction:
    name = field.root
    if field.extraction is Extraction.TEXT:
        return (lambda subject: subject.type) if name == "type" else (lambda subject: subject.key)
    convert = _TEXT_CASTS[field.extraction]

    def read(subject: Subject) -> Value | None:
        text = subject.type if name == "type" else subject.key
        return None if text is None else convert(text)

    return read


def _compile_path(root: str, path: tuple[Step, ...]) -> Callable[[Subject], _JsonValue]:
    if root == "headers":
        return lambda subject: _follow(subject.headers, path)
    if len(path) == 1 and isinstance(path[0], str):
        key = path[0]

        def top(subject: Subject) -> _JsonValue:
            payload = subject.payload
            return payload.get(key, _MISSING) if type(payload) is dict else _MISSING

        return top
    return lambda subject: _follow(subject.payload, path)


def _follow(value: _JsonValue, path: tuple[Step, ...]) -> _JsonValue:
    for step in path:
        if isinstance(value, list):
            index = step.number if isinstance(step, KeyOrIndex) else step
            if type(index) is not int or not -len(value) <= index < len(value):
                return _MISSING
            value = value[index]
        elif isinstance(value, Mapping):
            key = str(step.number) if isinstance(step, KeyOrIndex) else step
            if type(key) is not str or key not in value:
                return _MISSING
            value = value[key]
        else:
            return _MISSING
    return value


def _text(value: _JsonValue) -> str | None:
    if type(value) is str:
        return value
    if value is None or isinstance(value, _Missing):
        return None
    return jsonb_text(dict(value) if isinstance(value, Mapping) else value)


def _number(value: _JsonValue) -> int | Decimal | None:
    if type(value) is int or type(value) is Decimal:
        return value
    return decimal_of(value) if type(value) is float else None


def round_half_up(value: int | Decimal, scale: int) -> Decimal:
    """Half away from zero, as PostgreSQL rounds numerics."""
    return Decimal(value).quantize(_QUANTA[scale], context=EXACT)


def to_int(value: int | Decimal | None) -> int | None:
    """`::int` of a number."""
    integer = _round_to_int(value)
    return integer if integer is not None and INT_MIN <= integer <= INT_MAX else None


def to_bigint(value: int | Decimal | None) -> int | None:
    """`::bigint` of a number, and the bound of all integer arithmetic."""
    integer = _round_to_int(value)
    return integer if integer is not None and -INTEGER_MAX <= integer <= INTEGER_MAX else None


def _round_to_int(value: int | Decimal | None) -> int | None:
    if type(value) is Decimal:
        # Do not write out a number far outside as an integer first.
        return int(round_half_up(value, 0)) if abs(value) < NUMERIC_BOUND else None
    return value if type(value) is int else None


def to_numeric(value: int | Decimal | None) -> Decimal | int | None:
    """`::numeric` of a number, and the bound of all numeric arithmetic."""
    if value is None or not -NUMERIC_BOUND < value < NUMERIC_BOUND:
        return None
    if type(value) is int:
        return value
    rounded = round_half_up(value, NUMERIC_SCALE)
    return rounded if -NUMERIC_BOUND < rounded < NUMERIC_BOUND else None


def _typeof(value: _JsonValue) -> str | None:
    match value:
        case _Missing():
            return None
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case int() | float() | Decimal():
            return "number"
    return "object"


def _has(value: _JsonValue, key: str) -> bool | None:
    if isinstance(value, _Missing):
        return None
    if isinstance(value, list):
        return any(type(item) is str and item == key for item in value)
    return key in value if isinstance(value, Mapping) else type(value) is str and value == key


def _text_number(text: str, pattern: re.Pattern[str]) -> Decimal | None:
    return Decimal(text) if pattern.match(text) else None


_TEXT_CASTS: Final[Mapping[Extraction, Callable[[str], Value | None]]] = {
    Extraction.TEXT_INT: lambda text: to_int(_text_number(text, _INTEGER_TEXT)),
    Extraction.TEXT_BIGINT: lambda text: to_bigint(_text_number(text, _INTEGER_TEXT)),
    Extraction.TEXT_NUMERIC: lambda text: to_numeric(_text_number(text, _NUMERIC_TEXT)),
    Extraction.TEXT_BOOLEAN: lambda text: _TRUTH.get(ascii_lower(text)),
    Extraction.TEXT_TIMESTAMPTZ: micros_of_text,
}


def _text_cast(convert: Callable[[str], Value | None]) -> Callable[[_JsonValue], Value | None]:
    def extract(value: _JsonValue) -> Value | None:
        text = _text(value)
        return None if text is None else convert(text)

    return extract


_EXTRACTIONS: Final[Mapping[Extraction, Callable[[_JsonValue], Value | None]]] = {
    Extraction.TEXT: _text,
    Extraction.INT: lambda value: to_int(_number(value)),
    Extraction.BIGINT: lambda value: to_bigint(_number(value)),
    Extraction.NUMERIC: lambda value: to_numeric(_number(value)),
    Extraction.BOOLEAN: lambda value: value if type(value) is bool else None,
    Extraction.TYPEOF: _typeof,
    Extraction.ARRAY_LENGTH: lambda value: len(value) if isinstance(value, list) else None,
    **{extraction: _text_cast(convert) for extraction, convert in _TEXT_CASTS.items()},
}


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
        text = like_regex(ascii_lower(node.pattern) if fold else node.pattern)
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
