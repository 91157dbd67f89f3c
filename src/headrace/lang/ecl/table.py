"""The table: a compiled pattern as immutable integers, and the function that steps it.

Owns the layout that every engine executes (docs/ecl-table.md) and the deadlines of a state. Promises: equal patterns give equal
tables; `run_step` is pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import msgspec

from headrace.core import print_duration
from headrace.lang.condition import Value
from headrace.lang.ecl.alphabet import Alphabet, describe_symbols
from headrace.lang.ecl.drawing import Dot, Form, Graph, notebook_html, render
from headrace.lang.ecl.engine import EachEngine, Engine, Evaluator, Event, Output, Status, evaluate_condition, holds
from headrace.lang.ecl.errors import TableError
from headrace.lang.ecl.network import (
    FAILED,
    SUCCEEDED,
    Action,
    Flat,
    Guard,
    Node,
    Symbols,
    Unit,
    initial_of,
    live_timers,
    starts_of as _starts_of,
    step_units,
)
from headrace.lang.ecl.parser import parse_predicate
from headrace.lang.ecl.registers import Memory, RegisterProgram, Registers, evaluator_at_start, evaluator_with_memory
from headrace.lang.ecl.tree import Condition, Predicate, atoms


class Table(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"predicate_texts": "predicates"},
    dict=True,
):
    """A compiled pattern. `components` are the root units that run side by side; timers are durations in µs.

    `completes` is false for a `parallel` at the top, which never completes."""

    format: Literal["headrace.ecl.table"] = "headrace.ecl.table"
    version: Literal[1]
    pattern: str
    predicate_texts: tuple[str, ...]
    tokens: tuple[str, ...]
    timers: tuple[int, ...]
    alphabets: tuple[Alphabet, ...]
    actions: tuple[Action, ...]
    units: tuple[Unit, ...]
    components: tuple[int, ...]
    completes: bool
    registers: Registers | None = None

    def _repr_html_(self) -> str:
        return notebook_html(table_graph(self), self.pattern)

    @cached_property
    def predicates(self) -> tuple[Predicate, ...]:
        names = RegisterProgram(self.registers, ()).names if self.registers else None
        return tuple(parse_predicate(text, registers=names) for text in self.predicate_texts)

    @cached_property
    def start_predicate(self) -> Predicate | None:
        """What starts an instance of `each`."""
        if self.registers is None or not self.registers.each:
            return None
        return parse_predicate(self.registers.start, registers=RegisterProgram(self.registers, ()).names)

    @cached_property
    def simple(self) -> bool:
        """Whether the state is one integer and a step one look-up."""
        return len(self.units) == 1 and not self.timers and self.registers is None

    @cached_property
    def program(self) -> RegisterProgram | None:
        """The registers, ready to run."""
        if self.registers is None:
            return None
        predicates = [*self.predicates, *([self.start_predicate] if self.start_predicate else [])]
        texts = [atom.text for predicate in predicates for atom in atoms(predicate) if isinstance(atom, Condition)]
        return RegisterProgram(self.registers, tuple(dict.fromkeys(texts)))

    @cached_property
    def memo(self) -> dict[str, dict[Any, Any]]:
        """What stepping by this table has found out. Its batches share it, however short they are."""
        return {}

    def pushed(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """The tokens that a transition pushes, without the labels that it records."""
        return tuple(self.tokens[number] for number in numbers if number < len(self.tokens))

    def recorded(self, numbers: Sequence[int]) -> list[int]:
        """The labels that a transition records."""
        return [number - len(self.tokens) for number in numbers if number >= len(self.tokens)]

    def cleared(self, started: int) -> list[int]:
        """The labels of the loops that a transition starts."""
        started >>= len(self.timers)
        return [label for label in range(started.bit_length()) if started >> label & 1]

    @cached_property
    def start_units(self) -> tuple[int, ...]:
        return tuple(value for root in self.components for value in initial_of(self.units[root]))

    @cached_property
    def states(self) -> int:
        """Rows of all automata and one for each other unit: the size of the table, not of the space it spans."""
        return sum(unit.states if isinstance(unit, Flat) else 1 for unit in self.units)


def to_json(table: Table) -> bytes:
    """Compact JSON in a fixed order of fields: the same bytes for the same pattern."""
    return msgspec.json.encode(table, order="deterministic")


def from_json(data: bytes | str) -> Table:
    """The table of a JSON text. Raises TableError for anything else, naming the place."""
    try:
        return msgspec.json.decode(data, type=Table)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TableError(f"not a compiled table of version 1: {error}; compile the pattern again") from error


@dataclass(frozen=True, slots=True)
class TableState:
    """One integer per unit, one deadline per timer (µs; None: it does not run), and the registers."""

    units: tuple[int, ...]
    deadlines: tuple[int | None, ...] = ()
    memory: Memory = ()


def start_state(table: Table, time: int) -> TableState:
    """A fresh instance, started at a time."""
    started = 0
    for root in table.components:
        started |= _starts_of(table.units[root])
    deadlines = next_deadlines(table, (None,) * len(table.timers), started, started, time)
    return TableState(table.start_units, deadlines, table.program.empty if table.program else ())


def classify(table: Table, event: Event, evaluator: Evaluator = evaluate_condition) -> tuple[int, ...]:
    """The event's symbol in each alphabet; each predicate is evaluated at most once, and only if it matters."""
    known: dict[int, bool] = {}

    def predicate_holds(number: int) -> bool:
        if number not in known:
            known[number] = holds(table.predicates[number], event, evaluator)
        return known[number]

    return tuple(alphabet.symbol(event.type, predicate_holds) for alphabet in table.alphabets)


