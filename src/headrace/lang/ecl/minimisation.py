"""Minimisation of a Mealy automaton: states that no input sequence tells apart become one.

What counts: the action of each input (tokens and timers started), the timers that run, and success or failure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from headrace.lang.ecl.budget import COMPILE_STEPS_MAX, Budget
from headrace.lang.ecl.network import FAILED, SUCCEEDED

Cell = tuple[int, int]
"""(next state, or SUCCEEDED or FAILED; action)"""


@dataclass(frozen=True, slots=True)
class Automaton:
    """`rows[state][symbol]` and `ticks[state][timers due]` are cells; state 0 is the start."""

    rows: tuple[tuple[Cell, ...], ...]
    ticks: tuple[dict[int, Cell], ...]
    live: tuple[int, ...]


def minimise(automaton: Automaton, *, budget: Budget | None = None) -> Automaton:
    """The smallest automaton with the same behaviour, its states numbered in the order of first visit."""
    blocks = refine(automaton, budget=budget)
    return _quotient(automaton, blocks)


def refine(automaton: Automaton, *, idle_ticks: bool = True, budget: Budget | None = None) -> list[int]:
    """For each state the number of its class: the coarsest in which no input tells two members apart.

    Only states whose successors changed class are checked again, so a long chain costs its length, not its square.
    `idle_ticks=False` ignores a timer whose firing stays in the class and does nothing."""
    blocks = _number([automaton.live[state] for state in range(len(automaton.rows))])
    members: dict[int, set[int]] = {}
    for state, block in enumerate(blocks):
        members.setdefault(block, set()).add(state)
    before = _predecessors(automaton)
    budget = budget or Budget(COMPILE_STEPS_MAX)
    dirty = set(range(len(blocks)))
    while dirty:
        budget.spend(sum(1 + (len(automaton.rows[state]) + len(automaton.ticks[state])) // 2 for state in dirty))
        changed: list[int] = []
        for block in sorted({blocks[state] for state in dirty}):
            changed += _split(automaton, blocks, members, block, dirty, idle_ticks)
        dirty = {source for state in changed for source in before[state]} | set(changed if not idle_ticks else ())
    return blocks


def _split(
    automaton: Automaton, blocks: list[int], members: dict[int, set[int]], block: int, dirty: set[int], idle_ticks: bool
) -> list[int]:
    """Splits one class by what its dirty members do now; the others still do all the same. Returns the states that left it."""
    groups: dict[Hashable, list[int]] = {}
    for state in sorted(members[block] & dirty):
        groups.setdefault(_behaviour(automaton, blocks, state, idle_ticks), []).append(state)
    clean = next(iter(members[block] - dirty), None)
    if clean is not None:
        groups.pop(_behaviour(automaton, blocks, clean, idle_ticks), None)
    else:
        groups.pop(max(groups, key=lambda key: len(groups[key])))
    changed: list[int] = []
    for group in groups.values():
        fresh = len(members)
        members[fresh] = set(group)
        members[block] -= members[fresh]
        changed += group
    for fresh in range(len(members) - len(groups), len(members)):
        for state in members[fresh]:
            blocks[state] = fresh
    return changed


def _behaviour(automaton: Automaton, blocks: list[int], state: int, idle_ticks: bool) -> Hashable:
    row = tuple((_block(blocks, cell[0]), cell[1]) for cell in automaton.rows[state])
    ticks = [(due, _block(blocks, cell[0]), cell[1]) for due, cell in automaton.ticks[state].items()]
    if not idle_ticks:
        ticks = [tick for tick in ticks if tick[1:] != (blocks[state], 0)]
    return row, tuple(ticks)


def _predecessors(automaton: Automaton) -> list[set[int]]:
    before: list[set[int]] = [set() for _ in automaton.rows]
    for state, (row, ticks) in enumerate(zip(automaton.rows, automaton.ticks, strict=True)):
        for cell in (*row, *ticks.values()):
            if cell[0] >= 0:
                before[cell[0]].add(state)
    return before


def merge_columns(automaton: Automaton) -> tuple[Automaton, tuple[int, ...]]:
    """Symbols with equal columns become one. Returns also the new symbol of each old one."""
    columns = list(zip(*automaton.rows, strict=True))
    renamed = _number(columns)
    first_of = [renamed.index(symbol) for symbol in range(max(renamed) + 1)]
    rows = tuple(tuple(row[symbol] for symbol in first_of) for row in automaton.rows)
    return Automaton(rows, automaton.ticks, automaton.live), tuple(renamed)


def _block(blocks: list[int], state: int) -> int:
    return state if state in (SUCCEEDED, FAILED) else blocks[state]


def _number(keys: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _quotient(automaton: Automaton, blocks: list[int]) -> Automaton:
    representative: dict[int, int] = {}
    for state, block in enumerate(blocks):
        representative.setdefault(block, state)
    order = {blocks[0]: 0}
    queue = [blocks[0]]
    for block in queue:
        state = representative[block]
        for cell in (*automaton.rows[state], *automaton.ticks[state].values()):
            following = _block(blocks, cell[0])
            if following >= 0 and following not in order:
                order[following] = len(order)
                queue.append(following)

    def renamed(cell: Cell) -> Cell:
        following = _block(blocks, cell[0])
        return (order[following] if following >= 0 else following), cell[1]

    states = [representative[block] for block in queue]
    return Automaton(
        rows=tuple(tuple(renamed(cell) for cell in automaton.rows[state]) for state in states),
        ticks=tuple({due: renamed(cell) for due, cell in automaton.ticks[state].items()} for state in states),
        live=tuple(automaton.live[state] for state in states),
    )
