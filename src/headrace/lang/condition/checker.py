"""Type checker: builds typed nodes from parsed operands. All rules about types, casts, patterns and numbers are here.

An operand is a node, or a path into JSON from which nothing is extracted yet (`object -> 'x'`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

from headrace.lang.condition.errors import INTEGER_MAX, KEY_OR_INDEX_STEPS_MAX, NUMERIC_SCALE, PATH_STEPS_MAX, Diagnostic
from headrace.lang.condition.subject import micros_of_text, moment_of
from headrace.lang.condition.text_patterns import RegexError, check_regex, like_parts
from headrace.lang.condition.tree import (
    Arithmetic,
    Call,
    Cast,
    Compare,
    Constant,
    Extraction,
    Field,
    KeyOrIndex,
    Like,
    Match,
    Negate,
    Node,
    Step,
    Type,
)


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path into JSON: `object`, `headers -> 'a'`. Not a value yet."""

    root: str
    steps: tuple[Step, ...]
    places: tuple[int, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Operand:
    """A parsed operand and where it starts in the text."""

    value: Node | JsonPath
    at: int


_CASTS: Final = ("int", "bigint", "numeric", "boolean", "text", "timestamptz")
_CAST_ALIASES: Final = {"integer": "int", "int4": "int", "int8": "bigint", "decimal": "numeric", "bool": "boolean"}
CASTS_ALLOWED: Final = f"casts to {', '.join(_CASTS)}"
_JSON_CASTS = {cast.sql: cast for cast in (Extraction.INT, Extraction.BIGINT, Extraction.NUMERIC, Extraction.BOOLEAN)}
_TEXT_CASTS = {extraction.cast: extraction for extraction in Extraction if extraction.is_from_text}
_INTEGER_DIGITS = 19
_NUMBER_ALLOWED = f"integers up to {INTEGER_MAX}, decimals below 10^19 with at most {NUMERIC_SCALE} digits after the point"
_JSON_HINT = "->> for its text, ::int ::bigint ::numeric ::boolean for its value, is null, ?, jsonb_typeof, jsonb_array_length"


def type_name(value: Node | JsonPath) -> str:
    """The type for messages."""
    return "json" if isinstance(value, JsonPath) else value.type.value


def value_node(operand: Operand) -> Node:
    """The operand as a value. Rejects bare JSON."""
    if isinstance(operand.value, JsonPath):
        raise Diagnostic(operand.at, "a JSON value cannot be used as it is", _JSON_HINT)
    return operand.value


def require_type(operand: Operand, wanted: Type, role: str) -> Node:
    """The operand, which must have the type."""
    node = value_node(operand)
    if node.type is not wanted:
        raise Diagnostic(operand.at, f"{role} is {type_name(node)}, not {wanted.value}", f"a {wanted.value} value here")
    return node


def number_constant(text: str, at: int) -> Constant:
    """An integer without a point, a numeric with one."""
    whole, point, fraction = text.partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    if len(whole) > _INTEGER_DIGITS or len(fraction) > NUMERIC_SCALE or (not point and int(whole or 0) > INTEGER_MAX):
        raise Diagnostic(at, f"the number {text[:40]} is too large or too fine", _NUMBER_ALLOWED)
    if not point:
        return Constant(int(whole or 0), Type.INTEGER, at)
    return Constant(Decimal(f"{whole or 0}.{fraction}"), Type.NUMERIC, at)


def extend_path(operand: Operand, step: Operand, operator: str) -> Operand:
    """`->`, `->>`, `#>`, `#>>` from a JSON path."""
    if not isinstance(operand.value, JsonPath):
        reason = f"{operator} needs JSON on its left, not {type_name(operand.value)}"
        raise Diagnostic(operand.at, reason, "object or headers, then -> steps")
    steps = _steps(step, operator)
    path = JsonPath(operand.value.root, operand.value.steps + steps, operand.value.places + (step.at,) * len(steps))
    if len(path.steps) > PATH_STEPS_MAX:
        raise Diagnostic(step.at, f"a path of {len(path.steps)} steps", f"{PATH_STEPS_MAX} steps")
    if sum(isinstance(s, KeyOrIndex) for s in path.steps) > KEY_OR_INDEX_STEPS_MAX:
        raise Diagnostic(
            step.at, "too many numbers in #> paths", f"{KEY_OR_INDEX_STEPS_MAX} numbers; -> 0 and -> 'key' without limit"
        )
    if operator in ("->>", "#>>"):
        return Operand(_field(path, Extraction.TEXT), operand.at)
    return Operand(path, operand.at)


def _field(path: JsonPath, extraction: Extraction) -> Field:
    return Field(path.root, path.steps, extraction, places=path.places)


def _steps(step: Operand, operator: str) -> tuple[Step, ...]:
    match step.value:
        case Constant(value=str() as text) if operator in ("#>", "#>>"):
            return _path_steps(text, step.at)
        case Constant(value=str() as text, type=Type.TEXT):
            return (text,)
        case Constant(value=int() as index, type=Type.INTEGER) if operator in ("->", "->>"):
            if abs(index) < 2**31:
                return (index,)
    raise Diagnostic(step.at, f"{operator} needs a constant step", "-> 'key', -> 0 or #> '{key,0}'")


def _path_steps(text: str, at: int) -> tuple[Step, ...]:
    """The elements of `'{a,b,0}'`. Quotes, escapes, braces and spaces inside are left to `->`."""
    allowed = "'{key,0,…}' with plain elements; write -> 'key' for any other key"
    if not (text.startswith("{") and text.endswith("}")) or len(text) < 2:
        raise Diagnostic(at, "the path is not of the form {a,b}", allowed)
    if text == "{}":
        return ()
    steps: list[Step] = []
    for element in text[1:-1].split(","):
        if not element or element.lower() == "null" or any(c in '{}"\\' or not c.isprintable() or c.isspace() for c in element):
            raise Diagnostic(at, f"the path element {element!r} is not plain", allowed)
        digits = element.removeprefix("-")
        if digits.isascii() and digits.isdigit():
            if str(int(digits)) != digits or len(digits) > 9 or element == "-0":
                raise Diagnostic(at, f"the path element {element!r} is not a plain number", allowed)
            steps.append(KeyOrIndex(int(element)))
        elif element[0] in "+-" and element[1:2].isdigit():
            raise Diagnostic(at, f"the path element {element!r} is not a plain number", allowed)
        else:
            steps.append(element)
    return tuple(steps)


def cast(operand: Operand, name: str, at: int) -> Operand:
    """`operand::name`."""
    to = _CAST_ALIASES.get(name, name)
    if to not in _CASTS:
        raise Diagnostic(at, f"a cast to {name}", CASTS_ALLOWED)
    value = operand.value
    if isinstance(value, JsonPath):
        if to not in _JSON_CASTS:
            hint = f"->> first, then ::{to}" if to != "text" else "->> for the text"
            raise Diagnostic(at, f"a JSON value has no cast to {to}", hint)
        return Operand(_field(value, _JSON_CASTS[to]), operand.at)
    if value.type.value == to:
        return operand
    if isinstance(value, Constant) and value.type is Type.TEXT and to == "timestamptz":
        return Operand(moment_constant(str(value.value), operand.at), operand.at)
    node = _cast_node(value, to)
    if node is None:
        raise Diagnostic(
            at, f"{type_name(value)} has no cast to {to} here", "casts of a field's text, of key, and between numbers"
        )
    return Operand(node, operand.at)


def _cast_node(node: Node, to: str) -> Node | None:
    if isinstance(node, Field) and node.extraction is Extraction.TEXT and node.root != "register":
        return replace(node, extraction=_TEXT_CASTS[to])
    if node.type.is_number and to in ("int", "bigint", "numeric"):
        return Cast(node, _JSON_CASTS[to])
    return None


def moment_constant(text: str, at: int) -> Constant:
    """A timestamptz literal."""
    micros = micros_of_text(text)
    if micros is None or moment_of(micros) is None:
        raise Diagnostic(at, f"{text[:40]!r} is no timestamp with an offset", "RFC 3339, such as '2026-01-31T08:30:00Z'")
    return Constant(micros, Type.TIMESTAMPTZ, at)


def unify_types(operands: list[Operand]) -> list[Node]:
    """The operands, which must have one type; a text literal beside a timestamptz is read as one."""
    nodes = [value_node(operand) for operand in operands]
    if any(node.type is Type.TIMESTAMPTZ for node in nodes):
        nodes = [
            moment_constant(str(n.value), o.at) if isinstance(n, Constant) and n.type is Type.TEXT else n
            for n, o in zip(nodes, operands, strict=True)
        ]
    for node, operand in zip(nodes, operands, strict=True):
        first = nodes[0].type
        if node.type is not first and not (node.type.is_number and first.is_number):
            reason = f"{first.value} and {type_name(node)} cannot be compared"
            raise Diagnostic(operand.at, reason, "values of one type, or two numbers")
    return nodes


def compare(operator: str, left: Operand, right: Operand) -> Node:
    """A comparison; booleans have no order."""
    a, b = unify_types([left, right])
    if a.type is Type.BOOLEAN and operator in ("<", "<=", ">", ">="):
        raise Diagnostic(left.at, f"{operator} between booleans", "=, <>, is true, is false, is distinct from")
    return Compare("<>" if operator == "!=" else operator, a, b)


def arithmetic(operator: str, left: Operand, right: Operand) -> Node:
    """`+ - * / %`."""
    for operand in (left, right):
        if not value_node(operand).type.is_number:
            raise Diagnostic(operand.at, f"{operator} needs numbers, not {type_name(operand.value)}", "numbers on both sides")
    return Arithmetic(operator, value_node(left), value_node(right))


def apply_sign(sign: str, operand: Operand) -> Node:
    """Unary plus and minus; a constant takes the sign itself."""
    node = value_node(operand)
    if not node.type.is_number:
        raise Diagnostic(operand.at, f"{sign} needs a number, not {type_name(node)}", f"a number after {sign}")
    if sign == "+":
        return node
    match node:
        case Constant(value=Decimal() as value):
            # Do not use -value: that would round to the context's digits, and make a second zero.
            return Constant(value.copy_negate() if value else value, node.type, operand.at)
        case Constant(value=int() as value):
            return Constant(-value, node.type, operand.at)
    return Negate(node)


def _pattern(pattern: Operand, operator: str) -> str:
    match pattern.value:
        case Constant(value=str() as text, type=Type.TEXT):
            return text
    raise Diagnostic(pattern.at, f"the pattern of {operator} is not a constant", f"{operator} 'pattern'")


def like(operand: Operand, pattern: Operand, *, fold: bool) -> Node:
    """`like` and `ilike`."""
    text = _pattern(pattern, "like")
    if like_parts(text) is None:
        raise Diagnostic(pattern.at, "the pattern ends in a lone backslash", r"\\ for a backslash, \% and \_ for the signs")
    return Like(require_type(operand, Type.TEXT, "the left side of like"), text, fold)


def regex_match(operand: Operand, pattern: Operand) -> Node:
    """`~`."""
    text = _pattern(pattern, "~")
    try:
        check_regex(text)
    except RegexError as error:
        # The pattern begins after its quote; quotes inside are doubled in the text.
        at = pattern.at + 1 + error.at + text[: error.at].count("'")
        raise Diagnostic(at, f"in the pattern: {error.reason}", error.allowed) from None
    return Match(require_type(operand, Type.TEXT, "the left side of ~"), text)


def has_key(operand: Operand, key: Operand) -> Node:
    """`?`."""
    if not isinstance(operand.value, JsonPath):
        reason = f"? needs JSON on its left, not {type_name(operand.value)}"
        raise Diagnostic(operand.at, reason, "object ? 'key', object -> 'a' ? 'key'")
    match key.value:
        case Constant(value=str() as text, type=Type.TEXT):
            path = operand.value
            return Field(path.root, path.steps, Extraction.HAS_KEY, text, (*path.places, key.at))
    raise Diagnostic(key.at, "the key of ? is not a constant text", "object ? 'key'")


_SIGNATURES: Final = {
    "lower": ((Type.TEXT,), Type.TEXT),
    "upper": ((Type.TEXT,), Type.TEXT),
    "length": ((Type.TEXT,), Type.INTEGER),
    "starts_with": ((Type.TEXT, Type.TEXT), Type.BOOLEAN),
    "div": ((Type.INTEGER, Type.INTEGER), Type.INTEGER),
}
_JSON_FUNCTIONS: Final = {"jsonb_typeof": Extraction.TYPEOF, "jsonb_array_length": Extraction.ARRAY_LENGTH}
FUNCTIONS: Final = (*_SIGNATURES, "abs", "coalesce", *_JSON_FUNCTIONS)


def call(name: str, at: int, arguments: list[Operand]) -> Node:
    """A function of the allow-list."""
    if name in _JSON_FUNCTIONS:
        path = arguments[0].value if len(arguments) == 1 else None
        if not isinstance(path, JsonPath):
            raise Diagnostic(at, f"{name} takes one JSON value", f"{name}(object -> 'key')")
        return _field(path, _JSON_FUNCTIONS[name])
    if name == "coalesce":
        return _coalesce(at, arguments)
    if name == "abs":
        if len(arguments) != 1 or not value_node(arguments[0]).type.is_number:
            raise Diagnostic(at, "abs takes one number", "abs(number)")
        node = value_node(arguments[0])
        return Call(name, (node,), node.type)
    parameters, result = _SIGNATURES[name]
    usage = f"{name}({', '.join(t.value for t in parameters)})"
    if len(arguments) != len(parameters):
        raise Diagnostic(at, f"{name} has {len(arguments)} arguments", usage)
    nodes = tuple(require_type(a, t, f"an argument of {name}") for a, t in zip(arguments, parameters, strict=True))
    return Call(name, nodes, result)


def _coalesce(at: int, arguments: list[Operand]) -> Node:
    if len(arguments) < 2:
        raise Diagnostic(at, f"coalesce has {len(arguments)} arguments", "coalesce(value, value, …), two or more")
    nodes = unify_types(arguments)
    numeric = any(node.type is Type.NUMERIC for node in nodes)
    return Call("coalesce", tuple(nodes), Type.NUMERIC if numeric else nodes[0].type)
