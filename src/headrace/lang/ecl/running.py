"""Runs a pattern over events and reports each step, as `ecl run` shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from headrace.core import Invalid
from headrace.lang.condition import decode_json
from headrace.lang.ecl.compiler import compile
from headrace.lang.ecl.corpus import read_events
from headrace.lang.ecl.each import table_engine
from headrace.lang.ecl.errors import PatternError
from headrace.lang.ecl.events import Evaluator, Event, Output, Status
from headrace.lang.ecl.predicate import evaluate_condition
from headrace.lang.ecl.table import Table, TableState, advance_state, changes, classify, run_step, start_state, status_of
from headrace.lang.ecl.tree import Pattern


@dataclass(frozen=True, slots=True)
class RunStep:
    """One event: its outputs (those of timers first), whether it changed anything, and the state and status after it."""

    event: Event
    outputs: tuple[Output, ...]
    changed: bool
    state: TableState
    status: Status
    captured: tuple[dict[str, object], ...] = ()
    """What the registers hold after it, one entry per running instance."""


def parse_events(text: str) -> tuple[Event, ...]:
    """`a a b` (one second apart), or JSON: `[["a", 0], ["b", 2.5, {"amount": 3}]]`."""
    try:
        raw = decode_json(text) if text.lstrip().startswith("[") else text
        return read_events(raw)
    except (Invalid, ValueError) as error:
        hint = 'write types, as in "a b", or JSON, as in [["a", 0], ["b", 2.5]]'
        raise PatternError(f"the events cannot be read: {error}", text=text, hint=hint) from error


def run_events(pattern: Pattern, events: tuple[Event, ...], *, evaluator: Evaluator = evaluate_condition) -> tuple[RunStep, ...]:
    """Each event through a fresh instance of the compiled pattern, which starts at the first event's time."""
    table = compile(pattern)
    if table.registers is not None:
        return _run_with_registers(table, events, evaluator)
    steps: list[RunStep] = []
    state = start_state(table, events[0].time if events else 0)
    for event in events:
        symbols = classify(table, event, evaluator)
        state, fired = advance_state(table, state, event.time)
        is_change = changes(table, state, symbols)
        state, outputs = run_step(table, state, symbols, event.time)
        steps.append(RunStep(event, fired + outputs, is_change, state, status_of(table, state)))
    return tuple(steps)


def _run_with_registers(table: Table, events: tuple[Event, ...], evaluator: Evaluator) -> tuple[RunStep, ...]:
    engine, program = table_engine(table, evaluator), table.program
    assert program is not None
    state = engine.start(events[0].time if events else 0)
    steps: list[RunStep] = []
    for event in events:
        advanced, fired = engine.advance(state, event.time)
        state, outputs = engine.take(advanced, event, event.time)
        instances = state if isinstance(state, tuple) else (cast(TableState, state),)
        # Of several instances, the newest is shown.
        shown = instances[-1] if instances else start_state(table, event.time)
        captured = tuple(program.show_state(instance.memory, event.time) for instance in instances)
        is_change = state != advanced or bool(outputs)
        steps.append(RunStep(event, fired + outputs, is_change, shown, engine.status(state), captured))
    return tuple(steps)
