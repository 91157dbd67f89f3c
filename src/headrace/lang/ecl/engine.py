"""What all engines have in common: events and outputs, the truth of a predicate on one event, and instances side by side.

Time is whole microseconds everywhere, so that no engine rounds. Truth is three-valued inside, and unknown counts as false for the
whole. To a pattern, a condition is its canonical text. Two different texts are two independent conditions: no engine and no analysis
looks inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Generic, TypeVar, cast

from headrace.lang.condition import (
    Compare,
    Constant,
    Evaluate,
    Extraction,
    Field,
    Junction,
    Node,
    Not as NotNode,
    Subject,
    Type,
    parse,
    to_python,
)
from headrace.lang.ecl.errors import TimerFlood
from headrace.lang.ecl.tree import And, Condition, EventType, Literal, Named, Not, Or, Predicate

US_PER_S = 1_000_000
FIRINGS_MAX = 100_000


class Status(StrEnum):
    """Whether a pattern waits, or how it has completed."""

    WAITING = "waiting"
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its type, its log time in microseconds, and the subject of its conditions (opaque here)."""

    type: str
    time: int
    subject: object = None


@dataclass(frozen=True, slots=True)
class Output:
    """A pushed token and its time: the event's, or the deadline of the timer that made it."""

    token: str
    time: int


Evaluator = Callable[[str, object], "bool | None"]
"""(condition text, event's subject) → true, false or unknown."""

S = TypeVar("S")


class Engine(ABC, Generic[S]):
    """What interpreter, machine and table have in common. States are values: they are never changed, only replaced."""

    @abstractmethod
    def start(self, time: int) -> S: ...

    @abstractmethod
    def status(self, state: S) -> Status: ...

    @abstractmethod
    def next_deadline(self, state: S) -> int | None: ...

    @abstractmethod
    def take(self, state: S, event: Event | None, now: int) -> tuple[S, tuple[Output, ...]]:
        """One input alone: an event, or without one a tick of the timers whose deadline is `now`."""

    def step(self, state: S, event: Event) -> tuple[S, tuple[Output, ...]]:
        """Timers due at or before the event first, then the event."""
        state, fired = self.advance(state, event.time)
        state, outputs = self.take(state, event, event.time)
        return state, fired + outputs

    def advance(self, state: S, time: int) -> tuple[S, tuple[Output, ...]]:
        """Fires the timers due at or before a time, deadline by deadline; each firing happens at its deadline."""
        outputs: list[Output] = []
        for _ in range(FIRINGS_MAX):
            deadline = self.next_deadline(state)
            if deadline is None or deadline > time:
                return state, tuple(outputs)
            state, fired = self.take(state, None, deadline)
            outputs += fired
        raise TimerFlood(f"more than {FIRINGS_MAX} timer firings up to {time} us; advance in smaller steps")


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


class EachEngine(Engine[tuple[S, ...]], Generic[S]):
    """A pattern with `each`: the instances of another engine, one per start, side by side. The state is those that wait, oldest first.

    An event goes to every running instance, the oldest first. Then, if it satisfies one of the predicates that a fresh instance waits
    for, and fewer than the allowed number run, a fresh one starts with it. Outputs come in that order."""

    def __init__(
        self, inner: Engine[S], start: Predicate, instances_max: int, *, evaluator: Evaluator = evaluate_condition
    ) -> None:
        self._inner = inner
        self._start = start
        self._instances_max = instances_max
        self._evaluator = evaluator

    def start(self, time: int) -> tuple[S, ...]:
        return ()

    def status(self, state: tuple[S, ...]) -> Status:
        return Status.WAITING

    def next_deadline(self, state: tuple[S, ...]) -> int | None:
        deadlines = [self._inner.next_deadline(instance) for instance in state]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def take(self, state: tuple[S, ...], event: Event | None, now: int) -> tuple[tuple[S, ...], tuple[Output, ...]]:
        running: list[S] = []
        outputs: list[Output] = []
        instances = list(state)
        if event is not None and len(state) < self._instances_max and holds(self._start, event, self._evaluator):
            instances.append(self._inner.start(now))
        for instance in instances:
            after: S = instance
            pushed: tuple[Output, ...] = ()
            if event is not None or self._inner.next_deadline(instance) == now:
                after, pushed = self._inner.take(instance, event, now)
            outputs += pushed
            if self._inner.status(after) is Status.WAITING:
                running.append(after)
        return tuple(running), tuple(outputs)
