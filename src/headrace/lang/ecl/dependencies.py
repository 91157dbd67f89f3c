"""Which predicates, event types and timers can influence which token; which guards of modes can hold at once; which conditions are
about which event type.

A predicate influences a token if in some reachable state its truth alone (or with as few others as can be) decides
something that the outputs of this token show sooner or later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from operator import attrgetter

from headrace.lang.ecl.alphabet import Trace, TraceStep
from headrace.lang.ecl.analysis import TypesRead, components, every_type_read
from headrace.lang.ecl.errors import ANALYSIS_STEPS_MAX, Budget, StateLimitExceeded
from headrace.lang.ecl.parts import Automaton, Cell, refine
from headrace.lang.ecl.registers import make_program
from headrace.lang.ecl.satisfiable import Situation, Situations, TooWide
from headrace.lang.ecl.space import CONFIGURATIONS_MAX, Edge, Space, joint_inputs, situations_of
from headrace.lang.ecl.table import Table, start_state
from headrace.lang.ecl.tree import (
    And,
    Condition,
    EventType,
    Modes,
    Pattern,
    Predicate,
    lower,
    lower_predicate,
    operands,
    predicates_of,
    print_predicate,
    walk,
)

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
    return tuple(_merged(token, [part.dependency(token) for part in parts]) for token in table.tokens)


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


def _merged(token: str, parts: list[Dependency]) -> Dependency:
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
                situations = Situations([first, second], situations_max=GUARD_SITUATIONS_MAX).of(3)
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
    pairs = dict.fromkeys(pair for predicate in predicates for pair in _pairs(lower_predicate(predicate)))
    program = make_program(pattern)
    # A condition that reads registers is not about one event.
    return tuple(pair for pair in pairs if program is None or pair[1] in program.static)


def _pairs(predicate: Predicate) -> Iterator[tuple[str, str]]:
    parts = operands(predicate)
    if isinstance(predicate, And):
        types = [part.name for part in parts if isinstance(part, EventType)]
        yield from ((name, part.text) for name in types for part in parts if isinstance(part, Condition))
    for part in parts:
        yield from _pairs(part)
