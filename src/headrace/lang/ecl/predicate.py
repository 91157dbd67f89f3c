"""The truth of a predicate on one event: three-valued inside, and unknown counts as false for the whole."""

from __future__ import annotations

from headrace.lang.ecl.events import Evaluator, Event
from headrace.lang.ecl.tree import And, Condition, EventType, Literal, Named, Not, Or, Predicate


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
