"""A condition: the checked tree with its canonical text, the fields it reads, and its access predicate.

A scalar is a value of the language, such as the key of a correlator: `object ->> 'account'`, `key`, `(object -> 'n')::int`. It has
one text on every engine, so text, integers and booleans are allowed; numerics and timestamps have no agreed text form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from headrace.lang.condition.checker import type_name, value_node
from headrace.lang.condition.errors import Diagnostic, locate_error
from headrace.lang.condition.limits import TEXT_CHARS_MAX
from headrace.lang.condition.parser import parse_operand, parse_tree
from headrace.lang.condition.text_printer import canonical_text
from headrace.lang.condition.tree import Compare, Constant, Extraction, Field, Junction, Node, Type, fields_of

# An index entry of PostgreSQL holds about 2 700 bytes; a longer constant stays in the residual.
KEY_BYTES_MAX: Final = 500
# How much an equality on the field is expected to narrow: text most, booleans least. Others have no agreed text form.
_SELECTIVITY: Final = {
    Extraction.TEXT: 0,
    Extraction.INT: 1,
    Extraction.BIGINT: 1,
    Extraction.TEXT_INT: 1,
    Extraction.TEXT_BIGINT: 1,
    Extraction.BOOLEAN: 2,
    Extraction.TEXT_BOOLEAN: 2,
}
_SCALARS_ALLOWED: Final = "text, an integer or a boolean, such as object ->> 'account', key, (object -> 'n')::int"


@dataclass(frozen=True, slots=True)
class AccessPredicate:
    """A conjunct `field = constant` by which an index finds the condition.

    `text` is the constant in the field's text form: the text itself, an integer's digits, `true` or `false`."""

    field: Field
    text: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition. Equal trees are equal conditions, whatever their spelling."""

    tree: Node

    @property
    def text(self) -> str:
        """Canonical text: `parse(condition.text) == condition`."""
        return canonical_text(self.tree)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The distinct fields the condition reads, in order of their first mention."""
        return fields_of(self.tree)

    def split(self) -> tuple[AccessPredicate | None, Condition | None]:
        """The most selective equality that must hold, and the residual: what is left to check once it holds.

        Without such an equality the residual is the whole condition; it is None where nothing is left."""
        conjuncts = self.tree.operands if isinstance(self.tree, Junction) and self.tree.word == "and" else (self.tree,)
        candidates = [(node, access) for node in conjuncts if (access := _access_predicate(node)) is not None]
        if not candidates:
            return None, self
        chosen, access = min(candidates, key=lambda candidate: _SELECTIVITY[candidate[1].field.extraction])
        if len(access.text.encode()) > KEY_BYTES_MAX:
            return None, self
        rest = [node for node in conjuncts if node != chosen]
        if not rest:
            return access, None
        return access, Condition(rest[0] if len(rest) == 1 else Junction("and", tuple(rest)))


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


def _access_predicate(node: Node) -> AccessPredicate | None:
    if isinstance(node, Field) and node.extraction in (Extraction.BOOLEAN, Extraction.TEXT_BOOLEAN):
        return AccessPredicate(node, "true")
    if not isinstance(node, Compare) or node.operator != "=":
        return None
    for field, constant in ((node.left, node.right), (node.right, node.left)):
        if isinstance(field, Field) and isinstance(constant, Constant) and field.extraction in _SELECTIVITY:
            # An integer field beside a numeric constant: 5 = 5.0 holds, but their texts differ.
            if field.type is not constant.type:
                return None
            text = str(constant.value)
            return AccessPredicate(field, text.lower() if isinstance(constant.value, bool) else text)
    return None
