"""Analyses of a pattern before it runs. Each answer comes with a shortest witness trace.

Conditions are opaque: two different ones count as independent, so a witness may need `<x > 2>` without `<x > 1>`.
Time is exact: a witness names times at which its timers really fire.

The dependencies say which predicates, event types and timers can influence which token; which guards of modes can hold at once; which
conditions are about which event type. A predicate influences a token if in some reachable state its truth alone (or with as few others as can be) decides
something that the outputs of this token show sooner or later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from operator import attrgetter

from msgspec.structs import replace

from headrace.lang.ecl.alphabet import Situation, Situations, TooWide, Trace, TraceStep, describe_symbols, leaves
from headrace.lang.ecl.engine import Status
from headrace.lang.ecl.errors import ANALYSIS_STEPS_MAX, Budget, StateLimitExceeded
from headrace.lang.ecl.network import Flat, Node
from headrace.lang.ecl.parts import Automaton, Cell, refine, shifted
from headrace.lang.ecl.registers import make_program
from headrace.lang.ecl.space import CONFIGURATIONS_MAX, Edge, Space, joint_inputs, situations_of
from headrace.lang.ecl.table import Table, TableState, start_state, status_of
from headrace.lang.ecl.tree import (
    And,
    Condition,
    EventType,
    Modes,
    Pattern,
    Predicate,
    lower,
    predicates_of,
    print_predicate,
    walk,
)
from headrace.lang.nodes import parts_of


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
    reacting = _reacting(table, state.units)
    symbols = [{symbol for at, symbol in reacting if at == number} for number in range(len(table.alphabets))]
    events = [text for alphabet, own in zip(table.alphabets, symbols, strict=True) for text in describe_symbols(alphabet, own)]
    read = _types_of(table, reacting)
    deadlines = tuple(sorted(deadline for deadline in state.deadlines if deadline is not None))
    return Waits(tuple(dict.fromkeys(events)), read.types, read.any_type, deadlines)


def types_that_matter(table: Table) -> tuple[str, ...] | None:
    """The event types that can change an instance; None if any type can, or if the passing of time alone does."""
    if table.timers or (table.registers is not None and table.registers.each):
        return None
    read = _types_of(table, _reacting(table))
    return None if read.any_type else tuple(sorted(read.types))


def every_type_read(table: Table) -> dict[str, TypesRead]:
    """For each token every type to which some part of its component reacts in some state: at least what influences it.

    It looks at each cell of the table once."""
    read: dict[str, TypesRead] = {}
    for part in components(table):
        own = _types_of(part, _reacting(part))
        for token in _tokens(part):
            before = read.get(token, TypesRead((), False))
            read[token] = TypesRead(tuple(dict.fromkeys((*before.types, *own.types))), before.any_type or own.any_type)
    return read


def _reacting(table: Table, units: Sequence[int] | None = None) -> set[tuple[int, int]]:
    """(alphabet, symbol) to which some unit reacts, in this state or else in at least one. Unit by unit: no product of alphabets is
    needed."""
    reacting: set[tuple[int, int]] = set()
    for number, unit in enumerate(table.units):
        if isinstance(unit, Node) or (units is not None and units[number] < 0):
            continue
        states = range(len(unit.next) // unit.symbols) if units is None else [units[number]]
        for state, symbol in product(states, range(unit.symbols)):
            cell = state * unit.symbols + symbol
            if unit.next[cell] != state or (isinstance(unit, Flat) and unit.action[cell]):
                reacting.add((unit.alphabet, symbol))
    return reacting


def _types_of(table: Table, reacting: set[tuple[int, int]]) -> TypesRead:
    """The types whose events can have a symbol to which a unit reacts."""

    def matters(type_: str | None) -> bool:
        return any(
            (number, symbol) in reacting
            for number, alphabet in enumerate(table.alphabets)
            for symbol in leaves(alphabet.other if type_ is None else alphabet.types.get(type_, alphabet.other))
        )

    named = dict.fromkeys(type_ for alphabet in table.alphabets for type_ in alphabet.types)
    return TypesRead(tuple(filter(matters, named)), matters(None))


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


PAIRS_MAX = 400
GUARD_SITUATIONS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Dependency:
    """What can influence one token: predicates and event types by name, any other type, and timers."""

    token: str
    predicates: tuple[str, ...]
    types: tuple[str, ...]
    any_type: bool
    timers: bool


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two guards of the same modes that can hold on one event, and such an event.

    `decides` says that a third mode exists from which both are armed, so that their order in the text decides."""

    first: str
    second: str
    decides: bool
    witness: Trace


def dependencies(table: Table, *, limit: int = CONFIGURATIONS_MAX, budget: Budget | None = None) -> tuple[Dependency, ...]:
    """One entry per token, in textual order. Branches of `parallel` are analysed one by one."""
    budget = budget or Budget(ANALYSIS_STEPS_MAX)
    parts = [_Component(part, limit, budget) for part in components(table)]
    return tuple(_merge_dependencies(token, [part.dependency(token) for part in parts]) for token in table.tokens)


def types_read(table: Table, *, budget: Budget) -> dict[str, TypesRead]:
    """For each token the types of events that can influence it.

    Exact while the budget lasts. The exact answer takes exponentially many steps in the number of timers and of parts that run
    side by side; where the budget ends, each token of a component gets every type to which a part of it reacts."""
    if table.registers is not None:
        # What one part records, a condition of another may read.
        read = every_type_read(table)
        types = tuple(dict.fromkeys(name for token in read.values() for name in token.types))
        return dict.fromkeys(read, TypesRead(types, any(token.any_type for token in read.values())))
    try:
        exact = dependencies(table, budget=budget)
    except StateLimitExceeded:
        return every_type_read(table)
    return {dependency.token: TypesRead(dependency.types, dependency.any_type) for dependency in exact}


