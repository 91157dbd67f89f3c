"""Why a condition holds or not: the value of every clause and operand, for one event."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lang.condition.condition import Condition
from headrace.lang.condition.moments import moment_text
from headrace.lang.condition.python_printer import compile_node
from headrace.lang.condition.subject import Subject, number_text
from headrace.lang.condition.text_printer import canonical_text
from headrace.lang.condition.tree import Constant, Node, Type, Value, children


@dataclass(frozen=True, slots=True)
class ClauseValue:
    """A clause or operand: its canonical text, its value as text (`unknown` for none), and its parts without constants."""

    text: str
    value: str
    parts: tuple[ClauseValue, ...]


def explain(condition: Condition, subject: Subject) -> ClauseValue:
    """The value of the condition and of everything in it, as Python computes them."""
    return _explain_node(condition.tree, subject)


def _explain_node(node: Node, subject: Subject) -> ClauseValue:
    parts = tuple(_explain_node(child, subject) for child in children(node) if not isinstance(child, Constant))
    return ClauseValue(canonical_text(node), value_text(compile_node(node)(subject), node.type), parts)


def value_text(value: Value | None, type: Type) -> str:
    """A value as a person reads it."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'"
    if type is Type.TIMESTAMPTZ and isinstance(value, int):
        return moment_text(value)
    text = number_text(value)
    return text.rstrip("0").rstrip(".") if "." in text else text
