"""A simple table as flat arrays by cell: the encoding that the SQL functions and the compiled loop on Spark execute.

cell = state * width + symbol. A *mark* says what the transition of a cell means: bit CHANGES (the event is evidence), bit
TO_START (evidence begins anew after it), and from ACTION_SHIFT on the number of its action, whose tokens it outputs."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lang.ecl.network import Flat
from headrace.lang.ecl.table import Table

CHANGES, TO_START, ACTION_SHIFT = 1, 2, 2


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
    def of(cls, table: Table) -> SimpleTable:
        (unit,) = table.units
        assert isinstance(unit, Flat)
        marks = tuple(_mark(unit, cell) for cell in range(len(unit.next)))
        idle = tuple(symbol for symbol in range(unit.symbols) if not any(marks[symbol :: unit.symbols]))
        tokens = tuple(tuple(table.tokens[token] for token in tokens) for tokens, _ in table.actions)
        return cls(unit.symbols, unit.next, marks, tokens, idle)

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


def _mark(unit: Flat, cell: int) -> int:
    following, action = unit.next[cell], unit.action[cell]
    changes = following != cell // unit.symbols or action != 0
    return (action << ACTION_SHIFT) + (TO_START if changes and following == 0 else 0) + (CHANGES if changes else 0)
