"""The interpreter: the specification's table of meanings, written down as recursion over the tree.

Owns the reference meaning. Promises: states are values, nothing is cached, every rule of the specification is one
branch here. Written without looking at machine or table; they are tested against it.

Time: a *tick* is an input of its own at the earliest deadline. All timers with that very deadline complete on it
together, as children that get the same event do, so the rulings on order and on simultaneous success and failure hold
for them too. Whatever a tick starts is started at the deadline, not when the engine came round to it. Guards of modes
and predicates do not see ticks."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lang.ecl.conditions import evaluate_condition
from headrace.lang.ecl.errors import TimerFlood
from headrace.lang.ecl.events import Evaluator, Event, Output, Status
from headrace.lang.ecl.predicate import holds
from headrace.lang.ecl.tree import (
    Accumulate,
    After,
    Expr,
    Fail,
    Loop,
    Match,
    Modes,
    Parallel,
    Pattern,
    Persist,
    Predicate,
    Push,
    Repeat,
    Select,
    SelectStar,
    Sequential,
    Unless,
    Within,
    lower,
)

FIRINGS_MAX = 100_000
WAITING, SUCCESS, FAILURE = Status.WAITING, Status.SUCCESS, Status.FAILURE
Inner = object
"""A node's state: a deadline, a tuple of children's states (None: completed), or (number, child's state)."""
_Result = tuple[Status, "Inner", tuple[Output, ...]]


@dataclass(frozen=True, slots=True)
class InterpreterState:
    """Where an instance stands; `inner` is None once it has completed."""

    status: Status
    inner: Inner


@dataclass(frozen=True, slots=True)
class _Input:
    """An event, or a tick of the clock (`event` is None)."""

    now: int
    event: Event | None
    evaluator: Evaluator

    def satisfies(self, predicate: Predicate) -> bool:
        return self.event is not None and holds(predicate, self.event, self.evaluator)


class Interpreter:
    """An engine that runs the tree itself."""

    def __init__(self, pattern: Pattern, *, evaluator: Evaluator = evaluate_condition) -> None:
        self._expr = lower(pattern.expr)
        self._evaluator = evaluator

    def start(self, time: int) -> InterpreterState:
        return InterpreterState(WAITING, _start(self._expr, time))

    def step(self, state: InterpreterState, event: Event) -> tuple[InterpreterState, tuple[Output, ...]]:
        state, fired = self.advance(state, event.time)
        state, outputs = self._take(state, _Input(event.time, event, self._evaluator))
        return state, fired + outputs

    def advance(self, state: InterpreterState, time: int) -> tuple[InterpreterState, tuple[Output, ...]]:
        outputs: list[Output] = []
        for _ in range(FIRINGS_MAX):
            deadline = self.next_deadline(state)
            if deadline is None or deadline > time:
                return state, tuple(outputs)
            state, fired = self._take(state, _Input(deadline, None, self._evaluator))
            outputs += fired
        raise TimerFlood(f"more than {FIRINGS_MAX} timer firings up to {time} us; advance in smaller spans")

    def status(self, state: InterpreterState) -> Status:
        return state.status

    def next_deadline(self, state: InterpreterState) -> int | None:
        return None if state.inner is None else min(_deadlines(self._expr, state.inner), default=None)

    def _take(self, state: InterpreterState, given: _Input) -> tuple[InterpreterState, tuple[Output, ...]]:
        if state.inner is None:
            return state, ()
        status, inner, outputs = _step(self._expr, state.inner, given)
        return InterpreterState(status, inner if status is WAITING else None), outputs


def _start(expr: Expr, now: int) -> Inner:
    match expr:
        case Match():
            return ()
        case After(duration_us):
            return now + duration_us
        case Accumulate(parts) | Select(parts) | SelectStar(parts) | Parallel(parts):
            return tuple(_start(part, now) for part in parts)
        case Unless(body, stop):
            return (_start(body, now), _start(stop, now))
        case Sequential(parts):
            return (0, _start(parts[0], now))
        case Repeat(body) | Persist(body) | Loop(body):
            return (0, _start(body, now))
        case Modes(modes):
            return (0, _start(modes[0].body, now))
        case Fail(body) | Push(_, body):
            return _start(body, now)
        case Within():
            raise AssertionError("lowered before")


def _step(expr: Expr, state: Inner, given: _Input) -> _Result:
    match expr:
        case Match(predicate):
            return (SUCCESS if given.satisfies(predicate) else WAITING), state, ()
        case After():
            due = given.event is None and state == given.now
            return (SUCCESS if due else WAITING), state, ()
        case Accumulate() | Select() | SelectStar() | Parallel() | Unless():
            return _step_together(expr, state, given)
        case Sequential():
            return _step_sequential(expr, state, given)
        case Repeat() | Persist() | Loop():
            return _step_rounds(expr, state, given)
        case Modes():
            return _step_modes(expr, state, given)
        case Fail(body):
            status, inner, outputs = _step(body, state, given)
            return {SUCCESS: FAILURE, FAILURE: SUCCESS, WAITING: WAITING}[status], inner, outputs
        case Push(token, body):
            status, inner, outputs = _step(body, state, given)
            own = (Output(token, given.now),) if status is SUCCESS else ()
            return status, inner, outputs + own
        case Within():
            raise AssertionError("lowered before")


def _step_together(expr: Accumulate | Select | SelectStar | Parallel | Unless, state: Inner, given: _Input) -> _Result:
    """Children that live side by side and get the same input, left to right."""
    parts = (expr.body, expr.stop) if isinstance(expr, Unless) else expr.children
    assert isinstance(state, tuple)
    states: list[Inner] = list(state)
    news: list[Status] = []
    outputs: tuple[Output, ...] = ()
    for index, part in enumerate(parts):
        if states[index] is None:
            news.append(WAITING)
            continue
        status, inner, made = _step(part, states[index], given)
        states[index] = inner if status is WAITING else None
        news.append(status)
        outputs += made
    return _verdict(expr, states, news), tuple(states), outputs


def _verdict(expr: Accumulate | Select | SelectStar | Parallel | Unless, states: list[Inner], news: list[Status]) -> Status:
    match expr:
        case Accumulate():
            # No failure ever stays: so a child that is done has succeeded.
            if FAILURE in news:
                return FAILURE
            return SUCCESS if all(state is None for state in states) else WAITING
        case Select():
            if SUCCESS in news:
                return SUCCESS
            return FAILURE if all(state is None for state in states) else WAITING
        case SelectStar():
            if SUCCESS in news:
                return SUCCESS
            return FAILURE if FAILURE in news else WAITING
        case Unless():
            if news[0] is SUCCESS:
                return SUCCESS
            return FAILURE if news[0] is FAILURE or news[1] is SUCCESS else WAITING
        case Parallel():
            return WAITING


def _step_sequential(expr: Sequential, state: Inner, given: _Input) -> _Result:
    assert isinstance(state, tuple)
    index, inner = state
    status, inner, outputs = _step(expr.children[index], inner, given)
    if status is SUCCESS and index + 1 < len(expr.children):
        return WAITING, (index + 1, _start(expr.children[index + 1], given.now)), outputs
    return status, (index, inner), outputs


def _step_rounds(expr: Repeat | Persist | Loop, state: Inner, given: _Input) -> _Result:
    assert isinstance(state, tuple)
    done, inner = state
    status, inner, outputs = _step(expr.body, inner, given)
    if status is WAITING:
        return WAITING, (done, inner), outputs
    match expr:
        case Persist() if status is SUCCESS:
            return SUCCESS, state, outputs
        case Loop() if status is FAILURE:
            return FAILURE, state, outputs
        case _ if done + 1 == expr.times:
            return (FAILURE if isinstance(expr, Persist) else SUCCESS), state, outputs
    # Without a bound nothing reads the count; left at 0, equal situations are equal states.
    return WAITING, (done + 1 if expr.times else 0, _start(expr.body, given.now)), outputs


def _step_modes(expr: Modes, state: Inner, given: _Input) -> _Result:
    assert isinstance(state, tuple)
    active, inner = state
    for index, mode in enumerate(expr.modes):
        if index != active and given.satisfies(mode.guard):
            return WAITING, (index, _start(mode.body, given.now)), ()
    if inner is None:
        return WAITING, state, ()
    status, inner, outputs = _step(expr.modes[active].body, inner, given)
    return WAITING, (active, inner if status is WAITING else None), outputs


def _deadlines(expr: Expr, state: Inner) -> list[int]:
    """Deadlines of the timers that live in a state."""
    if state is None:
        return []
    match expr:
        case After():
            assert isinstance(state, int)
            return [state]
        case Fail(body) | Push(_, body):
            return _deadlines(body, state)
        case Match() | Within():
            return []
    assert isinstance(state, tuple)
    match expr:
        case Sequential(parts):
            return _deadlines(parts[state[0]], state[1])
        case Repeat(body) | Persist(body) | Loop(body):
            return _deadlines(body, state[1])
        case Modes(modes):
            return _deadlines(modes[state[0]].body, state[1])
        case Unless(body, stop):
            return _deadlines(body, state[0]) + _deadlines(stop, state[1])
        case Accumulate(parts) | Select(parts) | SelectStar(parts) | Parallel(parts):
            pairs = zip(parts, state, strict=True)
            return [deadline for part, inner in pairs for deadline in _deadlines(part, inner)]
