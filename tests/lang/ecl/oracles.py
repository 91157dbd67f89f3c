"""What tests compute by themselves to compare with: the events that are evidence, and the facts of an event."""

from __future__ import annotations

from headrace.lang.condition import Value
from headrace.lang.ecl import Event, Table, TableState
from headrace.lang.ecl.engine import evaluate_condition
from headrace.lang.ecl.network import Symbols, step_units
from headrace.lang.ecl.registers import RegisterProgram


def changes(table: Table, state: TableState, symbols: Symbols) -> bool:
    """Whether an event of these symbols changes the state, starts a timer or makes an output."""
    after, tokens, started = step_units(table.units, table.actions, state.units, symbols, 0)
    return after != state.units or bool(tokens) or started != 0


def facts_of(program: RegisterProgram, event: Event) -> list[str | None]:
    """The facts of an event, as a database or Spark would extract them."""
    truths = [evaluate_condition(text, event.subject) for text in program.static]
    fields = [_encode_fact(value) for value in program.read_fields(event.subject)]
    return [event.type, *(None if truth is None else str(truth).lower() for truth in truths), *fields]


def _encode_fact(value: Value | None) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None or isinstance(value, str) else str(value)
