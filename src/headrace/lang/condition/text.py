"""Tree → canonical text, in the language itself. Promises: `parse(text_of(tree))` gives the tree again."""

from __future__ import annotations

from decimal import Decimal

from headrace.lang.condition.moments import moment_text
from headrace.lang.condition.parser import AND, CAST, COMPARE, IS, NOT, OR, OTHER, PRODUCT, RANGE, SIGN, SUM
from headrace.lang.condition.tree import (
    Arithmetic,
    Between,
    Call,
    Cast,
    Compare,
    Constant,
    Either,
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
)

_ATOM = CAST + 1


def text_of(node: Node) -> str:
    """The canonical text of the node."""
    return _written(node)[0]


def _at(node: Node, level: int) -> str:
    """The node's text, in parentheses where it binds looser than the level."""
    text, own = _written(node)
    return text if own >= level else f"({text})"


def _written(node: Node) -> tuple[str, int]:
    """The text and the level of its loosest operator."""
    match node:
        case Field():
            return _field(node)
        case Constant():
            return constant_text(node)
        case Junction():
            level = OR if node.word == "or" else AND
            return f" {node.word} ".join(_at(operand, level + 1) for operand in node.operands), level
        case Not():
            return _not(node)
        case Compare(operator="is distinct from"):
            return f"{_at(node.left, COMPARE)} is distinct from {_at(node.right, COMPARE)}", IS
        case Compare():
            return f"{_at(node.left, RANGE)} {node.operator} {_at(node.right, RANGE)}", COMPARE
        case Is():
            return f"{_at(node.operand, COMPARE)} is {_answer(node)}", IS
        case In() | Between() | Like():
            return _ranged(node, ""), RANGE
        case Match():
            return f"{_at(node.operand, OTHER)} ~ {quoted(node.pattern)}", OTHER
        case Arithmetic():
            level = SUM if node.operator in "+-" else PRODUCT
            return f"{_at(node.left, level)} {node.operator} {_at(node.right, level + 1)}", level
        case Negate():
            return f"-{_at(node.operand, CAST)}", SIGN
        case Cast():
            return f"{_at(node.operand, CAST)}::{node.to.value}", CAST
        case Call():
            return f"{node.name}({', '.join(text_of(argument) for argument in node.arguments)})", _ATOM


def _not(node: Not) -> tuple[str, int]:
    match node.operand:
        case In() | Between() | Like() as ranged:
            return _ranged(ranged, "not "), RANGE
        case Match() as match:
            return f"{_at(match.operand, OTHER)} !~ {quoted(match.pattern)}", OTHER
        case Is() as test:
            return f"{_at(test.operand, COMPARE)} is not {_answer(test)}", IS
        case Compare(operator="is distinct from") as test:
            return f"{_at(test.left, COMPARE)} is not distinct from {_at(test.right, COMPARE)}", IS
    return f"not {_at(node.operand, NOT)}", NOT


def _answer(node: Is) -> str:
    return "null" if node.answer is None else str(node.answer).lower()


def _ranged(node: In | Between | Like, negation: str) -> str:
    left = _at(node.operand, OTHER)
    match node:
        case In():
            return f"{left} {negation}in ({', '.join(text_of(item) for item in node.items)})"
        case Between():
            return f"{left} {negation}between {_at(node.low, OTHER)} and {_at(node.high, OTHER)}"
        case Like():
            return f"{left} {negation}{'ilike' if node.fold else 'like'} {quoted(node.pattern)}"


def quoted(text: str) -> str:
    """A text literal of the language."""
    return "'" + text.replace("'", "''") + "'"


def constant_text(node: Constant) -> tuple[str, int]:
    """The literal and its level: a sign binds looser than a digit."""
    value = node.value
    if node.type is Type.TIMESTAMPTZ and isinstance(value, int):
        return f"timestamptz {quoted(moment_text(value))}", _ATOM
    if isinstance(value, bool):
        return str(value).lower(), _ATOM
    if isinstance(value, str):
        return quoted(value), _ATOM
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, Decimal) and "." not in text:
        text += ".0"
    return text, SIGN if text.startswith("-") else _ATOM


def _field(field: Field) -> tuple[str, int]:
    if field.take is Take.TEXT:
        return _steps(field, scalar=True)
    if field.take is Take.MOMENT:
        return field.root, _ATOM
    if field.take is Take.HAS:
        return f"{_steps(field, scalar=False)[0]} ? {quoted(field.key or '')}", OTHER
    if field.take in (Take.TYPEOF, Take.ARRAY_LENGTH):
        return f"{field.take.value}({_steps(field, scalar=False)[0]})", _ATOM
    text, level = _steps(field, scalar=field.take.from_text)
    name = field.take.value.removeprefix("text::")
    return f"{text if level >= CAST else f'({text})'}::{name}", CAST


def _steps(field: Field, *, scalar: bool) -> tuple[str, int]:
    if field.root not in ("object", "headers"):
        return field.root, _ATOM
    if not field.path:
        return (f"{field.root} #>> '{{}}'", OTHER) if scalar else (field.root, _ATOM)
    text = field.root
    for index, step in enumerate(field.path):
        arrow = ">>" if scalar and index == len(field.path) - 1 else ">"
        match step:
            case Either():
                text += f" #{arrow} '{{{step.number}}}'"
            case str():
                text += f" -{arrow} {quoted(step)}"
            case int():
                text += f" -{arrow} {step}"
    return text, OTHER
