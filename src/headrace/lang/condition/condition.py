"""A condition: the checked tree with its canonical text and the fields it reads.

A scalar is a value of the language, such as the key of a correlator: `object ->> 'account'`, `key`, `(object -> 'n')::int`. It has
one text on every engine, so text, integers and booleans are allowed; numerics and timestamps have no agreed text form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from headrace.lang.condition.checker import type_name, value_node
from headrace.lang.condition.errors import Diagnostic, locate_error
from headrace.lang.condition.limits import TEXT_CHARS_MAX
from headrace.lang.condition.parser import Names, parse_operand, parse_tree
from headrace.lang.condition.text_printer import canonical_text
from headrace.lang.condition.tree import Field, Junction, Node, Type, fields_of

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
