"""Comparison of two patterns: equivalence and containment of what they output.

Only outputs count: which tokens go out on every sequence of timed events, in which order and when. A difference in how the
patterns complete is reported too, but does not make them different: a completed pattern is silent, and so may a waiting one be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from headrace.lang.ecl.alphabet import Trace
from headrace.lang.ecl.compiler import compile
from headrace.lang.ecl.errors import COMPILE_STEPS_MAX, Budget, PatternError, StateLimitExceeded
from headrace.lang.ecl.network import live_timers, step_units
from headrace.lang.ecl.parts import Automaton, Cell, refine, submasks
from headrace.lang.ecl.space import CONFIGURATIONS_MAX, Edge, Space, joint_inputs
from headrace.lang.ecl.table import Table, TableState, status_of
from headrace.lang.ecl.tree import Pattern


class Relation(StrEnum):
    EQUIVALENT = "equivalent"
    A_CONTAINS_B = "a contains b"
    B_CONTAINS_A = "b contains a"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`difference` is a shortest trace on whose last input the outputs differ, with what each pushes there.

    `only_a` and `only_b` are shortest traces to an output that only one of them makes. "a contains b": whatever b
    pushes, a pushes on the same input. `status_difference` leads to where one has completed and not, or otherwise than,
    the other.

    `is_exact` is false for patterns that keep values: then "contains" is proved, but the traces may need values that no event can have."""

    relation: Relation
    difference: Trace | None = None
    outputs_a: tuple[str, ...] = ()
    outputs_b: tuple[str, ...] = ()
    only_a: Trace | None = None
    only_b: Trace | None = None
    status_difference: Trace | None = None
    is_exact: bool = True


def compare(a: Pattern | Table, b: Pattern | Table, *, limit: int = CONFIGURATIONS_MAX) -> Comparison:
    """How the outputs of two patterns relate on all timed event sequences.

    Conditions are compared by what they can answer together: `v > 10` without `v > 5` does not occur. Patterns that keep values are
    compared as long as they keep the same ones on every sequence; otherwise PatternError says what to do instead."""
    tables = [compile(pattern) if isinstance(pattern, Pattern) else pattern for pattern in (a, b)]
    is_exact = not any(table.registers for table in tables)
    if not is_exact:
        if replace(tables[0], pattern="") == replace(tables[1], pattern=""):
            return Comparison(Relation.EQUIVALENT)
        if tables[0].registers != tables[1].registers:
            raise _undecided("their captures, labels or counts differ")
    space = Space(tables, limit=limit, possible_only=True)
    edges: dict[str, tuple[int, Edge]] = {}
    for number, edge in space.walk():
        findings = _findings(space, edge)
        if not is_exact:
            _check_kept_values(space, number, edge, findings)
        for name in findings:
            edges.setdefault(name, (number, edge))
        if "only_a" in edges and "only_b" in edges:
            break
    if not is_exact and "difference" in edges and ("only_a" in edges) == ("only_b" in edges):
        raise _undecided("the first possible difference is on " + str(space.trace(*edges["difference"])))

    def witness(name: str) -> Trace | None:
        return space.trace(*edges[name]) if name in edges else None

    outputs = edges["difference"][1].tokens if "difference" in edges else ((), ())
    return Comparison(
        relation=_relation("difference" in edges, "only_a" in edges, "only_b" in edges),
        difference=witness("difference"),
        outputs_a=outputs[0],
        outputs_b=outputs[1],
        only_a=witness("only_a"),
        only_b=witness("only_b"),
        status_difference=witness("status_difference"),
        is_exact=is_exact or "difference" not in edges,
    )


def _findings(space: Space, edge: Edge) -> list[str]:
    names: list[str] = []
    tokens_a, tokens_b = edge.tokens
    if tokens_a != tokens_b:
        names.append("difference")
        if Counter(tokens_a) - Counter(tokens_b):
            names.append("only_a")
        if Counter(tokens_b) - Counter(tokens_a):
            names.append("only_b")
    units = space.configurations[edge.target].units
    statuses = {status_of(table, TableState(own)) for table, own in zip(space.tables, units, strict=True)}
    if len(statuses) > 1:
        names.append("status_difference")
    return names


def _relation(differ: bool, only_a: bool, only_b: bool) -> Relation:
    if not differ:
        return Relation.EQUIVALENT
    if only_a == only_b:
        # Both or neither: in the latter case the same tokens go out in another order.
        return Relation.DIFFERENT
    return Relation.A_CONTAINS_B if only_a else Relation.B_CONTAINS_A


def _check_kept_values(space: Space, number: int, edge: Edge, findings: list[str]) -> None:
    """Raises PatternError if the patterns keep different values from here on: their conditions can then no longer be compared."""
    if edge.kept[0] != edge.kept[1]:
        raise _undecided(f"they keep different values, first on {space.trace(number, edge)}")
    registers = space.tables[0].registers
    if registers and registers.each and "status_difference" in findings:
        raise _undecided(f"only one of them ends an instance on {space.trace(number, edge)}")


def _undecided(reason: str) -> PatternError:
    hint = "run both over the same events: headrace backtest, or headrace ecl run"
    return PatternError(f"not decided for patterns that keep values: {reason}", hint=hint)


def describe_relation(comparison: Comparison) -> str:
    """What it means to replace pattern a by pattern b, in one line."""
    old, new = comparison.only_a, comparison.only_b
    if not comparison.is_exact:
        if comparison.relation is Relation.A_CONTAINS_B:
            return f"nothing new, perhaps stricter: perhaps no longer on {old}"
        return f"nothing is lost, perhaps looser: perhaps also on {new}"
    match comparison.relation:
        case Relation.EQUIVALENT:
            return "equivalent: the same outputs on every sequence of events"
        case Relation.A_CONTAINS_B:
            return f"stricter: no longer on {old}"
        case Relation.B_CONTAINS_A:
            return f"looser: also on {new}"
        case Relation.DIFFERENT if old is None or new is None:
            return f"different, first on {comparison.difference}"
        case Relation.DIFFERENT:
            return f"different: no longer on {old}; but on {new}"


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
            # Of several that behave alike, take the one with the same numbers: an unchanged pattern changes no row.
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
            pairs = {self._rename_mask(side, due): self._cell(side, units, None, due) for due in submasks(live)}
            ticks.append(dict(sorted(pairs.items())))
            status = status_of(table, TableState(units))
            lives.append(self._action((status, self._rename_mask(side, live))))
        return Automaton(tuple(rows), tuple(ticks), tuple(lives))

    def _cell(self, side: int, units: tuple[int, ...], symbols: tuple[int, ...] | None, due: int) -> Cell:
        table = self._tables[side]
        self._budget.spend(4 + len(table.units))
        after, pushed, started = step_units(table.units, table.actions, units, symbols, due)
        # The tables have the same registers, so a label has one number in both.
        registers = (tuple(table.recorded(pushed)), tuple(table.cleared(started)))
        action = self._action((table.pushed(pushed), registers, self._rename_mask(side, started)))
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

    def _rename_mask(self, side: int, mask: int) -> int:
        return sum(1 << name for timer, name in enumerate(self._names[side]) if mask >> timer & 1)
