"""Symbols: the classes of events a table tells apart, how an event finds its symbol, and which event is an example of one.

A decision tree per event type asks only the predicates that still matter: a leaf is a symbol. Types that behave like any other type are
not listed. A *trace* is a sequence of examples, the witness of an analysis, as events one could publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import msgspec

from headrace.core import print_duration
from headrace.lang.ecl.engine import Event, Output
from headrace.lang.ecl.satisfiable import Situation
from headrace.lang.ecl.tree import print_name


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


@dataclass(frozen=True, slots=True)
class TraceStep:
    """An event (its type and the truths of the conditions that matter), or a timer's firing (`type` is None).

    `time` is in microseconds after the start of the trace. `by_type`: every event of this type does the same here."""

    type: str | None
    truths: tuple[tuple[str, bool | None], ...]
    time: int
    outputs: tuple[Output, ...] = ()
    by_type: bool = False

    def __str__(self) -> str:
        truths = () if self.by_type else self.truths
        shown = f"(timer at {print_duration(self.time)})" if self.type is None else label(Example(self.type, truths))
        tokens = ",".join(output.token for output in self.outputs)
        return f"{shown} → {tokens}" if tokens else shown


@dataclass(frozen=True, slots=True)
class Trace:
    """Steps from a start. No steps: it holds from the start itself."""

    steps: tuple[TraceStep, ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """The events alone, to be fed to an engine; each subject is a mapping of condition text to truth."""
        return tuple(Event(step.type, step.time, dict(step.truths)) for step in self.steps if step.type is not None)

    @property
    def end(self) -> int:
        return self.steps[-1].time if self.steps else 0

    def __str__(self) -> str:
        runs = [(text, len(list(run))) for text, run in groupby(str(step) for step in self.steps)]
        shown = [text if count == 1 else f"{count} × {text}" for text, count in runs]
        return ", ".join(shown) if shown else "(from the start)"


def label(example: Example) -> str:
    """A class of events, in words."""
    truths = {True: "", False: "not ", None: "unknown "}
    type_ = "any other type" if example.type is None else print_name(example.type)
    return " and ".join([type_, *(f"{truths[truth]}<{text}>" for text, truth in example.truths)])


def describe_symbols(alphabet: Alphabet, symbols: AbstractSet[int]) -> list[str]:
    """The classes of events that have one of these symbols, in words: a type alone if its conditions do not matter."""
    decisions: list[tuple[str | None, Decision]] = [*alphabet.types.items(), (None, alphabet.other)]
    whole = [type_ for type_, decision in decisions if set(leaves(decision)) <= symbols]
    partly = {symbol for type_, decision in decisions if type_ not in whole for symbol in leaves(decision)}
    return [label(Example(type_, ())) for type_ in whole] + [
        label(alphabet.examples[symbol]) for symbol in sorted(partly & symbols)
    ]
