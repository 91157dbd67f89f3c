"""The truth of a predicate on one event: three-valued inside, and unknown counts as false for the whole.

To a pattern, a condition is its canonical text. Two different texts are two independent conditions: no engine and no
analysis looks inside."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from headrace.lang.condition import (
    Compare,
    Constant,
    Evaluate,
    Extraction,
    Field,
    Junction,
    Node,
    Subject,
    Type,
    parse,
    to_python,
)
from headrace.lang.condition import Not as NotNode
from headrace.lang.ecl.events import Evaluator, Event
from headrace.lang.ecl.tree import And, Condition, EventType, Literal, Named, Not, Or, Predicate


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Evaluate:
    return to_python(parse(text))


def evaluate_condition(text: str, subject: object) -> bool | None:
    """The default evaluator; the subject is one of the condition language (type, key, headers, payload, emitted_at)."""
    return _compiled(text)(cast(Subject, subject))


def holds(predicate: Predicate, event: Event, evaluator: Evaluator) -> bool:
    """Whether the event satisfies the predicate. `not <unknown>` does not hold either."""
    return _truth(predicate, event, evaluator) is True


def _truth(predicate: Predicate, event: Event, evaluator: Evaluator) -> bool | None:
    match predicate:
        case Literal(value):
            return value
        case EventType(name):
            return event.type == name
        case Condition(text):
            return evaluator(text, event.subject)
        case Named(_, inner):
            return _truth(inner, event, evaluator)
        case Not(operand):
            truth = _truth(operand, event, evaluator)
            return None if truth is None else not truth
        case And(parts):
            return _fold(parts, event, evaluator, stop=False)
        case Or(parts):
            return _fold(parts, event, evaluator, stop=True)


def _fold(parts: tuple[Predicate, ...], event: Event, evaluator: Evaluator, *, stop: bool) -> bool | None:
    result: bool | None = not stop
    for part in parts:
        truth = _truth(part, event, evaluator)
        # Left to right and no further: `a and <…>` must not evaluate the condition on other types.
        if truth is stop:
            return stop
        if truth is None:
            result = None
    return result


def to_condition_tree(predicate: Predicate) -> Node:
    """The predicate as a tree of the condition language, with the same three values."""
    match predicate:
        case Literal(value):
            return Constant(value, Type.BOOLEAN)
        case EventType(name):
            return Compare("=", Field("type", (), Extraction.TEXT), Constant(name, Type.TEXT))
        case Condition(text):
            return parse(text).tree
        case Named(_, inner):
            return to_condition_tree(inner)
        case Not(operand):
            return NotNode(to_condition_tree(operand))
        case And(parts):
            return Junction("and", tuple(map(to_condition_tree, parts)))
        case Or(parts):
            return Junction("or", tuple(map(to_condition_tree, parts)))
