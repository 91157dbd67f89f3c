"""Parts: units of a subtree while compiling, numbered from 0, root last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from headrace.lang.ecl.alphabet import Classes
from headrace.lang.ecl.minimisation import Automaton, Cell
from headrace.lang.ecl.network import FAILED, OFF, SUCCEEDED, Action, Flat, Guard, Kind, Node, Unit, initial_of, starts_of
from headrace.lang.ecl.situations import Situations, TooWide

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


def concatenated(parts: Sequence[Part]) -> tuple[Part, tuple[int, ...]]:
    """The parts one after the other, and the index of the root of each."""
    units: list[Unit] = []
    roots: list[int] = []
    for part in parts:
        units += [shifted(unit, len(units)) for unit in part] if units else part
        roots.append(len(units) - 1)
    return tuple(units), tuple(roots)


def under_node(kind: Kind, parts: Sequence[Part], *, times: int = 0, token: int = -1, clears: int = 0) -> Part:
    """A node over its children's parts. Which of them run from the start follows from the kind.

    `clears` is the bit of the register that starts empty with it."""
    units, roots = concatenated(parts)
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


def joined(
    classes: Sequence[Classes], chosen: Sequence[int], situations: Situations, *, size_max: int
) -> tuple[Classes, list[dict[int, int]]] | None:
    """One alphabet that distinguishes whatever the chosen ones do, and for each of its symbols theirs.

    None when it would have more than `size_max` symbols."""
    mask = 0
    for alphabet in chosen:
        mask |= classes[alphabet].mask
    try:
        all_situations = situations.of(mask)
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
