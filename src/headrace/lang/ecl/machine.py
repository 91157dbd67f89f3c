"""The correlation machine: places, and transitions (En, a, Clr, Tgt, o) under a priority order, with finals s and f.

Owns the machine's form and its step semantics; machine_builder builds it, one module per construct.

A step on an event is one micro-step of the transitions that match the event, then ε micro-steps to quiescence. A
transition fires when it is enabled, matches the input, and no enabled transition *matching the same input* precedes it
(the corrected C2). In the first micro-step all such transitions fire together: they lie in different leaves, or a guard
has silenced all others of its modes. ε transitions are ordered totally by their numbers (inner before outer, earlier
before later), so each ε micro-step fires one and makes at most one output; the step's outputs are the ordered list (the
corrected C3). A tick of the clock is an input like an event; it matches the timers whose deadline it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.lang.ecl.events import Engine, Evaluator, Event, Output, Status
from headrace.lang.ecl.predicate import evaluate_condition, holds
from headrace.lang.ecl.tree import Predicate

EPSILON: Literal["ε"] = "ε"
TIMER: Literal["timer"] = "timer"
Label = Predicate | Literal["ε", "timer"]


@dataclass(frozen=True, slots=True)
class Transition:
    """`enabled` is En in conjunctive normal form: of each clause one place must be marked.

    `after` are the transitions that precede this one (by number) and silence it when they can fire."""

    enabled: tuple[frozenset[int], ...]
    label: Label
    clear: frozenset[int]
    target: frozenset[int]
    output: str | None = None
    after: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Machine:
    """Places are numbers; `names` says what each is, for drawings. `clocks` gives timer places their durations."""

    names: tuple[str, ...]
    initial: frozenset[int]
    transitions: tuple[Transition, ...]
    success: int
    failure: int
    clocks: dict[int, int]

    def _repr_html_(self) -> str:
        # Drawing imports this module.
        from headrace.lang.ecl.drawing import notebook_html

        return notebook_html(self)


@dataclass(frozen=True, slots=True)
class MachineState:
    """The marked places, and for marked timer places their deadlines (place, deadline)."""

    marked: frozenset[int]
    deadlines: frozenset[tuple[int, int]]


class MachineEngine(Engine[MachineState]):
    """An engine that runs a correlation machine."""

    def __init__(self, machine: Machine, *, evaluator: Evaluator = evaluate_condition) -> None:
        self._machine = machine
        self._evaluator = evaluator
        self._inputs: dict[int, list[int]] = {}
        self._epsilons: dict[int, list[int]] = {}
        for number, transition in enumerate(machine.transitions):
            index = self._epsilons if transition.label == EPSILON else self._inputs
            for place in frozenset().union(*transition.enabled):
                index.setdefault(place, []).append(number)

    def start(self, time: int) -> MachineState:
        return self._mark(MachineState(frozenset(), frozenset()), frozenset(), self._machine.initial, time)

    def status(self, state: MachineState) -> Status:
        if self._machine.success in state.marked:
            return Status.SUCCESS
        return Status.FAILURE if self._machine.failure in state.marked else Status.WAITING

    def next_deadline(self, state: MachineState) -> int | None:
        return min((deadline for _, deadline in state.deadlines), default=None)

    def take(self, state: MachineState, event: Event | None, now: int) -> tuple[MachineState, tuple[Output, ...]]:
        state = self._input_step(state, event, now)
        outputs: list[Output] = []
        while (number := self._urgent(state.marked)) is not None:
            transition = self._machine.transitions[number]
            state = self._mark(state, transition.clear, transition.target, now)
            if transition.output is not None:
                outputs.append(Output(transition.output, now))
        return state, tuple(outputs)

    def _input_step(self, state: MachineState, event: Event | None, now: int) -> MachineState:
        numbers = {number for place in state.marked for number in self._inputs.get(place, ())}
        ready = {number for number in numbers if self._matches(number, state, event, now)}
        clear: set[int] = set()
        target: set[int] = set()
        for number in ready:
            transition = self._machine.transitions[number]
            if transition.after.isdisjoint(ready):
                clear |= transition.clear
                target |= transition.target
        return self._mark(state, frozenset(clear), frozenset(target), now)

    def _matches(self, number: int, state: MachineState, event: Event | None, now: int) -> bool:
        transition = self._machine.transitions[number]
        if any(clause.isdisjoint(state.marked) for clause in transition.enabled):
            return False
        if transition.label == TIMER:
            (clause,) = transition.enabled
            return event is None and any((place, now) in state.deadlines for place in clause)
        assert transition.label != EPSILON
        return event is not None and holds(transition.label, event, self._evaluator)

    def _urgent(self, marked: frozenset[int]) -> int | None:
        """The first enabled ε transition; its number is its priority."""
        numbers = {number for place in marked for number in self._epsilons.get(place, ())}
        transitions = self._machine.transitions
        ready = (n for n in numbers if not any(clause.isdisjoint(marked) for clause in transitions[n].enabled))
        return min(ready, default=None)

    def _mark(self, state: MachineState, clear: frozenset[int], target: frozenset[int], now: int) -> MachineState:
        running = {(place, deadline) for place, deadline in state.deadlines if place not in clear}
        clocks = self._machine.clocks
        started = {(place, now + clocks[place]) for place in target if place in clocks}
        return MachineState(state.marked - clear | target, frozenset(running | started))
