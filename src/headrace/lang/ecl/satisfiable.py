"""Satisfiable truth assignments: which truth values of a pattern's predicates events can produce.

An event has one type, so event types exclude each other; conditions are opaque, so each is true, false or unknown
independently of all others. A *situation* is a type, an assignment of the conditions that matter for it, and the vector
of predicates that then hold. Conditions are assigned one by one and partly evaluated predicates are merged when they
have become the same, so the work follows the number of different vectors, not 3^k.

`possible_situations` looks into the conditions and leaves out answers that exclude each other. Promises soundness: a situation that some
event produces is kept. Where the conditions are too many or too involved, all are kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

from headrace.lang.condition import ConditionError, TruthSpace, parse
from headrace.lang.ecl.engine import Event, holds
from headrace.lang.ecl.errors import COMPILE_STEPS_MAX, Budget
from headrace.lang.ecl.tree import And, Condition, EventType, Literal, Named, Not, Or, Predicate, atoms

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
    """The situations of sets of predicates, each set asked for by its bit mask."""

    def __init__(self, predicates: Sequence[Predicate], *, situations_max: int, budget: Budget | None = None) -> None:
        self._predicates = predicates
        self._budget = budget or Budget(COMPILE_STEPS_MAX)
        self._max = situations_max
        self._known: dict[int, tuple[Situation, ...] | None] = {}

    def of(self, mask: int) -> tuple[Situation, ...]:
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
    residuals: tuple[_Residual, ...], conditions: Iterable[str], most: int, budget: Budget
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
        if len(following) > most:
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
