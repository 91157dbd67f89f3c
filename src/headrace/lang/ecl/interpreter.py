"""The interpreter: the specification's table of meanings as a recursion over the tree.

Owns the reference meaning. Promises: states are values, nothing is cached, every rule of the specification is one branch here.
It is independent of machine and table, which are tested against it.

Time: a *tick* is an input of its own at the earliest deadline. All timers with that very deadline complete on it
together, as children that get the same event do, so the rulings on order and on simultaneous success and failure hold
for them too. Whatever a tick starts is started at the deadline, not when the engine got to it. Guards of modes and predicates
do not see ticks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import cast

from headrace.lang.ecl import tree as t
from headrace.lang.ecl.engine import EachEngine, Engine, Evaluator, Event, Output, Status, evaluate_condition, holds
from headrace.lang.ecl.registers import (
    LABEL_OF_COUNT,
    REACHED,
    Memory,
    RegisterProgram,
    evaluator_at_start,
    evaluator_with_memory,
    make_program,
    start_predicate,
)
from headrace.lang.ecl.tree import Pattern, lower
from headrace.lang.nodes import NodeT, with_parts

WAITING, SUCCESS, FAILURE = Status.WAITING, Status.SUCCESS, Status.FAILURE
Inner = object
"""A node's state: a deadline, a tuple of children's states (None: completed), or (number, child's state)."""
_Result = tuple[Status, "Inner", tuple[Output, ...]]


@dataclass(frozen=True, slots=True)
class InterpreterState:
    """The state of an instance; `inner` is None once it has completed. `memory` are its registers."""

    status: Status
    inner: Inner
    memory: Memory = ()


@dataclass(slots=True)
class _Effects:
    """What a step does to the registers: labels that matched, and labels of loops that started again."""

    recorded: list[str] = field(default_factory=list)
    cleared: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Input:
    """An event, or a tick of the clock (`event` is None)."""

    now: int
    event: Event | None
    evaluator: Evaluator
    effects: _Effects = field(default_factory=_Effects)

    def satisfies(self, predicate: t.Predicate) -> bool:
        return self.event is not None and holds(predicate, self.event, self.evaluator)


class Interpreter(Engine[InterpreterState]):
    """An engine that runs the tree itself."""

    def __init__(self, pattern: Pattern, *, evaluator: Evaluator = evaluate_condition) -> None:
        self._program = make_program(pattern)
        self._expr = _numbered(lower(pattern.expr), count(1))
        self._evaluator = evaluator

    def start(self, time: int) -> InterpreterState:
        memory = self._program.empty if self._program else ()
        return InterpreterState(WAITING, _start(self._expr, time, _Effects()), memory)

    def status(self, state: InterpreterState) -> Status:
        return state.status

    def next_deadline(self, state: InterpreterState) -> int | None:
        return None if state.inner is None else min(_deadlines(self._expr, state.inner), default=None)

    def take(self, state: InterpreterState, event: Event | None, now: int) -> tuple[InterpreterState, tuple[Output, ...]]:
        if state.inner is None:
            return state, ()
        evaluator = self._evaluator
        if self._program:
            evaluator = evaluator_with_memory(self._program, evaluator, state.memory, now)
        input_ = _Input(now, event, evaluator)
        status, inner, outputs = _step(self._expr, state.inner, input_)
        memory = _remember(self._program, state.memory, input_) if self._program else state.memory
        return InterpreterState(status, inner if status is WAITING else None, memory), outputs


def interpreter_of(pattern: Pattern, evaluator: Evaluator = evaluate_condition) -> Engine[object]:
    """The interpreter of a pattern, with `each` or without."""
    inner = cast(Engine[object], Interpreter(pattern, evaluator=evaluator))
    program = make_program(pattern)
    if program is None or not pattern.each:
        return inner
    return cast(
        Engine[object],
        EachEngine(inner, start_predicate(lower(pattern.expr)), pattern.each, evaluator=evaluator_at_start(program, evaluator)),
    )


def _remember(program: RegisterProgram, memory: Memory, input_: _Input) -> Memory:
    labels = program.registers.labels
    fields = None if input_.event is None else program.read_fields(input_.event.subject)
    memory = program.record(memory, [labels.index(label) for label in input_.effects.recorded], fields, input_.now)
    return program.clear(memory, [labels.index(label) for label in input_.effects.cleared])


@dataclass(frozen=True, slots=True)
class _Counted(t.Count):
    """A count with its number in the text."""

    number: int


def _numbered(node: NodeT, numbers: Iterator[int]) -> NodeT:
    """The expression with its counts numbered, in the order of the text."""
    if isinstance(node, t.Count):
        return cast(NodeT, _Counted(node.times, node.duration_us, node.predicate, next(numbers)))
    return with_parts(node, lambda part: _numbered(part, numbers))


def _start(expr: t.Expr, now: int, effects: _Effects) -> Inner:
    match expr:
        case t.Match():
            return ()
        case t.Chain():
            # The lengths of the beginnings that the latest events make.
            return frozenset[int]()
        case _Counted(number=number):
            effects.cleared.append(LABEL_OF_COUNT.format(number))
            return ()
        case t.After(duration_us):
            return now + duration_us
        case t.Accumulate(parts) | t.Select(parts) | t.SelectStar(parts) | t.Parallel(parts):
            return tuple(_start(part, now, effects) for part in parts)
        case t.Unless(body, stop):
            return (_start(body, now, effects), _start(stop, now, effects))
        case t.Sequential(parts):
            return (0, _start(parts[0], now, effects))
        case t.Bounded(body, _, label):
            if label is not None:
                effects.cleared.append(label)
            return (0, _start(body, now, effects))
        case t.Modes(modes):
            return (0, _start(modes[0].body, now, effects))
        case t.Fail(body) | t.Push(_, body):
            return _start(body, now, effects)
        case t.Within() | t.Count():
            raise AssertionError("lowered before")


def _step(expr: t.Expr, state: Inner, input_: _Input) -> _Result:
    match expr:
        case t.Match():
            return (SUCCESS if _matches(expr, input_) else WAITING), state, ()
        case t.Chain():
            return _step_chain(expr, state, input_)
        case _Counted():
            return _step_count(expr, state, input_)
        case t.After():
            due = input_.event is None and state == input_.now
            return (SUCCESS if due else WAITING), state, ()
        case t.Accumulate() | t.Select() | t.SelectStar() | t.Parallel() | t.Unless():
            return _step_together(expr, state, input_)
        case t.Sequential():
            return _step_sequential(expr, state, input_)
        case t.Bounded():
            return _step_rounds(expr, state, input_)
        case t.Modes():
            return _step_modes(expr, state, input_)
        case t.Fail(body):
            status, inner, outputs = _step(body, state, input_)
            return {SUCCESS: FAILURE, FAILURE: SUCCESS, WAITING: WAITING}[status], inner, outputs
        case t.Push(token, body):
            status, inner, outputs = _step(body, state, input_)
            own = (Output(token, input_.now),) if status is SUCCESS else ()
            return status, inner, outputs + own
        case t.Within() | t.Count():
            raise AssertionError("lowered before")


def _matches(expr: t.Match, input_: _Input) -> bool:
    is_match = input_.satisfies(expr.predicate)
    if is_match and expr.label is not None:
        input_.effects.recorded.append(expr.label)
    return is_match


def _step_chain(expr: t.Chain, state: Inner, input_: _Input) -> _Result:
    """Every beginning that the event continues grows by one, all others end; the event may also be a new first step."""
    if input_.event is None:
        return WAITING, state, ()
    assert isinstance(state, frozenset)
    grown: set[int] = set()
    for length in sorted({0, *state}):
        if _matches(expr.steps[length], input_):
            grown.add(length + 1)
    return (SUCCESS if len(expr.steps) in grown else WAITING), frozenset(grown), ()


def _step_count(expr: _Counted, state: Inner, input_: _Input) -> _Result:
    if not input_.satisfies(expr.predicate):
        return WAITING, state, ()
    is_reached = input_.satisfies(t.Condition(REACHED.format(expr.number)))
    input_.effects.recorded.append(LABEL_OF_COUNT.format(expr.number))
    return (SUCCESS if is_reached else WAITING), state, ()


def _step_together(expr: t.Accumulate | t.Select | t.SelectStar | t.Parallel | t.Unless, state: Inner, input_: _Input) -> _Result:
    """Children that run side by side and get the same input, left to right."""
    parts = (expr.body, expr.stop) if isinstance(expr, t.Unless) else expr.children
    assert isinstance(state, tuple)
    states: list[Inner] = list(state)
    results: list[Status] = []
    outputs: tuple[Output, ...] = ()
    for index, part in enumerate(parts):
        if states[index] is None:
            results.append(WAITING)
            continue
        status, inner, new_outputs = _step(part, states[index], input_)
        states[index] = inner if status is WAITING else None
        results.append(status)
        outputs += new_outputs
    return _verdict(expr, states, results), tuple(states), outputs


def _verdict(
    expr: t.Accumulate | t.Select | t.SelectStar | t.Parallel | t.Unless, states: list[Inner], results: list[Status]
) -> Status:
    match expr:
        case t.Accumulate():
            # A failure ends the construct at once, so a child that is done has succeeded.
            if FAILURE in results:
                return FAILURE
            return SUCCESS if all(state is None for state in states) else WAITING
        case t.Select():
            if SUCCESS in results:
                return SUCCESS
            return FAILURE if all(state is None for state in states) else WAITING
        case t.SelectStar():
            if SUCCESS in results:
                return SUCCESS
            return FAILURE if FAILURE in results else WAITING
        case t.Unless():
            if results[0] is SUCCESS:
                return SUCCESS
            return FAILURE if results[0] is FAILURE or results[1] is SUCCESS else WAITING
        case t.Parallel():
            return WAITING


def _step_sequential(expr: t.Sequential, state: Inner, input_: _Input) -> _Result:
    assert isinstance(state, tuple)
    index, inner = state
    status, inner, outputs = _step(expr.children[index], inner, input_)
    if status is SUCCESS and index + 1 < len(expr.children):
        return WAITING, (index + 1, _start(expr.children[index + 1], input_.now, input_.effects)), outputs
    return status, (index, inner), outputs


def _step_rounds(expr: t.Repeat | t.Persist | t.Loop, state: Inner, input_: _Input) -> _Result:
    assert isinstance(state, tuple)
    done, inner = state
    status, inner, outputs = _step(expr.body, inner, input_)
    if status is WAITING:
        return WAITING, (done, inner), outputs
    if status is SUCCESS and expr.label is not None:
        input_.effects.recorded.append(expr.label)
    match expr:
        case t.Persist() if status is SUCCESS:
            return SUCCESS, state, outputs
        case t.Loop() if status is FAILURE:
            return FAILURE, state, outputs
        case _ if done + 1 == expr.times:
            return (FAILURE if isinstance(expr, t.Persist) else SUCCESS), state, outputs
    # Without a bound nothing reads the count; at 0, equal situations are equal states.
    return WAITING, (done + 1 if expr.times else 0, _start(expr.body, input_.now, input_.effects)), outputs


def _step_modes(expr: t.Modes, state: Inner, input_: _Input) -> _Result:
    assert isinstance(state, tuple)
    active, inner = state
    for index, mode in enumerate(expr.modes):
        if index != active and input_.satisfies(mode.guard):
            return WAITING, (index, _start(mode.body, input_.now, input_.effects)), ()
    if inner is None:
        return WAITING, state, ()
    status, inner, outputs = _step(expr.modes[active].body, inner, input_)
    return WAITING, (active, inner if status is WAITING else None), outputs


def _deadlines(expr: t.Expr, state: Inner) -> list[int]:
    """The deadlines of the timers that run in a state."""
    if state is None:
        return []
    match expr:
        case t.After():
            assert isinstance(state, int)
            return [state]
        case t.Fail(body) | t.Push(_, body):
            return _deadlines(body, state)
        case t.Match() | t.Chain() | t.Count() | t.Within():
            return []
    assert isinstance(state, tuple)
    match expr:
        case t.Sequential(parts):
            return _deadlines(parts[state[0]], state[1])
        case t.Bounded(body):
            return _deadlines(body, state[1])
        case t.Modes(modes):
            return _deadlines(modes[state[0]].body, state[1])
        case t.Unless(body, stop):
            return _deadlines(body, state[0]) + _deadlines(stop, state[1])
        case t.Accumulate(parts) | t.Select(parts) | t.SelectStar(parts) | t.Parallel(parts):
            pairs = zip(parts, state, strict=True)
            return [deadline for part, inner in pairs for deadline in _deadlines(part, inner)]
