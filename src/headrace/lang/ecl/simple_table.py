"""A simple table as flat arrays by cell: the encoding that the SQL functions and the compiled loop on Spark execute.

cell = state * width + symbol. A *mark* says what the transition of a cell means: bit CHANGES (the event is evidence), bit
TO_START (evidence begins anew after it), and from ACTION_SHIFT on the number of its action, whose tokens it outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from headrace.lang.ecl.network import Flat, step_units
from headrace.lang.ecl.table import Table

CHANGES, TO_START, ACTION_SHIFT = 1, 2, 2
CELLS_MAX = 10_000
"""Cells to which a table of several units is multiplied out; each takes a few microseconds to find."""


@dataclass(frozen=True)
class SimpleTable:
    """`following` is the next state and `marks` the mark of each cell; `tokens` are the outputs of each action, `idle` the symbols
    that change nothing in any state."""

    width: int
    following: tuple[int, ...]
    marks: tuple[int, ...]
    tokens: tuple[tuple[str, ...], ...]
    idle: tuple[int, ...]

    @classmethod
    def from_table(cls, table: Table) -> SimpleTable:
        (unit,) = table.units
        assert isinstance(unit, Flat)
        marks = [_mark(cell // unit.symbols, unit.next[cell], unit.action[cell]) for cell in range(len(unit.next))]
        tokens = tuple(tuple(table.tokens[token] for token in tokens) for tokens, _ in table.actions)
        return cls.from_cells(unit.symbols, unit.next, marks, tokens)

    @classmethod
    def from_cells(
        cls, width: int, following: Sequence[int], marks: Sequence[int], tokens: tuple[tuple[str, ...], ...]
    ) -> SimpleTable:
        idle = tuple(symbol for symbol in range(width) if not any(marks[symbol::width]))
        return cls(width, tuple(following), tuple(marks), tokens, idle)

    @property
    def pushing(self) -> tuple[int, ...]:
        """The symbols that can push a token."""
        return tuple(
            symbol
            for symbol in range(self.width)
            if any(self.tokens[mark >> ACTION_SHIFT] for mark in self.marks[symbol :: self.width])
        )

    @property
    def reachable(self) -> list[int]:
        """The states that can occur: the final states of a pattern that never completes cannot."""
        states = [0]
        for state in states:
            row = self.following[state * self.width : (state + 1) * self.width]
            states += [after for after in dict.fromkeys(row) if after not in states]
        return states


@dataclass(frozen=True)
class ProductAutomaton:
    """A table of several units, without timers and registers, as one automaton: `states` are the integers of the units in each
    of its states. A symbol is the number of an event's symbols in all alphabets, the first of them the lowest digit."""

    simple: SimpleTable
    states: tuple[tuple[int, ...], ...]

    @classmethod
    def from_table(cls, table: Table) -> ProductAutomaton | None:
        """None for a table with timers or registers, and for one with more cells than CELLS_MAX."""
        # Every micro-batch asks.
        known = table.memo.setdefault("multiplied", {})
        if table.start_units not in known:
            known[table.start_units] = cls._multiply(table)
        multiplied: ProductAutomaton | None = known[table.start_units]
        return multiplied

    @classmethod
    def _multiply(cls, table: Table) -> ProductAutomaton | None:
        width = prod(alphabet.size for alphabet in table.alphabets)
        if table.timers or table.registers is not None or width > CELLS_MAX:
            return None
        symbols = [digits[::-1] for digits in product(*(range(alphabet.size) for alphabet in reversed(table.alphabets)))]
        numbers = {table.start_units: 0}
        actions: dict[tuple[int, ...], int] = {(): 0}
        following: list[int] = []
        marks: list[int] = []
        # The list grows while it is walked through: each new state gets its turn.
        states = [table.start_units]
        for number, units in enumerate(states):
            if len(states) * width > CELLS_MAX:
                return None
            for own in symbols:
                after, pushed, _ = step_units(table.units, table.actions, units, own, 0)
                if after not in numbers:
                    numbers[after] = len(states)
                    states.append(after)
                action = actions.setdefault(tuple(pushed), len(actions))
                following.append(numbers[after])
                marks.append(_mark(number, numbers[after], action))
        tokens = tuple(tuple(table.tokens[token] for token in pushed) for pushed in actions)
        return cls(SimpleTable.from_cells(width, following, marks, tokens), tuple(states))


def _mark(state: int, following: int, action: int) -> int:
    changes = following != state or action != 0
    return (action << ACTION_SHIFT) + (TO_START if changes and following == 0 else 0) + (CHANGES if changes else 0)
