"""Which situations real events can bring: answers of conditions that exclude each other are left out.

Promises soundness: a situation that some event brings is kept. Where the conditions are too many or too involved, all are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from headrace.lang.condition import ConditionError, TruthSpace, parse
from headrace.lang.ecl.events import Event
from headrace.lang.ecl.predicate import holds
from headrace.lang.ecl.situations import Situation
from headrace.lang.ecl.tree import Condition, Predicate, atoms

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
