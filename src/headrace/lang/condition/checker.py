"""Typed nodes out of parsed operands: every rule about types, casts, patterns and numbers is here.

An operand is a node, or a place in JSON that still waits to be taken as something (`object -> 'x'`).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from headrace.lang.condition.errors import Mistake
from headrace.lang.condition.like import like_parts
from headrace.lang.condition.limits import EITHER_STEPS_MAX, INTEGER_MAX, NUMERIC_SCALE, PATH_STEPS_MAX
from headrace.lang.condition.moments import micros_of_text, moment_of
from headrace.lang.condition.regex import RegexError, check_regex
from headrace.lang.condition.tree import (
    Arithmetic,
    Call,
    Cast,
    Compare,
    Constant,
    Either,
    Field,
    Like,
    Match,
    Negate,
    Node,
    Step,
    Take,
    Type,
)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in JSON: `object`, `headers -> 'a'`. No value yet."""

    root: str
    path: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """A parsed operand and where it begins in the text."""

    what: Node | Place
    at: int


CAST_NAMES: Final = {
    "int": "int",
    "integer": "int",
    "int4": "int",
    "bigint": "bigint",
    "int8": "bigint",
    "numeric": "numeric",
    "decimal": "numeric",
    "text": "text",
    "boolean": "boolean",
    "bool": "boolean",
    "timestamptz": "timestamptz",
}
CASTS_ALLOWED: Final = "casts to int, bigint, numeric, boolean, text, timestamptz"
_JSON_TAKES = {take.value: take for take in (Take.INT, Take.BIGINT, Take.NUMERIC, Take.BOOLEAN)}
_WHOLE_DIGITS = 19
_NUMBER_ALLOWED = f"integers up to {INTEGER_MAX}, decimals below 10^19 with at most {NUMERIC_SCALE} digits after the point"
_TAKE_HINT = "->> for its text, ::int ::bigint ::numeric ::boolean for its value, is null, ?, jsonb_typeof, jsonb_array_length"


def type_name(what: Node | Place) -> str:
    """The type for messages."""
    return "json" if isinstance(what, Place) else what.type.value


def node_of(operand: Operand) -> Node:
    """The operand as a value; bare JSON is refused."""
    if isinstance(operand.what, Place):
        raise Mistake(operand.at, "a JSON value cannot be used as it is", _TAKE_HINT)
    return operand.what


def typed(operand: Operand, wanted: Type, role: str) -> Node:
    """The operand, which must be of the type."""
    node = node_of(operand)
    if node.type is not wanted:
        raise Mistake(operand.at, f"{role} is {type_name(node)}, not {wanted.value}", f"a {wanted.value} value here")
    return node


def number_constant(text: str, at: int) -> Constant:
    """An integer without a point, a numeric with one."""
    whole, point, fraction = text.partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    if len(whole) > _WHOLE_DIGITS or len(fraction) > NUMERIC_SCALE or (not point and int(whole or 0) > INTEGER_MAX):
        raise Mistake(at, f"the number {text[:40]} is too large or too fine", _NUMBER_ALLOWED)
    if not point:
        return Constant(int(whole or 0), Type.INTEGER)
    return Constant(Decimal(f"{whole or 0}.{fraction}"), Type.NUMERIC)


def step_into(operand: Operand, step: Operand, operator: str) -> Operand:
    """`->`, `->>`, `#>`, `#>>` from a JSON place."""
    if not isinstance(operand.what, Place):
        raise Mistake(
            operand.at,
            f"{operator} needs JSON on its left, not {type_name(operand.what)}",
            "object or headers, then -> steps",
        )
    place = Place(operand.what.root, operand.what.path + _steps(step, operator))
    if len(place.path) > PATH_STEPS_MAX:
        raise Mistake(step.at, f"a path of {len(place.path)} steps", f"{PATH_STEPS_MAX} steps")
    if sum(isinstance(s, Either) for s in place.path) > EITHER_STEPS_MAX:
        raise Mistake(step.at, "too many numbers in #> paths", f"{EITHER_STEPS_MAX} numbers; -> 0 and -> 'key' without limit")
    if operator in ("->>", "#>>"):
        return Operand(Field(place.root, place.path, Take.TEXT), operand.at)
    return Operand(place, operand.at)


def _steps(step: Operand, operator: str) -> tuple[Step, ...]:
    match step.what:
        case Constant(value=str() as text) if operator in ("#>", "#>>"):
            return _path_steps(text, step.at)
        case Constant(value=str() as text, type=Type.TEXT):
            return (text,)
        case Constant(value=int() as index, type=Type.INTEGER) if operator in ("->", "->>"):
            if abs(index) < 2**31:
                return (index,)
    raise Mistake(step.at, f"{operator} needs a constant step", "-> 'key', -> 0 or #> '{key,0}'")


