"""Minimisation of a Mealy automaton: states that no input sequence tells apart become one.

What counts as seen: the action of each input (tokens and timers started), the timers that run, and success or failure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from headrace.lang.ecl._network import FAILED, SUCCEEDED

Cell = tuple[int, int]
"""(next state, or SUCCEEDED or FAILED; action)"""


@dataclass(frozen=True, slots=True)
class Automaton:
    """`rows[state][symbol]` and `ticks[state][timers due]` are cells; state 0 is the start."""

    rows: tuple[tuple[Cell, ...], ...]
    ticks: tuple[dict[int, Cell], ...]
    live: tuple[int, ...]


def minimise(automaton: Automaton) -> Automaton:
    """The smallest automaton with the same behaviour, its states numbered in the order of first visit."""
    blocks = refine(automaton)
    return _quotient(automaton, blocks)


def refine(automaton: Automaton) -> list[int]:
    """For each state the number of its class: Moore's refinement, until no class splits."""
    states = range(len(automaton.rows))
    blocks = _number([automaton.live[state] for state in states])
    while True:
        keys: list[Hashable] = []
        for state in states:
            row = tuple((_block(blocks, cell[0]), cell[1]) for cell in automaton.rows[state])
            ticks = tuple((due, _block(blocks, cell[0]), cell[1]) for due, cell in automaton.ticks[state].items())
            keys.append((blocks[state], row, ticks))
        finer = _number(keys)
        if max(finer) == max(blocks):
            return blocks
        blocks = finer


def merge_columns(automaton: Automaton) -> tuple[Automaton, tuple[int, ...]]:
    """Symbols with equal columns become one. Returns also the new symbol of each old one."""
    columns = list(zip(*automaton.rows, strict=True))
    renamed = _number(columns)
    kept = [renamed.index(symbol) for symbol in range(max(renamed) + 1)]
    rows = tuple(tuple(row[symbol] for symbol in kept) for row in automaton.rows)
    return Automaton(rows, automaton.ticks, automaton.live), tuple(renamed)


def _block(blocks: list[int], state: int) -> int:
    return state if state in (SUCCEEDED, FAILED) else blocks[state]


def _number(keys: list[Hashable] | list[int] | list[tuple[Cell, ...]]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _quotient(automaton: Automaton, blocks: list[int]) -> Automaton:
    speaker: dict[int, int] = {}
    for state, block in enumerate(blocks):
        speaker.setdefault(block, state)
    order = {blocks[0]: 0}
    queue = [blocks[0]]
    for block in queue:
        state = speaker[block]
        for cell in (*automaton.rows[state], *automaton.ticks[state].values()):
            following = _block(blocks, cell[0])
            if following >= 0 and following not in order:
                order[following] = len(order)
                queue.append(following)

    def renamed(cell: Cell) -> Cell:
        following = _block(blocks, cell[0])
        return (order[following] if following >= 0 else following), cell[1]

    states = [speaker[block] for block in queue]
    return Automaton(
        rows=tuple(tuple(renamed(cell) for cell in automaton.rows[state]) for state in states),
        ticks=tuple({due: renamed(cell) for due, cell in automaton.ticks[state].items()} for state in states),
        live=tuple(automaton.live[state] for state in states),
    )
