"""The correlation machine: places, and transitions (En, a, Clr, Tgt, o) under a priority order, with finals s and f.

Owns the machine's form, its step semantics, and the way from a pattern to its machine.

A step on an event is one micro-step of the transitions that match the event, then ε micro-steps to quiescence. A
transition fires when it is enabled, matches the input, and no enabled transition *matching the same input* precedes it
(the corrected C2). In the first micro-step all such transitions fire together: they lie in different leaves, or a guard
has silenced all others of its modes. ε transitions are ordered totally by their numbers (inner before outer, earlier
before later), so each ε micro-step fires one and makes at most one output; the step's outputs are the ordered list (the
corrected C3). A tick of the clock is an input like an event; it matches the timers whose deadline it is.

Every construct is a module. It owns its places, says which are initial, and ends by marking its place s (success) or f (failure). The
parent clears a finished child's places together with all others it no longer needs. Transitions are numbered in the order they are
made: children before parents, left before right, success before failure. That number is the priority of ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from headrace.lang.ecl import tree as t
from headrace.lang.ecl.drawing import Dot, Form, Graph, notebook_html, render
from headrace.lang.ecl.engine import Engine, Evaluator, Event, Output, Status, evaluate_condition, holds
from headrace.lang.ecl.errors import PatternError, StateLimitExceeded
from headrace.lang.ecl.registers import make_registers
from headrace.lang.ecl.tree import Predicate, print_expr, print_predicate

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
        return notebook_html(_machine_graph(self))


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


PLACES_MAX = 50_000


@dataclass(frozen=True, slots=True)
class _Module:
    initial: frozenset[int]
    success: int
    failure: int
    places: frozenset[int]


def build_machine(pattern: t.Pattern, *, places_max: int = PLACES_MAX) -> Machine:
    """The machine of a pattern. Counter places make it as large as its bounds: `loop(1000)` has a thousand."""
    if not is_of_the_paper(pattern):
        hint = "use the compiled table; the machine is the paper's, without `as`, `count`, `each` and `next`"
        raise PatternError("the correlation machine has no registers", hint=hint)
    builder = _Builder(places_max)
    module = builder.module(t.lower(pattern.expr))
    return Machine(
        names=tuple(builder.names),
        initial=module.initial,
        transitions=tuple(builder.transitions),
        success=module.success,
        failure=module.failure,
        clocks=builder.clocks,
    )


def is_of_the_paper(pattern: t.Pattern) -> bool:
    """Whether a pattern uses only what the paper's machine has, and timers."""
    return make_registers(pattern) is None and not any(isinstance(node, t.Chain) for node in t.walk(pattern.expr))


