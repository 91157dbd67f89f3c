"""Symbols: the classes of events a table tells apart, how an event finds its symbol, and which event is an example of one.

A decision tree per event type asks only the predicates that still matter: a leaf is a symbol. Types that behave like any other type are
not listed. A *trace* is a sequence of examples, the witness of an analysis, as events one could publish.

Which symbols there are follows from the truth values of a pattern's predicates that events can produce. An event has one type, so event
types exclude each other; conditions are opaque, so each is true, false or unknown independently of all others. A *situation* is a type, an
assignment of the conditions that matter for it, and the vector of predicates that then hold. Conditions are assigned one by one and partly
evaluated predicates are merged when they have become the same, so the work follows the number of different vectors, not 3^k.

`possible_situations` looks into the conditions and leaves out answers that exclude each other. Promises soundness: a situation that some
event produces is kept. Where the conditions are too many or too involved, all are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import cast

import msgspec

from headrace.core import print_duration
from headrace.lang.condition import ConditionError, TruthSpace, parse
from headrace.lang.ecl.engine import Event, Output, holds
from headrace.lang.ecl.errors import COMPILE_STEPS_MAX, Budget
from headrace.lang.ecl.tree import And, Condition, EventType, Literal, Named, Not, Or, Predicate, atoms, print_name

_Residual = bool | None | tuple[object, ...]
_VALUES: tuple[bool | None, ...] = (False, True, None)


@dataclass(frozen=True, slots=True)
class Situation:
    """`type` is None for any type the predicates do not name; bit i of `vector` says that predicate i holds."""

    type: str | None
    truths: tuple[tuple[str, bool | None], ...]
    vector: int

    @property
    def unknowns(self) -> int:
        """How many conditions are unknown: the fewer, the more plausible as an example."""
        return sum(truth is None for _, truth in self.truths)


class TooWide(Exception):
    """More situations than the caller allows."""


class Situations:
    """Finds the situations for sets of predicates; a bit mask names the set."""

    def __init__(self, predicates: Sequence[Predicate], *, situations_max: int, budget: Budget | None = None) -> None:
        self._predicates = predicates
        self._budget = budget or Budget(COMPILE_STEPS_MAX)
        self._max = situations_max
        self._known: dict[int, tuple[Situation, ...] | None] = {}

    def for_predicates(self, mask: int) -> tuple[Situation, ...]:
        """Any other type first, then the named types as the text brings them. Raises TooWide."""
        if mask not in self._known:
            self._known[mask] = self._enumerate(mask)
        known = self._known[mask]
        if known is not None:
            return known
        if mask.bit_count() == 1:
            # A single predicate too involved to take apart: it holds or it does not, whatever the type.
            return (Situation(None, (), 0), Situation(None, (), mask))
        raise TooWide

    def _enumerate(self, mask: int) -> tuple[Situation, ...] | None:
        chosen = [number for number in range(len(self._predicates)) if mask >> number & 1]
        named = [atom for number in chosen for atom in atoms(self._predicates[number])]
        types = list(dict.fromkeys(atom.name for atom in named if isinstance(atom, EventType)))
        conditions = list(dict.fromkeys(atom.text for atom in named if isinstance(atom, Condition)))
        situations: list[Situation] = []
        for type_ in [None, *types]:
            residuals = tuple(_top(_of_type(self._predicates[number], type_)) for number in chosen)
            frontier = _assign_all(residuals, conditions, self._max, self._budget)
            if frontier is None or len(situations) + len(frontier) > self._max:
                return None
            for values, truths in frontier.items():
                vector = sum(1 << number for number, value in zip(chosen, values, strict=True) if value is True)
                situations.append(Situation(type_, truths, vector))
        return tuple(situations)


def _assign_all(
    residuals: tuple[_Residual, ...], conditions: Iterable[str], assignments_max: int, budget: Budget
) -> dict[tuple[_Residual, ...], tuple[tuple[str, bool | None], ...]] | None:
    frontier: dict[tuple[_Residual, ...], tuple[tuple[str, bool | None], ...]] = {residuals: ()}
    for condition in conditions:
        # Each value is searched for the condition, and built again where it has it.
        budget.spend(len(frontier) * len(residuals))
        following: dict[tuple[_Residual, ...], tuple[tuple[str, bool | None], ...]] = {}
        for values, truths in frontier.items():
            if not any(condition in _conditions(value) for value in values):
                following.setdefault(values, truths)
                continue
            for truth in _VALUES:
                reduced = tuple(_top(_assign(value, condition, truth)) for value in values)
                following.setdefault(reduced, (*truths, (condition, truth)))
        if len(following) > assignments_max:
            return None
        frontier = following
    return frontier


def _top(value: _Residual) -> _Residual:
    """At the top of a predicate unknown counts as false."""
    return False if value is None else value


def _of_type(predicate: Predicate, type_: str | None) -> _Residual:
    match predicate:
        case Literal(value):
            return value
        case EventType(name):
            return name == type_
        case Condition(text):
            return ("condition", text)
        case Named(_, inner):
            return _of_type(inner, type_)
        case Not(operand):
            return _negate(_of_type(operand, type_))
        case And(parts):
            return _combine("and", [_of_type(part, type_) for part in parts])
        case Or(parts):
            return _combine("or", [_of_type(part, type_) for part in parts])


def _assign(value: _Residual, condition: str, truth: bool | None) -> _Residual:
    if not isinstance(value, tuple) or condition not in _conditions(value):
        return value
    if value[0] == "condition":
        return truth
    parts = [_assign(part, condition, truth) for part in value[1:]]  # type: ignore[arg-type]
    return _negate(parts[0]) if value[0] == "not" else _combine(str(value[0]), parts)


def _negate(value: _Residual) -> _Residual:
    if isinstance(value, tuple):
        return ("not", value)
    return None if value is None else not value


def _combine(word: str, parts: list[_Residual]) -> _Residual:
    absorbing = word == "or"
    if any(part is absorbing for part in parts):
        return absorbing
    left = tuple(dict.fromkeys(part for part in parts if part is not (not absorbing)))
    if not left:
        return not absorbing
    return left[0] if len(left) == 1 else (word, *left)


@lru_cache(maxsize=65_536)
def _conditions(value: _Residual) -> frozenset[str]:
    if not isinstance(value, tuple):
        return frozenset()
    if value[0] == "condition":
        return frozenset({str(value[1])})
    return frozenset[str]().union(*(_conditions(part) for part in value[1:]))


EVALUATIONS_MAX = 500_000
_Truths = dict[str, "bool | None"]


def possible_situations(situations: Sequence[Situation], predicates: Sequence[Predicate]) -> tuple[Situation, ...]:
    """The situations that can occur, each with answers of its conditions that occur together."""
    answers = _answers(predicates)
    types = dict.fromkeys(situation.type for situation in situations)
    if answers is None or len(answers) * len(types) * len(predicates) > EVALUATIONS_MAX:
        return tuple(situations)
    possible: dict[tuple[str | None, int], _Truths] = {}
    for type_ in types:
        for truths in answers:
            event = Event(type_ or "", 0, truths)
            vector = sum(1 << number for number, predicate in enumerate(predicates) if holds(predicate, event, _look_up))
            known = possible.get((type_, vector))
            if known is None or _unknowns(truths) < _unknowns(known):
                possible[type_, vector] = truths
    kept: list[Situation] = []
    for situation in situations:
        own = possible.get((situation.type, situation.vector))
        if own is not None:
            kept.append(replace(situation, truths=tuple((text, own[text]) for text, _ in situation.truths)))
    return tuple(kept)


def _answers(predicates: Sequence[Predicate]) -> list[_Truths] | None:
    """What the conditions can answer together; None where that takes too long to find out."""
    texts = list(dict.fromkeys(atom.text for p in predicates for atom in atoms(p) if isinstance(atom, Condition)))
    try:
        space = TruthSpace([parse(text) for text in texts])
    except ConditionError:
        # It reads registers.
        return None
    if not space.is_small:
        return None
    return [dict(zip(texts, answer, strict=True)) for answer in dict.fromkeys(answer for _, answer in space.answers())]


def _look_up(text: str, subject: object) -> bool | None:
    return cast(_Truths, subject)[text]


def _unknowns(truths: _Truths) -> int:
    return sum(truth is None for truth in truths.values())


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
