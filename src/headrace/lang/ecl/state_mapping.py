"""Maps the states of a table to the states of a changed table that mean the same.

Promises soundness: a state is mapped only to one that answers every future input alike (bisimilar), with its running timers
mapped to timers of the same duration. It may map less than possible, where timers of equal duration changed places.
Patterns that keep values must have the same captures and labels, in the same order. Then a mapped state also keeps and empties the
same values on every future input, so an instance goes on with what it has kept. A condition over kept values is compared by its text.
States are compared without regard to which timers can really come due together: that only separates more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.lang.ecl.budget import COMPILE_STEPS_MAX, Budget
from headrace.lang.ecl.errors import StateLimitExceeded
from headrace.lang.ecl.minimisation import Automaton, Cell, refine
from headrace.lang.ecl.network import live_timers, step_units
from headrace.lang.ecl.parts import submasks
from headrace.lang.ecl.space import CONFIGURATIONS_MAX, joint_inputs
from headrace.lang.ecl.table import Table, TableState, status_of

TIMERS_TOGETHER_MAX = 10


@dataclass(frozen=True, slots=True)
class StateMapping:
    """`units` maps old units to new ones; `timers` gives each new timer the old one that it continues, or None."""

    units: Mapping[tuple[int, ...], tuple[int, ...]]
    timers: tuple[int | None, ...]


def equivalent_states(old: Table, new: Table, *, limit: int = CONFIGURATIONS_MAX, budget: Budget | None = None) -> StateMapping:
    """Old states that behave exactly as some new state. Equivalent are outputs, timers, kept values and the final status."""
    if old.registers != new.registers or (old.registers and old.registers.each):
        # A key of `each` has several machines, each in a state of its own.
        return StateMapping({}, ())
    timers = _paired_timers(old, new)
    budget = budget or Budget(COMPILE_STEPS_MAX, what="comparing the states")
    explored = _Both(old, new, timers, limit, budget)
    automaton = explored.automaton()
    blocks = refine(automaton, budget=budget)
    new_of: dict[int, tuple[int, ...]] = {}
    for (side, units), number in explored.numbers.items():
        if side == 1:
            new_of.setdefault(blocks[number], units)
    mapped: dict[tuple[int, ...], tuple[int, ...]] = {}
    for (side, units), number in explored.numbers.items():
        if side == 0 and blocks[number] in new_of:
            twin = explored.numbers.get((1, units))
            # Of several that behave alike, the one of the same numbers: an unchanged pattern changes no row.
            same = twin is not None and blocks[twin] == blocks[number]
            mapped[units] = units if same else new_of[blocks[number]]
    return StateMapping(mapped, timers)


def _paired_timers(old: Table, new: Table) -> tuple[int | None, ...]:
    """New timers with old ones: the k-th of a duration with the k-th of the same duration."""
    free: dict[int, list[int]] = {}
    for timer, duration_us in enumerate(old.timers):
        free.setdefault(duration_us, []).append(timer)
    return tuple(free[d].pop(0) if free.get(d) else None for d in new.timers)


class _Both:
    """The reachable states of both tables as one automaton, over inputs and timers they have in common."""

    def __init__(self, old: Table, new: Table, timers: tuple[int | None, ...], limit: int, budget: Budget) -> None:
        self._tables = (old, new)
        self._limit = limit
        self._budget = budget
        # Unpaired new timers get numbers of their own, so that no old state can be taken to run them.
        names = [len(old.timers) + n if old_timer is None else old_timer for n, old_timer in enumerate(timers)]
        self._names = (list(range(len(old.timers))), names)
        self.numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self._queue: list[tuple[int, tuple[int, ...]]] = []
        self._actions: dict[object, int] = {}

    def automaton(self) -> Automaton:
        for side, table in enumerate(self._tables):
            self._number(side, table.start_units)
        inputs = joint_inputs(self._tables, budget=self._budget, possible_only=True)
        rows: list[tuple[Cell, ...]] = []
        ticks: list[dict[int, Cell]] = []
        lives: list[int] = []
        for side, units in self._queue:
            table = self._tables[side]
            live = live_timers(table.units, units)
            if live.bit_count() > TIMERS_TOGETHER_MAX:
                what, hint = "timers of one state", "restart the keys instead of mapping their states"
                raise StateLimitExceeded(what, needed=live.bit_count(), allowed=TIMERS_TOGETHER_MAX, hint=hint)
            rows.append(tuple(self._cell(side, units, input_.symbols[side], 0) for input_ in inputs))
            pairs = {self._renamed(side, due): self._cell(side, units, None, due) for due in submasks(live)}
            ticks.append(dict(sorted(pairs.items())))
            status = status_of(table, TableState(units))
            lives.append(self._action((status, self._renamed(side, live))))
        return Automaton(tuple(rows), tuple(ticks), tuple(lives))

    def _cell(self, side: int, units: tuple[int, ...], symbols: tuple[int, ...] | None, due: int) -> Cell:
        table = self._tables[side]
        self._budget.spend(4 + len(table.units))
        after, pushed, started = step_units(table.units, table.actions, units, symbols, due)
        # The tables have the same registers, so a label has one number in both.
        registers = (tuple(table.recorded(pushed)), tuple(table.cleared(started)))
        action = self._action((table.pushed(pushed), registers, self._renamed(side, started)))
        return self._number(side, after), action

    def _number(self, side: int, units: tuple[int, ...]) -> int:
        key = (side, units)
        if key not in self.numbers:
            if len(self.numbers) >= self._limit:
                needed, hint = len(self.numbers) + 1, "restart the keys instead of mapping their states"
                raise StateLimitExceeded("comparing the states", needed=needed, allowed=self._limit, hint=hint)
            self.numbers[key] = len(self.numbers)
            self._queue.append(key)
        return self.numbers[key]

    def _action(self, behaviour: object) -> int:
        return self._actions.setdefault(behaviour, len(self._actions))

    def _renamed(self, side: int, mask: int) -> int:
        return sum(1 << name for timer, name in enumerate(self._names[side]) if mask >> timer & 1)
