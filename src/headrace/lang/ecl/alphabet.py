"""Symbols: the classes of events a table tells apart, and how an event finds its symbol.

A decision tree per event type asks only the predicates that still matter: a leaf is a symbol. Types that behave like any other type are not listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from headrace.lang.ecl.situations import Situation


class Branch(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An inner node of a decision tree: the number of a predicate, the tree if it holds, and the tree if not."""

    predicate: int
    yes: Decision
    no: Decision


Decision = int | Branch


class Example(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One event of a symbol: its type (None: any type the pattern does not name) and its conditions' truths."""

    type: str | None
    truths: tuple[tuple[str, bool | None], ...]


class Alphabet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`size` symbols, numbered from 0; symbol 0 is that of an unnamed type with all conditions false."""

    size: int
    types: dict[str, Decision]
    other: Decision
    examples: tuple[Example, ...]

    def symbol(self, type_: str, predicate_holds: Callable[[int], bool]) -> int:
        decision = self.types.get(type_, self.other)
        while not isinstance(decision, int):
            decision = decision.yes if predicate_holds(decision.predicate) else decision.no
        return decision


def leaves(decision: Decision) -> Iterator[int]:
    """The possible symbols of a decision."""
    if isinstance(decision, int):
        yield decision
    else:
        yield from leaves(decision.yes)
        yield from leaves(decision.no)


@dataclass(frozen=True, slots=True)
class Classes:
    """An alphabet while compiling: the predicates it uses and the symbol of each vector of them."""

    mask: int
    symbol_of: Mapping[int, int]
    size: int


def make_alphabet(classes: Classes, situations: Sequence[Situation]) -> Alphabet:
    by_type: dict[str | None, list[Situation]] = {}
    examples: dict[int, Example] = {}
    for situation in sorted(situations, key=attrgetter("unknowns")):
        by_type.setdefault(situation.type, []).append(situation)
        symbol = classes.symbol_of[situation.vector]
        examples.setdefault(symbol, Example(situation.type, situation.truths))
    decisions = {type_: _decide(own, classes.symbol_of) for type_, own in by_type.items()}
    other = decisions.pop(None)
    types = {type_: decision for type_, decision in decisions.items() if type_ is not None and decision != other}
    return Alphabet(classes.size, types, other, tuple(examples[symbol] for symbol in range(classes.size)))


def _decide(situations: Sequence[Situation], symbol_of: Mapping[int, int]) -> Decision:
    symbols = {symbol_of[situation.vector] for situation in situations}
    if len(symbols) == 1:
        return symbols.pop()
    common = situations[0].vector
    differing = 0
    for situation in situations:
        differing |= situation.vector ^ common
    number = (differing & -differing).bit_length() - 1
    yes = _decide([situation for situation in situations if situation.vector >> number & 1], symbol_of)
    no = _decide([situation for situation in situations if not situation.vector >> number & 1], symbol_of)
    return yes if yes == no else Branch(number, yes, no)
