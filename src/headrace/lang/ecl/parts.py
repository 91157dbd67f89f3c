"""Parts: units of a subtree while compiling, numbered from 0, root last; and minimisation, which makes them small.

Minimisation makes one state of those that no input sequence tells apart. What counts: the action of each input (tokens and timers
started), the timers that run, and success or failure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from headrace.lang.ecl.alphabet import Classes, Situations, TooWide
from headrace.lang.ecl.errors import COMPILE_STEPS_MAX, Budget
from headrace.lang.ecl.network import FAILED, OFF, SUCCEEDED, Action, Flat, Guard, Kind, Node, Unit, initial_of, starts_of

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

    def rename_cell(cell: Cell) -> Cell:
        following = _block(blocks, cell[0])
        return (order[following] if following >= 0 else following), cell[1]

    states = [representative[block] for block in queue]
    return Automaton(
        rows=tuple(tuple(rename_cell(cell) for cell in automaton.rows[state]) for state in states),
        ticks=tuple({due: rename_cell(cell) for due, cell in automaton.ticks[state].items()} for state in states),
        live=tuple(automaton.live[state] for state in states),
    )


Part = tuple[Unit, ...]
TIMERS_FLAT_MAX = 4


class Actions:
    """Actions by number, each held once; 0 is the empty one."""

    def __init__(self) -> None:
        self.all: list[Action] = [((), 0)]
        self._numbers: dict[Action, int] = {self.all[0]: 0}

    def number(self, action: Action) -> int:
        if action not in self._numbers:
            self._numbers[action] = len(self.all)
            self.all.append(action)
        return self._numbers[action]


def shifted(unit: Unit, by: int) -> Unit:
    if isinstance(unit, Guard):
        return replace(unit, first=unit.first + by, last=unit.last + by)
    if isinstance(unit, Node):
        return replace(unit, first=unit.first + by, children=tuple(child + by for child in unit.children))
    return replace(unit, first=unit.first + by)


def concatenate_parts(parts: Sequence[Part]) -> tuple[Part, tuple[int, ...]]:
    """Puts the parts one after the other; returns them, and the index of each part's root."""
    units: list[Unit] = []
    roots: list[int] = []
    for part in parts:
        units += [shifted(unit, len(units)) for unit in part] if units else part
        roots.append(len(units) - 1)
    return tuple(units), tuple(roots)


def under_node(kind: Kind, parts: Sequence[Part], *, times: int = 0, token: int = -1, clears: int = 0) -> Part:
    """A node over its children's parts. Which of them run from the start follows from the kind.

    `clears` is the bit of the register that starts empty with it."""
    units, roots = concatenate_parts(parts)
    runs = {Kind.SEQUENTIAL: roots[:1], Kind.MODES: roots[:2]}.get(kind, roots)
    initial = [OFF] * len(units)
    starts, timers = clears, 0
    for root in roots:
        timers |= units[root].timers
        if root in runs:
            initial[units[root].first : root + 1] = initial_of(units[root])
            starts |= starts_of(units[root])
    own = len(parts) if kind in (Kind.ACCUMULATE, Kind.SELECT) else 0
    return (*units, Node(kind, roots, 0, (*initial, own), starts, timers, times, token))


def flat_of(automaton: Automaton, alphabet: int, timers: int, *, clears: int = 0) -> Flat:
    """An automaton as arrays: success is state n, failure n+1, both with rows of their own that stay."""
    states = len(automaton.rows)
    symbols = len(automaton.rows[0])

    def code(cell: Cell) -> int:
        return {SUCCEEDED: states, FAILED: states + 1}.get(cell[0], cell[0])

    following = [code(cell) for row in automaton.rows for cell in row]
    following += [states] * symbols + [states + 1] * symbols
    action = [cell[1] for row in automaton.rows for cell in row] + [0] * (2 * symbols)
    ticks = tuple((state, due, code(cell), cell[1]) for state, row in enumerate(automaton.ticks) for due, cell in row.items())
    live = (*automaton.live, 0, 0)
    return Flat(alphabet, symbols, states, tuple(following), tuple(action), live, ticks, timers, clears=clears)


def join_classes(
    classes: Sequence[Classes], chosen: Sequence[int], situations: Situations, *, size_max: int
) -> tuple[Classes, list[dict[int, int]]] | None:
    """One alphabet that distinguishes whatever the chosen ones do, and for each of its symbols theirs.

    None when it would have more than `size_max` symbols."""
    mask = 0
    for alphabet in chosen:
        mask |= classes[alphabet].mask
    try:
        all_situations = situations.for_predicates(mask)
    except TooWide:
        return None
    numbers: dict[tuple[int, ...], int] = {}
    symbol_of: dict[int, int] = {}
    for situation in all_situations:
        key = tuple(classes[a].symbol_of[situation.vector & classes[a].mask] for a in chosen)
        symbol_of[situation.vector] = numbers.setdefault(key, len(numbers))
    if len(numbers) > size_max:
        return None
    return Classes(mask, symbol_of, len(numbers)), [dict(zip(chosen, key, strict=True)) for key in numbers]


def submasks(mask: int) -> Iterator[int]:
    """Every non-empty subset of a mask, in rising order."""
    subset = mask & -mask
    while subset:
        yield subset
        subset = (subset - mask) & mask


def widened(unit: Unit, alphabet: int, symbols: Sequence[Mapping[int, int]]) -> Unit:
    """A unit whose columns follow another alphabet; `symbols` gives each new symbol the unit's old one."""
    if isinstance(unit, Node):
        return unit
    columns = [symbol[unit.alphabet] for symbol in symbols]
    rows = range(len(unit.next) // unit.symbols)
    cells = [row * unit.symbols + column for row in rows for column in columns]
    following = tuple(unit.next[cell] for cell in cells)
    if isinstance(unit, Guard):
        return replace(unit, alphabet=alphabet, symbols=len(columns), next=following)
    action = tuple(unit.action[cell] for cell in cells)
    return replace(unit, alphabet=alphabet, symbols=len(columns), next=following, action=action)