def _path_steps(text: str, at: int) -> tuple[Step, ...]:
    """The elements of `'{a,b,0}'`. Quotes, escapes, braces and spaces inside are left to `->`."""
    allowed = "'{key,0,…}' with plain elements; write -> 'key' for any other key"
    if not (text.startswith("{") and text.endswith("}")) or len(text) < 2:
        raise Mistake(at, "the path is not of the form {a,b}", allowed)
    if text == "{}":
        return ()
    steps: list[Step] = []
    for element in text[1:-1].split(","):
        if not element or element.lower() == "null" or any(c in '{}"\\' or not c.isprintable() or c.isspace() for c in element):
            raise Mistake(at, f"the path element {element!r} cannot be read plainly", allowed)
        digits = element.removeprefix("-")
        if digits.isascii() and digits.isdigit():
            if str(int(digits)) != digits or len(digits) > 9 or element == "-0":
                raise Mistake(at, f"the path element {element!r} is an odd number", allowed)
            steps.append(Either(int(element)))
        elif element[0] in "+-" and element[1:2].isdigit():
            raise Mistake(at, f"the path element {element!r} is an odd number", allowed)
        else:
            steps.append(element)
    return tuple(steps)


def cast(operand: Operand, name: str, at: int) -> Operand:
    """`operand::name`."""
    to = CAST_NAMES.get(name)
    if to is None:
        raise Mistake(at, f"a cast to {name}", CASTS_ALLOWED)
    what = operand.what
    if isinstance(what, Place):
        if to not in _JSON_TAKES:
            raise Mistake(
                at,
                f"a JSON value has no cast to {to}",
                f"->> first, then ::{to}" if to != "text" else "->> for the text",
            )
        return Operand(Field(what.root, what.path, _JSON_TAKES[to]), operand.at)
    if what.type.value == to:
        return operand
    if isinstance(what, Constant) and what.type is Type.TEXT and to == "timestamptz":
        return Operand(moment_constant(str(what.value), operand.at), operand.at)
    node = _cast_node(what, to)
    if node is None:
        raise Mistake(at, f"{type_name(what)} has no cast to {to} here", "casts of a field's text, of key, and between numbers")
    return Operand(node, operand.at)


def _cast_node(node: Node, to: str) -> Node | None:
    if isinstance(node, Field) and node.take is Take.TEXT:
        return Field(node.root, node.path, Take(f"text::{to}"))
    if node.type.is_number and to in ("int", "bigint", "numeric"):
        return Cast(node, _JSON_TAKES[to])
    return None


def moment_constant(text: str, at: int) -> Constant:
    """A timestamptz literal."""
    micros = micros_of_text(text)
    if micros is None or moment_of(micros) is None:
        raise Mistake(at, f"{text[:40]!r} is no timestamp with an offset", "RFC 3339, such as '2026-01-31T08:30:00Z'")
    return Constant(micros, Type.TIMESTAMPTZ)


def alike(operands: list[Operand]) -> list[Node]:
    """The operands, which must have one type among them; a text literal beside a timestamptz is read as one."""
    nodes = [node_of(operand) for operand in operands]
    if any(node.type is Type.TIMESTAMPTZ for node in nodes):
        nodes = [
            moment_constant(str(n.value), o.at) if isinstance(n, Constant) and n.type is Type.TEXT else n
            for n, o in zip(nodes, operands, strict=True)
        ]
    for node, operand in zip(nodes, operands, strict=True):
        first = nodes[0].type
        if node.type is not first and not (node.type.is_number and first.is_number):
            raise Mistake(
                operand.at,
                f"{first.value} and {type_name(node)} cannot be compared",
                "values of one type, or two numbers",
            )
    return nodes


def compare(operator: str, left: Operand, right: Operand) -> Node:
    """A comparison; booleans have no order."""
    a, b = alike([left, right])
    if a.type is Type.BOOLEAN and operator in ("<", "<=", ">", ">="):
        raise Mistake(left.at, f"{operator} between booleans", "=, <>, is true, is false, is distinct from")
    return Compare("<>" if operator == "!=" else operator, a, b)


def arithmetic(operator: str, left: Operand, right: Operand) -> Node:
    """`+ - * / %`."""
    for operand in (left, right):
        if not node_of(operand).type.is_number:
            raise Mistake(operand.at, f"{operator} needs numbers, not {type_name(operand.what)}", "numbers on both sides")
    return Arithmetic(operator, node_of(left), node_of(right))