def _merge_dependencies(token: str, parts: list[Dependency]) -> Dependency:
    return Dependency(
        token,
        tuple(dict.fromkeys(name for part in parts for name in part.predicates)),
        tuple(dict.fromkeys(name for part in parts for name in part.types)),
        any(part.any_type for part in parts),
        any(part.timers for part in parts),
    )


class _Component:
    """The reachable automaton of one component, and its situations."""

    def __init__(self, table: Table, limit: int, budget: Budget) -> None:
        self._table = table
        self._budget = budget
        # Started some time before its first event; otherwise any event would count as the start of the timers.
        space = Space([table], states=[start_state(table, 0)], limit=limit, budget=budget)
        self._edges = list(space.all_edges())
        self._column = {input_.symbols[0]: index for index, input_ in enumerate(joint_inputs([table], budget=budget))}
        self._situations = [(situation, symbols[0]) for situation, symbols in situations_of([table], budget=budget)]

    def dependency(self, token: str) -> Dependency:
        self._budget.spend(sum(len(edges) for edges in self._edges))
        automaton = self._projected(token)
        blocks = refine(automaton, idle_ticks=False, budget=self._budget)
        columns = [tuple((blocks[cell[0]], cell[1]) for cell in column) for column in zip(*automaton.rows, strict=True)]
        idle = tuple((block, 0) for block in blocks)
        types = [situation.type for situation, symbols in self._situations if columns[self._column[symbols]] != idle]
        return Dependency(
            token,
            tuple(print_predicate(self._table.predicates[number]) for number in self._deciding(columns)),
            tuple(dict.fromkeys(type_ for type_ in types if type_ is not None)),
            None in types,
            any((blocks[c[0]], c[1]) != (blocks[s], 0) for s, row in enumerate(automaton.ticks) for c in row.values()),
        )

    def _projected(self, token: str) -> Automaton:
        """Only the outputs of this token count. Configurations differ by zone, so the clock needs no other trace."""

        def cell(edge: Edge) -> Cell:
            return edge.target, edge.tokens[0].count(token)

        rows = tuple(tuple(cell(edge) for edge in edges if edge.input.symbols) for edges in self._edges)
        ticks = tuple({edge.input.due: cell(edge) for edge in edges if not edge.input.symbols} for edges in self._edges)
        return Automaton(rows, ticks, tuple(0 for _ in rows))

    def _deciding(self, columns: list[tuple[tuple[int, int], ...]]) -> list[int]:
        every = range(len(self._table.predicates))
        if len(self._situations) > PAIRS_MAX:
            # Too many pairs to compare: all predicates that can matter at all.
            return [number for number in every if len(set(columns)) > 1]
        return [number for number in every if self._decides(number, columns)]

    def _decides(self, number: int, columns: list[tuple[tuple[int, int], ...]]) -> bool:
        # Comparing two columns takes a step for each state.
        self._budget.spend(len(self._situations) ** 2 // 4 + len(self._situations) * len(self._edges) // 8)
        holding = [pair for pair in self._situations if pair[0].vector >> number & 1]
        failing = [pair for pair in self._situations if not pair[0].vector >> number & 1]
        for situation, symbols in holding:
            least = min((_distance(situation, other) for other, _ in failing), default=0)
            for other, others in failing:
                if _distance(situation, other) == least and columns[self._column[symbols]] != columns[self._column[others]]:
                    return True
        return False


def _distance(first: Situation, second: Situation) -> int:
    return (first.vector ^ second.vector).bit_count()


def overlapping_guards(pattern: Pattern) -> tuple[Overlap, ...]:
    """Every pair of guards in the same modes that one event can satisfy."""
    overlaps: list[Overlap] = []
    for node in walk(lower(pattern.expr)):
        if not isinstance(node, Modes):
            continue
        guards = [mode.guard for mode in node.modes]
        for first, second in combinations(guards, 2):
            try:
                situations = Situations([first, second], situations_max=GUARD_SITUATIONS_MAX).for_predicates(3)
            except TooWide:
                continue
            both = sorted((s for s in situations if s.vector == 3), key=attrgetter("unknowns"))
            if both:
                step = TraceStep(both[0].type or "other", both[0].truths, 0)
                texts = print_predicate(first), print_predicate(second)
                overlaps.append(Overlap(*texts, decides=len(guards) > 2, witness=Trace((step,))))
    return tuple(overlaps)


def typed_conditions(pattern: Pattern) -> tuple[tuple[str, str], ...]:
    """Pairs of an event type and the canonical text of a condition on that event alone, each once, in textual order."""
    predicates = [predicate for expr in walk(pattern.expr) for predicate in predicates_of(expr)]
    pairs = dict.fromkeys(pair for predicate in predicates for pair in _pairs(lower(predicate)))
    program = make_program(pattern)
    # A condition that reads registers is not about one event.
    return tuple(pair for pair in pairs if program is None or pair[1] in program.static)


def _pairs(predicate: Predicate) -> Iterator[tuple[str, str]]:
    parts = parts_of(predicate)
    if isinstance(predicate, And):
        types = [part.name for part in parts if isinstance(part, EventType)]
        yield from ((name, part.text) for name in types for part in parts if isinstance(part, Condition))
    for part in parts:
        yield from _pairs(part)
