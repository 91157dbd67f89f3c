"""Pattern → table, bottom up.

Each construct is first a node over its children's units. If the node's reachable configurations are few, they become
one automaton, minimised, and the children are forgotten; if not, the node stays and its children stay beside it. So
small patterns end as one array look-up, and a large accumulate, a bounded repetition or a `parallel` costs the sum of
its parts and never their product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from headrace.lang.ecl import tree as t
from headrace.lang.ecl.alphabet import Classes, Situations, TooWide, make_alphabet
from headrace.lang.ecl.errors import COMPILE_STEPS_MAX, Budget, StateLimitExceeded
from headrace.lang.ecl.network import FAILED, SUCCEEDED, Flat, Guard, Kind, Node, live_timers, step_units
from headrace.lang.ecl.parts import (
    TIMERS_FLAT_MAX,
    Actions,
    Automaton,
    Cell,
    Part,
    concatenate_parts,
    flat_of,
    join_classes,
    merge_columns,
    minimise,
    submasks,
    under_node,
    widened,
)
from headrace.lang.ecl.registers import CountLowering, Registers, make_registers
from headrace.lang.ecl.table import Table
from headrace.lang.ecl.tree import print_pattern, print_predicate

STATE_LIMIT = 10_000
SITUATIONS_MAX = 1_024
SYMBOLS_MAX = 256
JOINT_SYMBOLS_MAX = 32
TABLE_CELLS_MAX = 32_768
GROUP_MAX = 32
FLAT_STATES_MAX = 256
FLAT_CELLS_MAX = 8_192
ROUNDS_FLAT_MAX = 64

_Unary = t.Fail | t.Push | t.Repeat | t.Persist | t.Loop


def compile(pattern: t.Pattern, *, state_limit: int = STATE_LIMIT, minimised: bool = True, budget: Budget | None = None) -> Table:
    """The table of a pattern. Raises StateLimitExceeded when its units have more states together than allowed, or when
    compiling takes more steps than the budget has.

    `minimised=False` keeps every reachable configuration apart; it is there to test the minimisation."""
    registers = make_registers(pattern)
    expr = CountLowering().lower(t.lower(pattern.expr))
    budget = budget or Budget(COMPILE_STEPS_MAX, what="compiling the pattern")
    return _Compiler(expr, registers, state_limit, minimised, budget).table(print_pattern(pattern))


@dataclass(slots=True)
class _Names:
    """The pattern's predicates, tokens and timers, numbered in textual order."""

    predicates: dict[t.Predicate, int]
    tokens: dict[str, int]
    timers: list[int]


def _names(expr: t.Expr) -> _Names:
    names = _Names({}, {}, [])
    for node in t.walk(expr):
        for predicate in t.predicates_of(node):
            names.predicates.setdefault(predicate, len(names.predicates))
        match node:
            case t.Push(token):
                names.tokens.setdefault(token, len(names.tokens))
            case t.After(duration_us):
                names.timers.append(duration_us)
    return names


def _branches(expr: t.Expr) -> list[t.Expr]:
    """The parts that run side by side at the top. A construct around a `parallel` waits for an end that never comes."""
    inner = expr
    while isinstance(inner, _Unary):
        inner = inner.body
    if isinstance(inner, t.Parallel):
        return [branch for child in inner.children for branch in _branches(child)]
    return [expr]