def signed(sign: str, operand: Operand) -> Node:
    """Unary plus and minus; a constant takes the sign itself."""
    node = node_of(operand)
    if not node.type.is_number:
        raise Mistake(operand.at, f"{sign} needs a number, not {type_name(node)}", f"a number after {sign}")
    if sign == "+":
        return node
    match node:
        case Constant(value=Decimal() as value):
            # Not -value: that would round to the context's digits, and make a second zero.
            return Constant(value.copy_negate() if value else value, node.type)
        case Constant(value=int() as value):
            return Constant(-value, node.type)
    return Negate(node)


def _pattern(pattern: Operand, operator: str) -> str:
    match pattern.what:
        case Constant(value=str() as text, type=Type.TEXT):
            return text
    raise Mistake(pattern.at, f"the pattern of {operator} is not a constant", f"{operator} 'pattern'")


def like(operand: Operand, pattern: Operand, *, fold: bool) -> Node:
    """`like` and `ilike`."""
    text = _pattern(pattern, "like")
    if like_parts(text) is None:
        raise Mistake(pattern.at, "the pattern ends in a lone backslash", r"\\ for a backslash, \% and \_ for the signs")
    return Like(typed(operand, Type.TEXT, "the left side of like"), text, fold)


def regex_match(operand: Operand, pattern: Operand) -> Node:
    """`~`."""
    text = _pattern(pattern, "~")
    try:
        check_regex(text)
    except RegexError as error:
        # The pattern begins after its quote; quotes inside are doubled in the text.
        at = pattern.at + 1 + error.at + text[: error.at].count("'")
        raise Mistake(at, f"in the pattern: {error.reason}", error.allowed) from None
    return Match(typed(operand, Type.TEXT, "the left side of ~"), text)


def has_key(operand: Operand, key: Operand) -> Node:
    """`?`."""
    if not isinstance(operand.what, Place):
        raise Mistake(
            operand.at,
            f"? needs JSON on its left, not {type_name(operand.what)}",
            "object ? 'key', object -> 'a' ? 'key'",
        )
    match key.what:
        case Constant(value=str() as text, type=Type.TEXT):
            return Field(operand.what.root, operand.what.path, Take.HAS, text)
    raise Mistake(key.at, "the key of ? is not a constant text", "object ? 'key'")


_SIGNATURES: Final = {
    "lower": ((Type.TEXT,), Type.TEXT),
    "upper": ((Type.TEXT,), Type.TEXT),
    "length": ((Type.TEXT,), Type.INTEGER),
    "starts_with": ((Type.TEXT, Type.TEXT), Type.BOOLEAN),
    "div": ((Type.INTEGER, Type.INTEGER), Type.INTEGER),
}
_JSON_FUNCTIONS: Final = {"jsonb_typeof": Take.TYPEOF, "jsonb_array_length": Take.ARRAY_LENGTH}
FUNCTIONS: Final = (*_SIGNATURES, "abs", "coalesce", *_JSON_FUNCTIONS)


def call(name: str, at: int, arguments: list[Operand]) -> Node:
    """A function of the list."""
    if name in _JSON_FUNCTIONS:
        place = arguments[0].what if len(arguments) == 1 else None
        if not isinstance(place, Place):
            raise Mistake(at, f"{name} takes one JSON value", f"{name}(object -> 'key')")
        return Field(place.root, place.path, _JSON_FUNCTIONS[name])
    if name == "coalesce":
        return _coalesce(at, arguments)
    if name == "abs":
        if len(arguments) != 1 or not node_of(arguments[0]).type.is_number:
            raise Mistake(at, "abs takes one number", "abs(number)")
        node = node_of(arguments[0])
        return Call(name, (node,), node.type)
    wanted, result = _SIGNATURES[name]
    usage = f"{name}({', '.join(t.value for t in wanted)})"
    if len(arguments) != len(wanted):
        raise Mistake(at, f"{name} is given {len(arguments)} arguments", usage)
    nodes = tuple(typed(a, t, f"an argument of {name}") for a, t in zip(arguments, wanted, strict=True))
    return Call(name, nodes, result)


def _coalesce(at: int, arguments: list[Operand]) -> Node:
    if len(arguments) < 2:
        raise Mistake(at, f"coalesce is given {len(arguments)} arguments", "coalesce(value, value, …), two or more")
    nodes = alike(arguments)
    numeric = any(node.type is Type.NUMERIC for node in nodes)
    return Call("coalesce", tuple(nodes), Type.NUMERIC if numeric else nodes[0].type)
