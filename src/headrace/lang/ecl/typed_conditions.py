"""The conditions of a pattern by the event type they are about: those that stand beside a type in an `and`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lang.ecl.tree import And, Condition, EventType, Match, Modes, Pattern, Predicate, lower_predicate, operands, walk


def typed_conditions(pattern: Pattern) -> tuple[tuple[str, str], ...]:
    """Pairs of an event type and the canonical text of a condition on it, each once, in textual order."""
    pairs = [pair for predicate in _predicates(pattern) for pair in _pairs(lower_predicate(predicate))]
    return tuple(dict.fromkeys(pairs))


def _predicates(pattern: Pattern) -> Iterator[Predicate]:
    for expr in walk(pattern.expr):
        match expr:
            case Match(predicate):
                yield predicate
            case Modes(modes):
                yield from (mode.guard for mode in modes)
            case _:
                pass


def _pairs(predicate: Predicate) -> Iterator[tuple[str, str]]:
    parts = operands(predicate)
    if isinstance(predicate, And):
        types = [part.name for part in parts if isinstance(part, EventType)]
        yield from ((name, part.text) for name in types for part in parts if isinstance(part, Condition))
    for part in parts:
        yield from _pairs(part)
