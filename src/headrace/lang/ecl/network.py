"""The units of a table and their transitions: the one place that executes a compiled pattern.

A table is a list of *units* in textual order, children before parents. A `Flat` unit is a finite automaton: one array look-up per
event. A `Node` is a construct too large to be multiplied out: it holds a small number (a counter, an index) and reacts to the
results of its children. A `Guard` comes before the expressions of its modes and switches between them.

State: one integer per unit. Flat: 0 … n-1 while waiting, n succeeded, n+1 failed. Node: ≥ 0 while waiting, -2 succeeded, -3
failed. Any unit: -1 is off, it takes no input. There is no time here: `step_units` says which timers it started, and the caller
keeps the deadlines.

Registers are not here either: a label that matched is a token after those that are pushed, and a loop that starts is a bit after
the timers; the caller keeps the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import ClassVar

import msgspec

OFF, SUCCEEDED, FAILED = -1, -2, -3
_WAIT, _SUCCESS, _FAILURE, _SWITCHED = 0, 1, 2, 3


class Kind(StrEnum):
    """What a node is; the names are those of the language."""

    ACCUMULATE = "accumulate"
    SELECT = "select"
    SELECT_STAR = "select*"
    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    UNLESS = "unless"
    FAIL = "fail"
    PUSH = "push"
    REPEAT = "repeat"
    PERSIST = "persist"
    LOOP = "loop"
    MODES = "modes"


class Flat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="flat", dict=True):
    """An automaton. `next` and `action` are indexed by state * symbols + symbol; `ticks` are (state, timers due, next, action).

    `live` are the timers running in each state (and in the two final ones: none); `timers` are all it has."""

    alphabet: int
    symbols: int
    states: int
    next: tuple[int, ...]
    action: tuple[int, ...]
    live: tuple[int, ...]
    ticks: tuple[tuple[int, int, int, int], ...]
    timers: int
    first: int = 0
    clears: int = 0
    """Bits of the registers that start empty with it."""

    @cached_property
    def tick_cells(self) -> dict[tuple[int, int], tuple[int, int]]:
        return {(state, due): (following, action) for state, due, following, action in self.ticks}


class Guard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="guard"):
    """The guards of modes: `next` is indexed by active mode * symbols + symbol. `last` is the unit of its modes."""

    alphabet: int
    symbols: int
    modes: int
    next: tuple[int, ...]
    last: int
    first: int = 0
    timers: ClassVar[int] = 0


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="node"):
    """A construct over the units `children`; its subtree is the units `first` … itself.

    `initial` are the integers of that subtree when it starts, `starts` the timers that start with it."""

    kind: Kind
    children: tuple[int, ...]
    first: int
    initial: tuple[int, ...]
    starts: int
    timers: int
    times: int = 0
    token: int = -1


Unit = Flat | Guard | Node
Symbols = Sequence[int] | Mapping[int, int]
"""The symbol of one event in each alphabet."""
Action = tuple[tuple[int, ...], int]
"""(tokens to push, timers to start); action 0 is neither."""


def initial_of(unit: Unit) -> tuple[int, ...]:
    return unit.initial if isinstance(unit, Node) else (0,)


def starts_of(unit: Unit) -> int:
    if isinstance(unit, Flat):
        return unit.live[0] | unit.clears
    return unit.starts if isinstance(unit, Node) else 0


def live_timers(units: Sequence[Unit], state: Sequence[int]) -> int:
    """The timers that run in a state, as a mask."""
    live = 0
    for unit, value in zip(units, state, strict=True):
        if value >= 0 and isinstance(unit, Flat):
            live |= unit.live[value]
    return live


def step_units(
    units: Sequence[Unit], actions: Sequence[Action], state: Sequence[int], symbols: Symbols | None, due: int
) -> tuple[tuple[int, ...], list[int], int]:
    """One input through all units: `symbols` (one per alphabet) for an event, None for a tick of the timers `due`.

    Returns the new state, the tokens pushed in order, and the timers started."""
    step = _Step(units, actions, state, symbols, due)
    for index, unit in enumerate(units):
        if step.state[index] < 0:
            continue
        if isinstance(unit, Flat):
            step.flat(index, unit)
        elif isinstance(unit, Node):
            step.node(index, unit)
        else:
            step.guard(index, unit)
    return tuple(step.state), step.tokens, step.started


class _Step:
    """The working memory of one `step_units`."""

    __slots__ = ("_actions", "_due", "_result", "_symbols", "_units", "started", "state", "tokens")

    def __init__(
        self,
        units: Sequence[Unit],
        actions: Sequence[Action],
        state: Sequence[int],
        symbols: Symbols | None,
        due: int,
    ) -> None:
        self._units = units
        self._actions = actions
        self._symbols = symbols
        self._due = due
        self._result = [_WAIT] * len(units)
        self.state = list(state)
        self.tokens: list[int] = []
        self.started = 0

    def flat(self, index: int, unit: Flat) -> None:
        state = self.state[index]
        if state >= unit.states:
            return
        if self._symbols is not None:
            cell = state * unit.symbols + self._symbols[unit.alphabet]
            following, action = unit.next[cell], unit.action[cell]
        elif due := self._due & unit.timers:
            following, action = unit.tick_cells[state, due]
        else:
            return
        self.state[index] = following
        if action:
            tokens, started = self._actions[action]
            self.tokens.extend(tokens)
            self.started |= started
        if following >= unit.states:
            self._result[index] = _SUCCESS + following - unit.states

    def guard(self, index: int, unit: Guard) -> None:
        if self._symbols is None:
            return
        following = unit.next[self.state[index] * unit.symbols + self._symbols[unit.alphabet]]
        if following != self.state[index]:
            self.state[index] = following
            self._result[index] = _SWITCHED
            # Off before their turn: the switching event must not reach the old expression.
            self.state[index + 1 : unit.last] = [OFF] * (unit.last - index - 1)

    def node(self, index: int, unit: Node) -> None:
        match unit.kind:
            case Kind.MODES:
                if self._result[unit.children[0]] == _SWITCHED:
                    self._begin(unit.children[1 + self.state[unit.children[0]]])
            case Kind.SEQUENTIAL:
                self._sequential(index, unit)
            case Kind.REPEAT | Kind.PERSIST | Kind.LOOP:
                self._rounds(index, unit)
            case Kind.PARALLEL:
                pass
            case _:
                self._together(index, unit)

    def _together(self, index: int, unit: Node) -> None:
        results = [self._result[child] for child in unit.children]
        won, lost = results.count(_SUCCESS), results.count(_FAILURE)
        match unit.kind:
            case Kind.ACCUMULATE:
                self.state[index] -= won
                verdict = _FAILURE if lost else _WAIT if self.state[index] else _SUCCESS
            case Kind.SELECT:
                self.state[index] -= lost
                verdict = _SUCCESS if won else _WAIT if self.state[index] else _FAILURE
            case Kind.SELECT_STAR:
                verdict = _SUCCESS if won else _FAILURE if lost else _WAIT
            case Kind.UNLESS:
                stopped = results[0] == _FAILURE or results[1] == _SUCCESS
                verdict = _SUCCESS if results[0] == _SUCCESS else _FAILURE if stopped else _WAIT
            case Kind.FAIL:
                verdict = _FAILURE if won else _SUCCESS if lost else _WAIT
            case _:
                verdict = results[0]
                if won:
                    self.tokens.append(unit.token)
        if verdict != _WAIT:
            self._finish(index, unit, verdict)

    def _sequential(self, index: int, unit: Node) -> None:
        active = self.state[index]
        result = self._result[unit.children[active]]
        if result == _SUCCESS and active + 1 < len(unit.children):
            self._end(unit.children[active])
            self._begin(unit.children[active + 1])
            self.state[index] = active + 1
        elif result != _WAIT:
            self._finish(index, unit, result)

    def _rounds(self, index: int, unit: Node) -> None:
        (child,) = unit.children
        result = self._result[child]
        if result == _WAIT:
            return
        if (unit.kind is Kind.PERSIST and result == _SUCCESS) or (unit.kind is Kind.LOOP and result == _FAILURE):
            self._finish(index, unit, result)
        elif unit.times and self.state[index] + 1 == unit.times:
            self._finish(index, unit, _FAILURE if unit.kind is Kind.PERSIST else _SUCCESS)
        else:
            self.state[index] += 1 if unit.times else 0
            self._end(child)
            self._begin(child)

    def _begin(self, child: int) -> None:
        unit = self._units[child]
        self.state[unit.first : child + 1] = initial_of(unit)
        self.started |= starts_of(unit)

    def _end(self, child: int) -> None:
        unit = self._units[child]
        self.state[unit.first : child + 1] = [OFF] * (child + 1 - unit.first)
        self.started &= ~unit.timers

    def _finish(self, index: int, unit: Node, verdict: int) -> None:
        self.state[unit.first : index] = [OFF] * (index - unit.first)
        self.started &= ~unit.timers
        self.state[index] = SUCCEEDED if verdict == _SUCCESS else FAILED
        self._result[index] = verdict
