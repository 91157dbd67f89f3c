"""Near misses: the smallest change to a sequence of events that would have made a pattern output.

Tried are, on one event at a time: another answer of one of its conditions, an earlier time where it came after a deadline, an event that is
missing before it (or after the last), and its removal. Every change that leads to an output was run; nothing here is guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.lang.ecl.alphabet import Example, label
from headrace.lang.ecl.engine import Engine, Evaluator, Event, Output, evaluate_condition
from headrace.lang.ecl.registers import AlteredSubject
from headrace.lang.ecl.space import joint_inputs
from headrace.lang.ecl.table import Table, TableState, table_engine
from headrace.lang.ecl.tree import Condition, atoms

EVENTS_MAX = 200
"""Every event is changed in every way and the rest is run again, so the work grows with the square."""


class Change(StrEnum):
    """What would have had to be different, the likeliest first."""

    CONDITION = "condition"
    LATE = "late"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A change at an event (`number` counts from 0; the number of events: after the last) that leads to an output.

    `text` is the condition or the missing event, `wanted` the answer of the condition, `late_us` how much too late the event came.
    `values` are what a condition over kept values compared: those of the event, and those that were kept before it."""

    change: Change
    number: int
    output: Output
    text: str = ""
    wanted: bool = True
    late_us: int = 0
    values: tuple[tuple[str, str], ...] = ()


def find_near_misses(
    table: Table,
    events: Sequence[Event],
    *,
    until: int | None = None,
    token: str | None = None,
    evaluator: Evaluator = evaluate_condition,
) -> list[NearMiss]:
    """The changes that would have led to an output (of a token), each run; likeliest first, of one kind the latest first.

    `until` is the time up to which timers have fired. Empty if none of them would, or if the events do lead to an output."""
    search = _Search(table, list(events)[-EVENTS_MAX:], until, token, evaluator)
    if search.original is not None:
        return []
    skipped = len(events) - len(search.events)
    misses = [replace(miss, number=miss.number + skipped) for miss in search.all()]
    return sorted(misses, key=lambda miss: ([*Change].index(miss.change), -miss.number))


class _Search:
    def __init__(self, table: Table, events: list[Event], until: int | None, token: str | None, evaluator: Evaluator) -> None:
        self.events = events
        self._table = table
        self._token = token
        self._engine: Engine[object] = table_engine(table, _with_alterations(evaluator))
        self._until = until if until is not None else (events[-1].time if events else 0)
        conditions = [atom.text for predicate in table.predicates for atom in atoms(predicate) if isinstance(atom, Condition)]
        self._conditions = [text for text in dict.fromkeys(conditions) if not text.startswith("count ")]
        self._states = [self._engine.start(events[0].time if events else 0)]
        self.original: Output | None = None
        for event in events:
            state, outputs = self._engine.step(self._states[-1], event)
            self._states.append(state)
            self.original = self.original or self._select_output(outputs)
        self.original = self.original or self._select_output(self._engine.advance(self._states[-1], self._until)[1])

    def all(self) -> Iterator[NearMiss]:
        for number, event in enumerate(self.events):
            yield from self._other_answers(number, event)
            yield from self._earlier(number, event)
            if output := self._run(number, [], number + 1):
                yield NearMiss(Change.EXTRA, number, output)
        for number in range(len(self.events) + 1):
            yield from self._inserted(number)

    def _other_answers(self, number: int, event: Event) -> Iterator[NearMiss]:
        for text in self._conditions:
            for truth in (True, False):
                if output := self._run(number, [replace(event, subject=AlteredSubject(event.subject, text, truth))], number + 1):
                    yield NearMiss(Change.CONDITION, number, output, text, truth, values=self._values(number, text))

    def _values(self, number: int, text: str) -> tuple[tuple[str, str], ...]:
        program = self._table.program
        if program is None or text not in program.dynamic:
            return ()
        state = self._states[number]
        # Of several instances, take the newest.
        instance = (state[-1] if state else None) if isinstance(state, tuple) else state
        memory = instance.memory if isinstance(instance, TableState) else program.empty
        return program.explain(text, self.events[number].subject, memory)

    def _earlier(self, number: int, event: Event) -> Iterator[NearMiss]:
        """Just before the first deadline that passed between the event before it and the event."""
        deadline = self._engine.next_deadline(self._states[number])
        before = self.events[number - 1].time if number else event.time
        if deadline is None or not before < deadline <= event.time:
            return
        if output := self._run(number, [replace(event, time=deadline - 1)], number + 1):
            yield NearMiss(Change.LATE, number, output, late_us=event.time - deadline + 1)

    def _inserted(self, number: int) -> Iterator[NearMiss]:
        at_end = number == len(self.events)
        time = self._until if at_end else self.events[number].time
        deadline = self._engine.next_deadline(self._states[number])
        if deadline is not None and deadline <= time:
            # It would have had to come before the timer.
            time = deadline - 1
        for input_ in joint_inputs([self._table]):
            example = input_.example
            if example is None or example.type is None:
                continue
            event = Event(example.type, time, dict(example.truths))
            if output := self._run(number, [event], number):
                yield NearMiss(Change.MISSING, number, output, _describe(example))

    def _run(self, number: int, instead: list[Event], rest: int) -> Output | None:
        """The first wanted output when other events come in place of those from `number` up to `rest`."""
        state = self._states[number]
        for event in [*instead, *self.events[rest:]]:
            state, outputs = self._engine.step(state, event)
            if output := self._select_output(outputs):
                return output
        return self._select_output(self._engine.advance(state, self._until)[1])

    def _select_output(self, outputs: Sequence[Output]) -> Output | None:
        return next((output for output in outputs if self._token in (None, output.token)), None)


def _describe(example: Example) -> str:
    """Without the conditions that need not hold."""
    return label(Example(example.type, tuple((text, truth) for text, truth in example.truths if truth)))


def _with_alterations(evaluator: Evaluator) -> Evaluator:
    def evaluate(text: str, subject: object) -> bool | None:
        if isinstance(subject, AlteredSubject):
            return subject.truth if text == subject.text else evaluator(text, subject.subject)
        return subject.get(text) if isinstance(subject, dict) else evaluator(text, subject)

    return evaluate