def run_step(table: Table, state: TableState, symbols: Symbols, time: int) -> tuple[TableState, tuple[Output, ...]]:
    """Timers due at or before `time` first, then the event of these symbols."""
    state, fired = advance_state(table, state, time)
    state, outputs = _take(table, state, symbols, 0, time)
    return state, fired + outputs


def advance_state(table: Table, state: TableState, time: int) -> tuple[TableState, tuple[Output, ...]]:
    """Fires the timers due at or before a time, deadline by deadline."""
    return TableEngine(table).advance(state, time)


def earliest(deadlines: tuple[int | None, ...]) -> int | None:
    if not deadlines:
        return None
    return min((deadline for deadline in deadlines if deadline is not None), default=None)


def next_deadline(state: TableState) -> int | None:
    return earliest(state.deadlines)


def status_of(table: Table, state: TableState) -> Status:
    """Waiting, or how the pattern completed."""
    if not table.completes:
        return Status.WAITING
    unit, value = table.units[-1], state.units[-1]
    succeeded, failed = (unit.states, unit.states + 1) if isinstance(unit, Flat) else (SUCCEEDED, FAILED)
    return {succeeded: Status.SUCCESS, failed: Status.FAILURE}.get(value, Status.WAITING)


def _take(
    table: Table,
    state: TableState,
    symbols: Symbols | None,
    due: int,
    now: int,
    fields: Sequence[Value | None] | None = None,
) -> tuple[TableState, tuple[Output, ...]]:
    after, tokens, started = step_units(table.units, table.actions, state.units, symbols, due)
    deadlines = state.deadlines
    if table.timers:
        deadlines = next_deadlines(table, deadlines, live_timers(table.units, after), started, now)
    memory = state.memory
    if table.program:
        memory = table.program.record(memory, table.recorded(tokens), fields, now)
        memory = table.program.clear(memory, table.cleared(started))
    return TableState(after, deadlines, memory), tuple(Output(token, now) for token in table.pushed(tokens))


def next_deadlines(table: Table, before: tuple[int | None, ...], live: int, started: int, now: int) -> tuple[int | None, ...]:
    """Deadlines after a transition that started some timers and left those of the mask `live` running."""
    return tuple(
        now + duration_us if started >> timer & 1 else before[timer] if live >> timer & 1 else None
        for timer, duration_us in enumerate(table.timers)
    )


