"""A condition: the checked tree with its canonical text, the fields it reads, and its best access predicate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from headrace.lang.condition.errors import Mistake, error_in
from headrace.lang.condition.limits import TEXT_CHARS_MAX
from headrace.lang.condition.parser import parse_tree
from headrace.lang.condition.text import text_of
from headrace.lang.condition.tree import Compare, Constant, Field, Junction, Node, Take, fields_of

# How much a match on the field is expected to narrow: text most, booleans least. Others have no agreed text form.
_SELECTIVITY = {
    Take.TEXT: 0,
    Take.INT: 1,
    Take.BIGINT: 1,
    Take.TEXT_INT: 1,
    Take.TEXT_BIGINT: 1,
    Take.BOOLEAN: 2,
    Take.TEXT_BOOLEAN: 2,
}


@dataclass(frozen=True, slots=True)
class Equality:
    """A conjunct `field = constant` that must hold for the condition to be true.

    `text` is the constant in the field's text form: the text itself, an integer's digits, `true` or `false`.
    `equality_to_postgres(field)` and `equality_to_spark(field)` print the field in the same form, so that `field form
    = text` can ride an index.
    """

    field: Field
    text: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition. Equal trees are equal conditions, whatever their spelling."""

    tree: Node

    @property
    def text(self) -> str:
        """Canonical text: `parse(condition.text) == condition`."""
        return text_of(self.tree)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The distinct fields the condition reads, in order of their first mention."""
        return fields_of(self.tree)

    @property
    def equality(self) -> Equality | None:
        """The most selective equality that must hold, or None."""
        found = _best_equality(self.tree)
        return found[1] if found else None

    @property
    def residual(self) -> Condition | None:
        """What is left to check once the equality holds; the whole condition where there is none; None for nothing."""
        found = _best_equality(self.tree)
        if found is None:
            return self
        rest = [node for node in _conjuncts(self.tree) if node != found[0]]
        if not rest:
            return None
        return Condition(rest[0] if len(rest) == 1 else Junction("and", tuple(rest)))


@lru_cache(maxsize=4096)
def parse(text: str) -> Condition:
    """The condition a text means. Raises ConditionError with the place and what is allowed."""
    try:
        condition = Condition(parse_tree(text))
        if (written := len(condition.text)) > TEXT_CHARS_MAX:
            raise Mistake(0, f"the condition has {written} characters in its canonical form", f"{TEXT_CHARS_MAX} characters")
        return condition
    except Mistake as mistake:
        raise error_in(text, mistake) from None


def _conjuncts(tree: Node) -> tuple[Node, ...]:
    return tree.operands if isinstance(tree, Junction) and tree.word == "and" else (tree,)


def _best_equality(tree: Node) -> tuple[Node, Equality] | None:
    found: list[tuple[int, int, Node, Equality]] = []
    for order, node in enumerate(_conjuncts(tree)):
        equality = _equality_of(node)
        if equality is not None:
            found.append((_SELECTIVITY[equality.field.take], order, node, equality))
    if not found:
        return None
    _, _, node, equality = min(found, key=lambda entry: entry[:2])
    return node, equality


def _equality_of(node: Node) -> Equality | None:
    if isinstance(node, Field) and node.take in (Take.BOOLEAN, Take.TEXT_BOOLEAN):
        return Equality(node, "true")
    if not isinstance(node, Compare) or node.operator != "=":
        return None
    for field, constant in ((node.left, node.right), (node.right, node.left)):
        if isinstance(field, Field) and isinstance(constant, Constant) and field.take in _SELECTIVITY:
            return _text_form(field, constant)
    return None


def _text_form(field: Field, constant: Constant) -> Equality | None:
    value = constant.value
    # An integer field beside a numeric constant: 5 = 5.0 holds, and their texts differ.
    if field.type is not constant.type:
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return Equality(field, text)
