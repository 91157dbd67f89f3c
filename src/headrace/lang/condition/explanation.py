"""Why a condition holds or not: the value of every clause and operand, for one event."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lang.condition.condition import Condition
from headrace.lang.condition.moments import moment_text
from headrace.lang.condition.python_printer import compiled
from headrace.lang.condition.subject import Subject, number_text
from headrace.lang.condition.text import text_of
from headrace.lang.condition.tree import Constant, Node, Type, Value, children


@dataclass(frozen=True, slots=True)
class ClauseValue:
    """A clause or operand: its canonical text, its value written out (`unknown` for none), and its parts but
    constants."""

    text: str
    value: str
    parts: tuple[ClauseValue, ...]


def explain(condition: Condition, subject: Subject) -> ClauseValue:
    """The value of the condition and of everything in it, as Python computes them."""
    return _explained(condition.tree, subject)


def _explained(node: Node, subject: Subject) -> ClauseValue:
    parts = tuple(_explained(child, subject) for child in children(node) if not isinstance(child, Constant))
    return ClauseValue(text_of(node), _shown(compiled(node)(subject), node.type), parts)


def _shown(value: Value | None, kind: Type) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'"
    if kind is Type.TIMESTAMPTZ and isinstance(value, int):
        return moment_text(value)
    shown = number_text(value)
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
