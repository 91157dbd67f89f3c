"""The conditions of a pattern by the event type they are about: those that stand beside a type in an `and`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lang.ecl.register_layout import make_program
from headrace.lang.ecl.tree import And, Condition, EventType, Pattern, Predicate, lower_predicate, operands, predicates_of, walk


def typed_conditions(pattern: Pattern) -> tuple[tuple[str, str], ...]:
    """Pairs of an event type and the canonical text of a condition on that event alone, each once, in textual order."""
    predicates = [predicate for expr in walk(pattern.expr) for predicate in predicates_of(expr)]
    pairs = dict.fromkeys(pair for predicate in predicates for pair in _pairs(lower_predicate(predicate)))
    program = make_program(pattern)
    # A condition that reads registers is not about one event.
    return tuple(pair for pair in pairs if program is None or pair[1] in program.static)


def _pairs(predicate: Predicate) -> Iterator[tuple[str, str]]:
    parts = operands(predicate)
    if isinstance(predicate, And):
        types = [part.name for part in parts if isinstance(part, EventType)]
        yield from ((name, part.text) for name in types for part in parts if isinstance(part, Condition))
    for part in parts:
        yield from _pairs(part)
