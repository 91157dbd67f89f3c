"""Analyses of a pattern before it runs. Each answer comes with a shortest witness trace.

Conditions are opaque: two different ones count as independent, so a witness may need `<x > 2>` without `<x > 1>`.
Time is exact: a witness names times at which its timers really fire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from headrace.lang.ecl.alphabet import Trace, describe_symbols, leaves
from headrace.lang.ecl.engine import Status
from headrace.lang.ecl.network import Flat, Node, Unit
from headrace.lang.ecl.parts import shifted
from headrace.lang.ecl.space import CONFIGURATIONS_MAX, Edge, Space
from headrace.lang.ecl.table import Table, TableState, status_of


@dataclass(frozen=True, slots=True)
class Vacuity:
    """A vacuous pattern never outputs. Otherwise `witness` is a shortest trace to an output."""

    vacuous: bool
    witness: Trace | None


@dataclass(frozen=True, slots=True)
class Triviality:
    """A trivial pattern outputs on every event. Otherwise `witness` is a shortest trace to an event without output."""

    trivial: bool
    witness: Trace | None


@dataclass(frozen=True, slots=True)
class Liveness:
    """Live: whatever has happened, some output stays reachable.

    Otherwise `trap` leads to a state with no way to an output; `status` says whether the pattern has completed there, as a
    pattern without `repeat` does, or still waits, which is a mistake. `state` is the state of the trap."""

    live: bool
    trap: Trace | None = None
    status: Status | None = None
    state: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """What can change a state: classes of events in words, event types, and deadlines in rising order.

    `any_type` says that events of types outside the pattern matter too. All other events may be dropped before they are
    shipped: they cannot change anything."""

    events: tuple[str, ...]
    types: tuple[str, ...]
    any_type: bool
    deadlines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TypesRead:
    """The types of events that can influence a token; `any_type` says that types outside the pattern can, too."""

    types: tuple[str, ...]
    any_type: bool


def vacuity(table: Table, *, limit: int = CONFIGURATIONS_MAX) -> Vacuity:
    """Whether any output is possible. Branches of `parallel` are analysed one by one."""
    spaces = (Space([part], limit=limit) for part in components(table))
    traces = [trace for space in spaces if (trace := space.search(_outputs)) is not None]
    witness = min(traces, key=lambda trace: len(trace.steps), default=None)
    return Vacuity(witness is None, witness)


def triviality(table: Table, *, limit: int = CONFIGURATIONS_MAX) -> Triviality:
    """Whether every event makes an output."""
    witness = Space([table], limit=limit).search(lambda edge: bool(edge.input.symbols) and not _outputs(edge))
    return Triviality(witness is None, witness)


def liveness(table: Table, *, limit: int = CONFIGURATIONS_MAX) -> Liveness:
    """Whether some output stays reachable from every state. One live branch of a `parallel` makes the whole live.

    A trap in which the pattern still waits is reported before one in which it has completed."""
    parts = components(table)
    if len(parts) > 1 and any(liveness(part, limit=limit).live for part in parts):
        return Liveness(live=True)
    space = Space([table], limit=limit)
    into: dict[int, set[int]] = {}
    alive: set[int] = set()
    for number, edge in space.walk():
        into.setdefault(edge.target, set()).add(number)
        if _outputs(edge):
            alive.add(number)
    queue = list(alive)
    for number in queue:
        for before in into.get(number, ()):
            if before not in alive:
                alive.add(before)
                queue.append(before)
    traps = [number for number in range(len(space.configurations)) if number not in alive]
    if not traps:
        return Liveness(live=True)

    def status(number: int) -> Status:
        return status_of(table, TableState(space.configurations[number].units[0]))

    trap = next((number for number in traps if status(number) is Status.WAITING), traps[0])
    return Liveness(False, space.trace(trap), status(trap), space.configurations[trap].units[0])


def shortest_to_output(
    table: Table, state: TableState, *, now: int, token: str | None = None, limit: int = CONFIGURATIONS_MAX
) -> Trace | None:
    """The shortest way from a state to an output (of that token), times counted from `now`; None if there is none."""

    def reached(edge: Edge) -> bool:
        return _outputs(edge) if token is None else token in edge.tokens[0]

    return Space([table], states=[state], now=now, limit=limit).search(reached)


def waits_for(table: Table, state: TableState) -> Waits:
    """What can change a state. All other events may be quenched."""
    reacting = _reacting(table, state)
    symbols = [{symbol for at, symbol in reacting if at == number} for number in range(len(table.alphabets))]
    events = [text for alphabet, own in zip(table.alphabets, symbols, strict=True) for text in describe_symbols(alphabet, own)]
    named = dict.fromkeys(type_ for alphabet in table.alphabets for type_ in alphabet.types)
    return Waits(
        events=tuple(dict.fromkeys(events)),
        types=tuple(type_ for type_ in named if _type_matters(table, reacting, type_)),
        any_type=_type_matters(table, reacting, None),
        deadlines=tuple(sorted(deadline for deadline in state.deadlines if deadline is not None)),
    )


def _reacting(table: Table, state: TableState) -> set[tuple[int, int]]:
    """(alphabet, symbol) to which some running unit reacts. Unit by unit: no product of alphabets is needed."""
    reacting: set[tuple[int, int]] = set()
    for unit, value in zip(table.units, state.units, strict=True):
        if value < 0 or isinstance(unit, Node):
            continue
        for symbol in range(unit.symbols):
            cell = value * unit.symbols + symbol
            if unit.next[cell] != value or (isinstance(unit, Flat) and unit.action[cell]):
                reacting.add((unit.alphabet, symbol))
    return reacting


def every_type_read(table: Table) -> dict[str, TypesRead]:
    """For each token every type to which some part of its component reacts in some state: at least what influences it.

    It looks at each cell of the table once."""
    read: dict[str, TypesRead] = {}
    for part in components(table):
        reacting = {pair for unit in part.units for pair in _reacting_cells(unit)}
        named = dict.fromkeys(type_ for alphabet in table.alphabets for type_ in alphabet.types)
        types = tuple(type_ for type_ in named if _type_matters(table, reacting, type_))
        any_type = _type_matters(table, reacting, None)
        for token in _tokens(part):
            before = read.get(token, TypesRead((), False))
            read[token] = TypesRead(tuple(dict.fromkeys((*before.types, *types))), before.any_type or any_type)
    return read


def _reacting_cells(unit: Unit) -> Iterator[tuple[int, int]]:
    """(alphabet, symbol) to which a unit reacts in at least one state."""
    if isinstance(unit, Node):
        return
    for cell, following in enumerate(unit.next):
        state, symbol = divmod(cell, unit.symbols)
        if following != state or (isinstance(unit, Flat) and unit.action[cell]):
            yield unit.alphabet, symbol


def _tokens(part: Table) -> set[str]:
    """The tokens that a component can push."""
    tokens: set[int] = set()
    for unit in part.units:
        if isinstance(unit, Node):
            tokens |= {unit.token} - {-1}
        elif isinstance(unit, Flat):
            used = {*unit.action, *(action for *_, action in unit.ticks)}
            tokens |= {token for action in used for token in part.actions[action][0]}
    return set(part.pushed(sorted(tokens)))


def _type_matters(table: Table, reacting: set[tuple[int, int]], type_: str | None) -> bool:
    """Whether an event of a type (None: one that no alphabet names) can have a symbol to which a unit reacts."""
    return any(
        (number, symbol) in reacting
        for number, alphabet in enumerate(table.alphabets)
        for symbol in leaves(alphabet.other if type_ is None else alphabet.types.get(type_, alphabet.other))
    )


def components(table: Table) -> tuple[Table, ...]:
    """Each branch of a `parallel` at the top as a table of its own, with the same symbols, tokens and timers."""
    if len(table.components) == 1:
        return (table,)
    parts: list[Table] = []
    begin = 0
    for root in table.components:
        units = tuple(shifted(unit, -begin) for unit in table.units[begin : root + 1])
        parts.append(replace(table, units=units, components=(root - begin,), completes=True))
        begin = root + 1
    return tuple(parts)


def _outputs(edge: Edge) -> bool:
    return any(edge.tokens)
