"""Tree → canonical text, in the language itself. Promises: `parse(canonical_text(tree))` gives the tree again."""

from __future__ import annotations

from decimal import Decimal

from headrace.lang.condition import tree
from headrace.lang.condition.moments import moment_text
from headrace.lang.condition.parser import AND, CAST, COMPARE, IS, NOT, OR, OTHER, PRODUCT, RANGE, SIGN, SUM
from headrace.lang.condition.tree import Constant, Extraction, Field, KeyOrIndex, Node, Type

_ATOM = CAST + 1


def canonical_text(node: Node) -> str:
    """The canonical text of the node."""
    return _print(node)[0]


def _print_at(node: Node, level: int) -> str:
    """The node's text, in parentheses where it binds looser than the level."""
    text, own = _print(node)
    return text if own >= level else f"({text})"


def _print(node: Node) -> tuple[str, int]:
    """The text and the level of its loosest operator."""
    match node:
        case Field():
            return _print_field(node)
        case Constant():
            return _print_constant(node)
        case tree.Slot():
            raise AssertionError("slots are made for evaluation only")
        case tree.Junction():
            level = OR if node.word == "or" else AND
            return f" {node.word} ".join(_print_at(operand, level + 1) for operand in node.operands), level
        case tree.Not():
            return _print_not(node)
        case tree.Compare(operator="is distinct from"):
            return f"{_print_at(node.left, COMPARE)} is distinct from {_print_at(node.right, COMPARE)}", IS
        case tree.Compare():
            return f"{_print_at(node.left, RANGE)} {node.operator} {_print_at(node.right, RANGE)}", COMPARE
        case tree.Is():
            return f"{_print_at(node.operand, COMPARE)} is {_is_what(node)}", IS
        case tree.In() | tree.Between() | tree.Like():
            return _print_range(node, ""), RANGE
        case tree.Match():
            return f"{_print_at(node.operand, OTHER)} ~ {_quote(node.pattern)}", OTHER
        case tree.Arithmetic():
            level = SUM if node.operator in "+-" else PRODUCT
            return f"{_print_at(node.left, level)} {node.operator} {_print_at(node.right, level + 1)}", level
        case tree.Negate():
            return f"-{_print_at(node.operand, CAST)}", SIGN
        case tree.Cast():
            return f"{_print_at(node.operand, CAST)}::{node.to.sql}", CAST
        case tree.Call():
            return f"{node.name}({', '.join(canonical_text(argument) for argument in node.arguments)})", _ATOM


def _print_not(node: tree.Not) -> tuple[str, int]:
    match node.operand:
        case tree.In() | tree.Between() | tree.Like() as predicate:
            return _print_range(predicate, "not "), RANGE
        case tree.Match() as match:
            return f"{_print_at(match.operand, OTHER)} !~ {_quote(match.pattern)}", OTHER
        case tree.Is() as test:
            return f"{_print_at(test.operand, COMPARE)} is not {_is_what(test)}", IS
        case tree.Compare(operator="is distinct from") as test:
            return f"{_print_at(test.left, COMPARE)} is not distinct from {_print_at(test.right, COMPARE)}", IS
    return f"not {_print_at(node.operand, NOT)}", NOT


def _is_what(node: tree.Is) -> str:
    return "null" if node.answer is None else str(node.answer).lower()


def _print_range(node: tree.In | tree.Between | tree.Like, negation: str) -> str:
    left = _print_at(node.operand, OTHER)
    match node:
        case tree.In():
            return f"{left} {negation}in ({', '.join(canonical_text(item) for item in node.items)})"
        case tree.Between():
            return f"{left} {negation}between {_print_at(node.low, OTHER)} and {_print_at(node.high, OTHER)}"
        case tree.Like():
            return f"{left} {negation}{'ilike' if node.fold else 'like'} {_quote(node.pattern)}"


def _quote(text: str) -> str:
    """A text literal of the language."""
    return "'" + text.replace("'", "''") + "'"


def _print_constant(node: Constant) -> tuple[str, int]:
    """The literal and its level: a sign binds looser than a digit."""
    value = node.value
    if node.type is Type.TIMESTAMPTZ and isinstance(value, int):
        return f"timestamptz {_quote(moment_text(value))}", _ATOM
    if isinstance(value, bool):
        return str(value).lower(), _ATOM
    if isinstance(value, str):
        return _quote(value), _ATOM
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, Decimal) and "." not in text:
        text += ".0"
    return text, SIGN if text.startswith("-") else _ATOM


def _print_field(field: Field) -> tuple[str, int]:
    if field.root == "register":
        return _print_register(field), _ATOM
    if field.extraction is Extraction.TEXT:
        return _print_path(field, as_text=True)
    if field.extraction is Extraction.COLUMN:
        return field.root, _ATOM
    if field.extraction is Extraction.HAS_KEY:
        return f"{_print_path(field, as_text=False)[0]} ? {_quote(field.key or '')}", OTHER
    if field.extraction in (Extraction.TYPEOF, Extraction.ARRAY_LENGTH):
        return f"{field.extraction.sql}({_print_path(field, as_text=False)[0]})", _ATOM
    text, level = _print_path(field, as_text=field.extraction.is_from_text)
    return f"{text if level >= CAST else f'({text})'}::{field.extraction.cast}", CAST


def _print_path(field: Field, *, as_text: bool) -> tuple[str, int]:
    if field.root not in ("object", "headers"):
        return field.root, _ATOM
    if not field.path:
        return (f"{field.root} #>> '{{}}'", OTHER) if as_text else (field.root, _ATOM)
    text = field.root
    for index, step in enumerate(field.path):
        arrow = ">>" if as_text and index == len(field.path) - 1 else ">"
        match step:
            case KeyOrIndex():
                text += f" #{arrow} '{{{step.number}}}'"
            case str():
                text += f" -{arrow} {_quote(step)}"
            case int():
                text += f" -{arrow} {step}"
    return text, OTHER


def _print_register(field: Field) -> str:
    """`t.amount`, `l.count`, or `l.sum(amount)`."""
    label, name, *argument = map(str, field.path)
    return f"{label}.{name}({argument[0]})" if argument else f"{label}.{name}"
