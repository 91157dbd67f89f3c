"""A condition: the checked tree with its canonical text and the fields it reads.

The canonical text is in the language itself. Promises: `parse(canonical_text(tree))` gives the tree again.

A scalar is a value of the language, such as the key of a correlator: `object ->> 'account'`, `key`, `(object -> 'n')::int`. It has
one text on every engine, so text, integers and booleans are allowed; numerics and timestamps have no agreed text form."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

from headrace.lang.condition import tree
from headrace.lang.condition.checker import type_name, value_node
from headrace.lang.condition.errors import TEXT_CHARS_MAX, Diagnostic, locate_error
from headrace.lang.condition.parser import (
    AND,
    CAST,
    COMPARE,
    IS,
    NOT,
    OR,
    OTHER,
    PRODUCT,
    RANGE,
    SIGN,
    SUM,
    Names,
    parse_operand,
    parse_tree,
)
from headrace.lang.condition.subject import moment_text
from headrace.lang.condition.tree import Constant, Extraction, Field, Junction, KeyOrIndex, Node, Type, fields_of

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


_SCALARS_ALLOWED: Final = "text, an integer or a boolean, such as object ->> 'account', key, (object -> 'n')::int"


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition. Equal trees are equal conditions, whatever their spelling."""

    tree: Node

    @property
    def text(self) -> str:
        """Canonical text: `parse(condition.text) == condition`."""
        return canonical_text(self.tree)

    @property
    def clauses(self) -> tuple[Condition, ...]:
        """What must all hold: the operands of an `and` at the top, or the condition itself."""
        if isinstance(self.tree, Junction) and self.tree.word == "and":
            return tuple(Condition(operand) for operand in self.tree.operands)
        return (self,)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The distinct fields the condition reads, in order of their first mention."""
        return fields_of(self.tree)


@lru_cache(maxsize=4096)
def parse(text: str) -> Condition:
    """The condition a text means. Raises ConditionError with the place and what is allowed."""
    try:
        condition = Condition(parse_tree(text))
        if (length := len(condition.text)) > TEXT_CHARS_MAX:
            raise Diagnostic(0, f"the condition has {length} characters in its canonical form", f"{TEXT_CHARS_MAX} characters")
        return condition
    except Diagnostic as diagnostic:
        raise locate_error(text, diagnostic) from None


def parse_with_names(text: str, names: Names) -> Condition:
    """The condition a text means in a pattern that adds names of its own. Raises ConditionError."""
    try:
        return Condition(parse_tree(text, names))
    except Diagnostic as diagnostic:
        raise locate_error(text, diagnostic) from None


def parse_value(text: str) -> Node:
    """The tree of a value of any type. Raises ConditionError with the place and what is allowed."""
    try:
        return value_node(parse_operand(text))
    except Diagnostic as diagnostic:
        raise locate_error(text, diagnostic) from None


@lru_cache(maxsize=1024)
def parse_scalar(text: str) -> Node:
    """The tree of a value. Raises ConditionError with the place and what is allowed."""
    try:
        operand = parse_operand(text)
        node = value_node(operand)
        if node.type not in (Type.TEXT, Type.INTEGER, Type.BOOLEAN):
            raise Diagnostic(operand.at, f"the value is {type_name(node)}", _SCALARS_ALLOWED)
        return node
    except Diagnostic as diagnostic:
        raise locate_error(text, diagnostic) from None