class _Compiler:
    def __init__(self, expr: t.Expr, registers: Registers | None, state_limit: int, minimised: bool, budget: Budget) -> None:
        self._expr = expr
        self._registers = registers
        self._labels = registers.labels if registers else ()
        self._names = _names(expr)
        self._state_limit = state_limit
        self._minimised = minimised
        self._budget = budget
        self._actions = Actions()
        self._classes: list[Classes] = []
        self._classes_of: dict[tuple[int, ...], int] = {}
        self._situations = Situations(list(self._names.predicates), situations_max=SITUATIONS_MAX, budget=budget)
        self._timer = 0

    def table(self, text: str) -> Table:
        branches = _branches(self._expr)
        units, roots = concatenate_parts([self._part(branch) for branch in branches])
        states = sum(unit.states if isinstance(unit, Flat) else 1 for unit in units)
        if states > self._state_limit:
            hint = "split the pattern into several correlators, or raise the limit"
            raise StateLimitExceeded("the table", needed=states, allowed=self._state_limit, hint=hint)
        units, classes = self._one_alphabet(units)
        units, actions = self._used_actions(units)
        return Table(
            version=1,
            pattern=text,
            predicate_texts=tuple(print_predicate(predicate) for predicate in self._names.predicates),
            tokens=tuple(self._names.tokens),
            timers=tuple(self._names.timers),
            alphabets=tuple(make_alphabet(c, self._situations.for_predicates(c.mask)) for c in classes),
            actions=tuple(actions.all),
            units=units,
            components=roots,
            completes=branches == [self._expr],
            registers=self._registers,
        )

    def _part(self, expr: t.Expr) -> Part:
        match expr:
            case t.Match(predicate, label):
                part: Part = (self._match(self._names.predicates[predicate]),)
                return part if label is None else self._recorded(part, label)
            case t.After():
                return (self._after(),)
            case t.Chain(steps):
                return (self._chain(steps),)
        parts = [self._part(child) for child in t.children(expr)]
        label = expr.label if isinstance(expr, t.Bounded) else None
        if label is not None:
            parts = [self._recorded(parts[0], label)]
        if isinstance(expr, _Unary) and _never_completes(parts[0]):
            return parts[0]
        if isinstance(expr, t.Modes):
            parts.insert(0, (self._guard(expr, sum(len(part) for part in parts)),))
        times = expr.times or 0 if isinstance(expr, t.Repeat | t.Persist | t.Loop) else 0
        token = self._names.tokens[expr.token] if isinstance(expr, t.Push) else -1
        part = under_node(_kind(expr), parts, times=times, token=token, clears=0 if label is None else self._clearing(label))
        return part if isinstance(expr, t.Parallel) else self._flattened(part)

    def _recorded(self, part: Part, label: str) -> Part:
        """A part whose success is recorded: to the table, one more token after those that are pushed."""
        return self._flattened(under_node(Kind.PUSH, [part], token=self._recording(label)))

    def _recording(self, label: str) -> int:
        return len(self._names.tokens) + self._labels.index(label)

    def _clearing(self, label: str) -> int:
        """The bit that says a loop has started; to the table, one more timer after those that run."""
        return 1 << len(self._names.timers) + self._labels.index(label)

    def _chain(self, steps: tuple[t.Match, ...]) -> Flat:
        """Events in a row. A state is the set of beginnings that the latest events make, as a mask of their lengths."""
        numbers = [self._names.predicates[step.predicate] for step in steps]
        recordings = [None if step.label is None else self._recording(step.label) for step in steps]
        mask, symbol_of = self._distinguished(numbers, "events", "events joined by `next`")
        states = {0: 0}
        queue = [0]
        rows: list[tuple[Cell, ...]] = []
        for lengths in queue:
            row: list[Cell] = []
            for vector in symbol_of:
                grown = [n for n in range(len(steps)) if (n == 0 or lengths >> n & 1) and vector >> numbers[n] & 1]
                action = self._actions.number((tuple(recording for n in grown if (recording := recordings[n]) is not None), 0))
                after = sum(1 << n + 1 for n in grown)
                if after >> len(steps) & 1:
                    row.append((SUCCEEDED, action))
                    continue
                if after not in states:
                    states[after] = len(states)
                    queue.append(after)
                row.append((states[after], action))
            rows.append(tuple(row))
        automaton = Automaton(tuple(rows), ({},) * len(rows), (0,) * len(rows))
        automaton, renamed = merge_columns(minimise(automaton, budget=self._budget))
        symbol_of = {vector: renamed[symbol] for vector, symbol in symbol_of.items()}
        return flat_of(automaton, self._alphabet(Classes(mask, symbol_of, len(automaton.rows[0]))), 0)

    def _alphabet(self, classes: Classes) -> int:
        key = (classes.mask, *(n for pair in sorted(classes.symbol_of.items()) for n in pair))
        if key not in self._classes_of:
            self._classes_of[key] = len(self._classes)
            self._classes.append(classes)
        return self._classes_of[key]

    def _distinguished(self, predicates: Sequence[int], what: str, where: str) -> tuple[int, dict[int, int]]:
        """The mask of some predicates, and a symbol for each vector of them that an event can have."""
        mask = sum(1 << predicate for predicate in set(predicates))
        try:
            vectors = dict.fromkeys(situation.vector for situation in self._situations.for_predicates(mask))
        except TooWide:
            needed, allowed, hint = SITUATIONS_MAX + 1, SITUATIONS_MAX, f"use fewer different conditions in {where}"
            raise StateLimitExceeded(f"distinguishing the {what}", needed=needed, allowed=allowed, hint=hint) from None
        return mask, {vector: symbol for symbol, vector in enumerate(vectors)}

    def _match(self, predicate: int) -> Flat:
        mask, symbol_of = self._distinguished([predicate], "events", "a predicate")
        row: list[Cell] = [(SUCCEEDED if vector else 0, 0) for vector in symbol_of]
        automaton = Automaton((tuple(row),), ({},), (0,))
        return flat_of(automaton, self._alphabet(Classes(mask, symbol_of, len(row))), 0)

    def _after(self) -> Flat:
        timer = 1 << self._timer
        self._timer += 1
        automaton = Automaton((((0, 0),),), ({timer: (SUCCEEDED, 0)},), (timer,))
        return flat_of(automaton, self._alphabet(Classes(0, {0: 0}, 1)), timer)

    def _guard(self, expr: t.Modes, span: int) -> Guard:
        guards = [self._names.predicates[mode.guard] for mode in expr.modes]
        mask, symbol_of = self._distinguished(guards, "guards", "the guards of one `in … do`")
        following = [
            next((mode for mode, guard in enumerate(guards) if mode != active and vector >> guard & 1), active)
            for active in range(len(guards))
            for vector in symbol_of
        ]
        alphabet = self._alphabet(Classes(mask, symbol_of, len(symbol_of)))
        return Guard(alphabet, len(symbol_of), len(guards), tuple(following), last=span + 1)

    def _flattened(self, part: Part) -> Part:
        """The part as one automaton, or as it is where that would grow past the limits of a flat unit."""
        root = part[-1]
        children = part[:-1]
        if any(isinstance(unit, Node) for unit in children) or not isinstance(root, Node):
            return part
        if root.times * sum(unit.states for unit in children if isinstance(unit, Flat)) > ROUNDS_FLAT_MAX:
            return part
        chosen = sorted({unit.alphabet for unit in children if not isinstance(unit, Node)})
        join = self._join_alphabets(chosen, SYMBOLS_MAX)
        if join is None:
            return part
        classes, symbols = join
        automaton = self._explored(part, symbols)
        if automaton is None:
            return part
        if self._minimised:
            automaton = minimise(automaton, budget=self._budget)
        automaton, renamed = merge_columns(automaton)
        symbol_of = {vector: renamed[symbol] for vector, symbol in classes.symbol_of.items()}
        alphabet = self._alphabet(Classes(classes.mask, symbol_of, len(automaton.rows[0])))
        # The timers among them run in state 0, which says so itself.
        clears = root.starts >> len(self._names.timers) << len(self._names.timers)
        return (flat_of(automaton, alphabet, root.timers, clears=clears),)

    def _explored(self, part: Part, symbols: list[dict[int, int]]) -> Automaton | None:
        """Every configuration reachable from the start, numbered in the order of first visit."""
        root = part[-1]
        assert isinstance(root, Node)
        numbers = {root.initial: 0}
        queue = [root.initial]
        states_max = min(FLAT_STATES_MAX, FLAT_CELLS_MAX // len(symbols), self._state_limit)

        def cell(state: tuple[int, ...], symbols: dict[int, int] | None, due: int) -> Cell:
            after, tokens, started = step_units(part, self._actions.all, state, symbols, due)
            action = self._actions.number((tuple(tokens), started))
            if after[-1] in (SUCCEEDED, FAILED):
                return after[-1], action
            if after not in numbers:
                numbers[after] = len(numbers)
                queue.append(after)
            return numbers[after], action

        rows: list[tuple[Cell, ...]] = []
        ticks: list[dict[int, Cell]] = []
        lives: list[int] = []
        for state in queue:
            live = live_timers(part, state)
            if len(queue) > states_max or live.bit_count() > TIMERS_FLAT_MAX:
                return None
            self._budget.spend((len(part) + 2) * (len(symbols) + (1 << live.bit_count()) - 1))
            rows.append(tuple(cell(state, symbol, 0) for symbol in symbols))
            ticks.append({due: cell(state, None, due) for due in submasks(live)})
            lives.append(live)
        return Automaton(tuple(rows), tuple(ticks), tuple(lives))

    def _one_alphabet(self, units: Part) -> tuple[Part, list[Classes]]:
        """All units on as few alphabets as fit: nearly always one, so that an event has one symbol."""
        groups = self._groups(units)
        classes: list[Classes] = []
        for number, group in enumerate(groups):
            join = self._join_alphabets(group, 10**9)
            assert join is not None
            joint, symbols = join
            classes.append(joint)
            units = tuple(
                unit
                if isinstance(unit, Node) or unit.alphabet not in group or unit.alphabet < 0
                # Negative while regrouping, so that a new number is not mistaken for an old one.
                else widened(unit, -1 - number, symbols)
                for unit in units
            )
        return tuple(unit if isinstance(unit, Node) else replace(unit, alphabet=-1 - unit.alphabet) for unit in units), classes

    def _groups(self, units: Part) -> list[list[int]]:
        """Which alphabets to join: all of them if the rows stay narrow, else neighbours."""
        used = sorted({unit.alphabet for unit in units if not isinstance(unit, Node)})
        rows = sum(len(unit.next) // unit.symbols for unit in units if not isinstance(unit, Node))
        if self._joinable(used, TABLE_CELLS_MAX // rows):
            return [used]
        groups: list[list[int]] = []
        for alphabet in used:
            if groups and len(groups[-1]) < GROUP_MAX and self._joinable([*groups[-1], alphabet], SYMBOLS_MAX):
                groups[-1].append(alphabet)
            else:
                groups.append([alphabet])
        return groups

    def _joinable(self, alphabets: list[int], size_max: int) -> bool:
        # Event types add up; independent conditions multiply and would widen every unit's rows.
        sizes = 2 * sum(self._classes[alphabet].size for alphabet in alphabets)
        joint_max = size_max if len(alphabets) == 1 else min(size_max, max(JOINT_SYMBOLS_MAX, sizes))
        return self._join_alphabets(alphabets, joint_max) is not None

    def _join_alphabets(self, alphabets: list[int], size_max: int) -> tuple[Classes, list[dict[int, int]]] | None:
        self._budget.spend(len(alphabets))
        join = join_classes(self._classes, alphabets, self._situations, size_max=size_max)
        if join is not None:
            self._budget.spend(len(join[0].symbol_of) * len(alphabets))
        return join

    def _used_actions(self, units: Part) -> tuple[Part, Actions]:
        """Actions renumbered by first use: actions that exploring made and dropped are not in the table."""
        used = Actions()
        renumbered: list[Flat | Guard | Node] = []
        for unit in units:
            if isinstance(unit, Flat):
                action = tuple(used.number(self._actions.all[number]) for number in unit.action)
                ticks = tuple((*key, used.number(self._actions.all[number])) for *key, number in unit.ticks)
                unit = replace(unit, action=action, ticks=ticks)
            renumbered.append(unit)
        return tuple(renumbered), used


def _kind(expr: t.Expr) -> Kind:
    return Kind(expr.word if isinstance(expr, t.Several | t.Bounded) else type(expr).__name__.lower())


def _never_completes(part: Part) -> bool:
    root = part[-1]
    return isinstance(root, Node) and root.kind in (Kind.PARALLEL, Kind.MODES)