class _Builder:
    def __init__(self, places_max: int) -> None:
        self.names: list[str] = []
        self.transitions: list[Transition] = []
        self.clocks: dict[int, int] = {}
        self._places_max = places_max

    def module(self, expr: t.Expr) -> _Module:
        match expr:
            case t.Match(predicate):
                return self._leaf(print_predicate(predicate), predicate)
            case t.After(duration_us):
                module = self._leaf(print_expr(expr), TIMER)
                (place,) = module.initial
                self.clocks[place] = duration_us
                return module
            case t.Sequential(parts):
                return self._sequential([self.module(part) for part in parts])
            case t.Modes(modes):
                return self._modes(modes)
            case t.Repeat(body, times) | t.Persist(body, times) | t.Loop(body, times):
                return self._rounds(expr, self.module(body), times)
            case _:
                return self._together(expr, [self.module(part) for part in t.children(expr)])

    def _add_place(self, name: str) -> int:
        if len(self.names) >= self._places_max:
            hint = "lower the bounds of repeat, persist and loop, or use the compiled table"
            raise StateLimitExceeded("the machine", needed=len(self.names) + 1, allowed=self._places_max, hint=hint)
        self.names.append(name)
        return len(self.names) - 1

    def _add(
        self,
        enabled: Sequence[Sequence[int]],
        clear: frozenset[int],
        target: frozenset[int],
        *,
        label: Label = EPSILON,
        output: str | None = None,
    ) -> None:
        clauses = tuple(frozenset(clause) for clause in enabled)
        self.transitions.append(Transition(clauses, label, clear, target, output))

    def _leaf(self, name: str, label: Label) -> _Module:
        wait, success, failure = self._add_place(name), self._add_place("s"), self._add_place("f")
        self._add([[wait]], frozenset({wait}), frozenset({success}), label=label)
        return _Module(frozenset({wait}), success, failure, frozenset({wait, success, failure}))

    def _together(self, expr: t.Expr, parts: list[_Module]) -> _Module:
        success, failure = self._add_place("s"), self._add_place("f")
        inner = frozenset[int]().union(*(part.places for part in parts))
        s, f = [part.success for part in parts], [part.failure for part in parts]
        each_s, each_f = [[place] for place in s], [[place] for place in f]
        output: str | None = None
        match expr:
            case t.Accumulate():
                win, lose = each_s, [f]
            case t.Select():
                win, lose = [s], each_f
            case t.SelectStar():
                win, lose = [s], [f]
            case t.Unless():
                win, lose = [[s[0]]], [[f[0], s[1]]]
            case t.Fail():
                win, lose = [f], [s]
            case t.Push(token):
                win, lose, output = [s], [f], token
            case _:
                assert isinstance(expr, t.Parallel)
                win, lose = [], []
        if win:
            self._add(win, inner, frozenset({success}), output=output)
            self._add(lose, inner, frozenset({failure}))
        initial = frozenset[int]().union(*(part.initial for part in parts))
        return _Module(initial, success, failure, inner | {success, failure})

    def _sequential(self, parts: list[_Module]) -> _Module:
        success, failure = self._add_place("s"), self._add_place("f")
        inner = frozenset[int]().union(*(part.places for part in parts))
        for part, following in pairwise(parts):
            self._add([[part.success]], part.places, following.initial)
        self._add([[parts[-1].success]], inner, frozenset({success}))
        self._add([[part.failure for part in parts]], inner, frozenset({failure}))
        return _Module(parts[0].initial, success, failure, inner | {success, failure})

    def _rounds(self, expr: t.Bounded, body: _Module, times: int | None) -> _Module:
        success, failure = self._add_place("s"), self._add_place("f")
        match expr:
            case t.Repeat():
                again, out, end = [body.success, body.failure], None, success
            case t.Loop():
                again, out, end = [body.success], (body.failure, failure), success
            case t.Persist():
                again, out, end = [body.failure], (body.success, success), failure
        counters = [self._add_place(f"c{number}") for number in range(1, (times or 0) + 1)]
        inner = body.places | frozenset(counters)
        if times is None:
            self._add([again], body.places, body.initial)
        for counter, following in pairwise(counters):
            self._add([again, [counter]], body.places | {counter}, body.initial | {following})
        if times is not None:
            self._add([again, [counters[-1]]], inner, frozenset({end}))
        if out is not None:
            self._add([[out[0]]], inner, frozenset({out[1]}))
        return _Module(body.initial | frozenset(counters[:1]), success, failure, inner | {success, failure})

    def _modes(self, modes: tuple[t.Mode, ...]) -> _Module:
        first = len(self.transitions)
        bodies = [self.module(mode.body) for mode in modes]
        last = len(self.transitions)
        success, failure = self._add_place("s"), self._add_place("f")
        active = [self._add_place(f"in ({print_predicate(mode.guard)})") for mode in modes]
        inner = frozenset(active).union(*(body.places for body in bodies))
        guards: list[int] = []
        for index, mode in enumerate(modes):
            others = [place for place in active if place != active[index]]
            if not others:
                continue
            number = len(self.transitions)
            self._add([others], inner, bodies[index].initial | {active[index]}, label=mode.guard)
            self.transitions[number] = replace(self.transitions[number], after=frozenset(guards))
            guards.append(number)
        for number in range(first, last):
            transition = self.transitions[number]
            self.transitions[number] = replace(transition, after=transition.after | frozenset(guards))
        return _Module(bodies[0].initial | {active[0]}, success, failure, inner | {success, failure})


def draw_machine(machine: Machine, *, form: Form = "mermaid") -> str:
    """Places are round, transitions boxes with their input and output; initial places are marked."""
    return render(_machine_graph(machine), form)


def _machine_graph(machine: Machine) -> Graph:
    graph = Graph()
    for place, name in enumerate(machine.names):
        final = {machine.success: "success", machine.failure: "failure"}.get(place)
        graph.nodes.append(Dot(f"p{place}", final or name, "double" if final else "round", place in machine.initial))
    for number, transition in enumerate(machine.transitions):
        graph.nodes.append(Dot(f"t{number}", _transition_label(transition), "box"))
        needed = frozenset[int]().union(*transition.enabled)
        graph.edges.extend((f"p{place}", f"t{number}", "") for place in sorted(needed))
        graph.edges.extend((f"t{number}", f"p{place}", "") for place in sorted(transition.target))
    return graph


def _transition_label(transition: Transition) -> str:
    shown = transition.label if transition.label in (EPSILON, TIMER) else print_predicate(transition.label)
    return f"{shown} / {transition.output}" if transition.output else str(shown)