class TableEngine(Engine[TableState]):
    """An engine that runs a compiled table."""

    def __init__(self, table: Table, *, evaluator: Evaluator = evaluate_condition) -> None:
        self._table = table
        self._evaluator = evaluator

    def start(self, time: int) -> TableState:
        return start_state(self._table, time)

    def status(self, state: TableState) -> Status:
        return status_of(self._table, state)

    def next_deadline(self, state: TableState) -> int | None:
        return next_deadline(state)

    def take(self, state: TableState, event: Event | None, now: int) -> tuple[TableState, tuple[Output, ...]]:
        if event is not None:
            evaluator, fields = self._evaluator, None
            if self._table.program:
                evaluator = evaluator_with_memory(self._table.program, evaluator, state.memory, now)
                fields = self._table.program.read_fields(event.subject)
            return _take(self._table, state, classify(self._table, event, evaluator), 0, now, fields)
        due = sum(1 << timer for timer, deadline in enumerate(state.deadlines) if deadline == now)
        return _take(self._table, state, None, due, now)


def table_engine(table: Table, evaluator: Evaluator = evaluate_condition) -> Engine[object]:
    """The engine of a compiled table, with `each` or without."""
    inner = cast(Engine[object], TableEngine(table, evaluator=evaluator))
    if table.program is None or table.registers is None or table.start_predicate is None:
        return inner
    return cast(
        Engine[object],
        EachEngine(inner, table.start_predicate, table.registers.each, evaluator=evaluator_at_start(table.program, evaluator)),
    )


def draw_table(table: Table, *, form: Form = "mermaid") -> str:
    """States are round, events and timers label the edges, outputs follow a slash. Nodes over units are boxes."""
    return render(table_graph(table), form)


def table_graph(table: Table) -> Graph:
    """The states and edges of a table. A state is named u<unit>s<state>."""
    graph = Graph()
    for index, unit in enumerate(table.units):
        match unit:
            case Flat():
                _draw_flat(graph, table, index, unit)
            case Guard():
                graph.nodes.append(Dot(f"u{index}", "guards of modes", "box"))
            case Node():
                graph.nodes.append(Dot(f"u{index}", _node_label(table, unit), "box"))
                for child in unit.children:
                    name = f"u{child}s0" if isinstance(table.units[child], Flat) else f"u{child}"
                    graph.edges.append((f"u{index}", name, ""))
    return graph


def _node_label(table: Table, unit: Node) -> str:
    bound = f"({unit.times})" if unit.times else f"({_token(table, unit.token)})" if unit.token >= 0 else ""
    return f"{unit.kind}{bound}"


def _draw_flat(graph: Graph, table: Table, index: int, unit: Flat) -> None:
    edges: dict[tuple[int, int, int], list[str]] = {}
    symbols: dict[tuple[int, int, int], set[int]] = {}
    for state in range(unit.states):
        for symbol in range(unit.symbols):
            cell = state * unit.symbols + symbol
            following, action = unit.next[cell], unit.action[cell]
            if following != state or action:
                symbols.setdefault((state, following, action), set()).add(symbol)
    for edge, own in symbols.items():
        edges[edge] = describe_symbols(table.alphabets[unit.alphabet], own)
    for state, due, following, action in unit.ticks:
        timers = [f"after {print_duration(d)}" for timer, d in enumerate(table.timers) if due >> timer & 1]
        edges.setdefault((state, following, action), []).append(" with ".join(timers))
    reached = {0, *(following for _, following, _ in edges)}
    finals = {unit.states: "success", unit.states + 1: "failure"}
    graph.nodes.extend(Dot(f"u{index}s{state}", str(state), "round", state == 0) for state in range(unit.states))
    graph.nodes.extend(Dot(f"u{index}s{state}", name, "double") for state, name in finals.items() if state in reached)
    for (state, following, action), inputs in edges.items():
        pushed = ",".join(_token(table, token) for token in table.actions[action][0])
        text = " | ".join(inputs) + (f" / {pushed}" if pushed else "")
        graph.edges.append((f"u{index}s{state}", f"u{index}s{following}", text))


def _token(table: Table, number: int) -> str:
    """A token, or the label that is recorded."""
    if number < len(table.tokens):
        return table.tokens[number]
    assert table.registers is not None
    return f"as {table.registers.labels[number - len(table.tokens)]}"
