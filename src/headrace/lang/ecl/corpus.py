"""The corpus: cases that every engine must answer alike, read from TOML; and runs over such events, step by step, as `ecl run` shows them.

Short form: `events = "a a b"` are types one second apart, `outputs = ". x x,y"` the tokens per event. Long form:
`events = [["a", 0], ["b", 2.5]]` are types and seconds since 1970 (and, third, a payload, else `{}`), `outputs =
[[], [["x", 2]]]` tokens and seconds; outputs of timers due by an event stand under it, before its own. `status` is that
after the last event."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Literal, cast

import msgspec

from headrace.core import Invalid
from headrace.lang.condition import Json, Sample, decode_json, load_cases, moment_of
from headrace.lang.ecl.compiler import compile
from headrace.lang.ecl.engine import US_PER_S, Engine, Evaluator, Event, Output, Status, evaluate_condition
from headrace.lang.ecl.errors import CorpusError, PatternError
from headrace.lang.ecl.interpreter import interpreter_of
from headrace.lang.ecl.machine import MachineEngine, build_machine
from headrace.lang.ecl.parser import parse
from headrace.lang.ecl.table import (
    TableState,
    start_state,
    table_engine,
)
from headrace.lang.ecl.tree import Pattern

EngineName = Literal["interpreter", "machine", "table"]
ENGINES: tuple[EngineName, ...] = ("interpreter", "machine", "table")


class _TimedEvent(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """An event of the long form."""

    type: str
    seconds: Decimal
    payload: object = msgspec.field(default_factory=dict)


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A case as it is in the file; `events` are read by read_events."""

    name: str
    pattern: str
    events: object
    outputs: str | list[list[tuple[str, Decimal]]]
    status: Status
    why: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One case; times in microseconds. `outputs` has one entry per event."""

    name: str
    pattern: str
    events: tuple[Event, ...]
    outputs: tuple[tuple[Output, ...], ...]
    status: Status
    captured: tuple[Mapping[str, object], ...] | None = None
    """What the outputs carry of the registers, in their order; None if the case does not say."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The answers of an engine to a case: outputs per event (those of timers due by it first), the status at the end, `late`, the
    outputs of timers after the last event, and what all of them carry of the registers."""

    outputs: tuple[tuple[Output, ...], ...]
    status: Status
    late: tuple[Output, ...] = ()
    captured: tuple[Mapping[str, object], ...] = ()


def read_captured(texts: Iterable[str | None]) -> tuple[Mapping[str, object], ...]:
    """The values that outputs carry, with all their digits; nothing for outputs of a pattern without registers."""
    return tuple(json.loads(text, parse_float=Decimal) for text in texts if text is not None)


def load_corpus(path: Path) -> tuple[Case, ...]:
    """The cases of a file, in its order. Raises CorpusError naming file and case."""
    cases = load_cases(path, _Entry, _read_case, CorpusError)
    for name, count in Counter(case.name for case in cases).items():
        if count > 1:
            raise CorpusError(f"{path}: two cases are named {name!r}")
    return cases


def make_engine(pattern: Pattern, engine: EngineName, evaluator: Evaluator = evaluate_condition) -> Engine[object]:
    """One of the engines by name."""
    match engine:
        case "interpreter":
            return interpreter_of(pattern, evaluator)
        case "machine":
            return cast(Engine[object], MachineEngine(build_machine(pattern), evaluator=evaluator))
        case "table":
            return table_engine(compile(pattern), evaluator)


def run_case(case: Case, engine: EngineName, *, evaluator: Evaluator = evaluate_condition) -> str | None:
    """The difference between an engine's answers and those of the case, or None."""
    runner = make_engine(parse(case.pattern), engine, evaluator)
    state = runner.start(case.events[0].time if case.events else 0)
    outputs = []
    for event in case.events:
        state, pushed = runner.step(state, event)
        outputs.append(pushed)
    return difference(case, engine, Observation(tuple(outputs), runner.status(state)))


def difference(case: Case, engine: str, observation: Observation) -> str | None:
    """The first event whose outputs are not the case's answer, in words; None where all are."""
    for number, (event, expected, outputs) in enumerate(zip(case.events, case.outputs, observation.outputs, strict=True), 1):
        if outputs != expected:
            answers = f"expected {_describe(expected)}, got {_describe(outputs)}"
            return f"{case.name}: {engine}: event {number} ({event.type}): {answers}"
    if observation.status is not case.status:
        return f"{case.name}: {engine}: expected status {case.status}, got {observation.status}"
    if case.captured is not None and observation.captured != case.captured:
        return f"{case.name}: {engine}: expected outputs with {case.captured}, got {observation.captured}"
    return None


def outputs_by_event(events: Sequence[Event], outputs: Iterable[tuple[int | None, int, str]]) -> tuple[tuple[Output, ...], ...]:
    """Outputs (number of their event, or None for a timer; time; token) per event. Those of a timer belong to the first event at
    or after its deadline; one more entry at the end holds those after the last event."""
    by_event: list[list[Output]] = [[] for _ in range(len(events) + 1)]
    for number, time, token in outputs:
        by_event[sum(event.time < time for event in events) if number is None else number].append(Output(token, time))
    return tuple(map(tuple, by_event))


def _describe(outputs: Iterable[Output]) -> str:
    return ", ".join(f"{output.token} at {Decimal(output.time) / US_PER_S} s" for output in outputs) or "nothing"


def _read_case(case: _Entry) -> Case:
    events = read_events(case.events)
    outputs: Sequence[str | list[tuple[str, Decimal]]] = case.outputs.split() if isinstance(case.outputs, str) else case.outputs
    if len(outputs) != len(events):
        raise ValueError(f"has {len(events)} events and {len(outputs)} outputs")
    pairs = zip(outputs, events, strict=True)
    return Case(case.name, case.pattern, events, tuple(_read_outputs(raw, event.time) for raw, event in pairs), case.status)


def read_events(raw: object) -> tuple[Event, ...]:
    """Events in the short or the long form. Raises ValueError."""
    if isinstance(raw, str):
        return tuple(_event(type_, number * US_PER_S, {}) for number, type_ in enumerate(raw.split()))
    timed = msgspec.convert(raw, list[_TimedEvent])
    events = [_event(event.type, _microseconds(event.seconds), event.payload) for event in timed]
    if any(later.time < earlier.time for earlier, later in pairwise(events)):
        raise ValueError("events go back in time")
    return tuple(events)


def _event(type_: str, time: int, payload: object) -> Event:
    emitted_at = moment_of(time)
    if emitted_at is None:
        raise ValueError(f"{time // US_PER_S} s is beyond the years 1 to 9999; seconds count from 1970")
    return Event(type_, time, Sample(cast(Json, payload), type_, emitted_at=emitted_at))


def _read_outputs(raw: str | list[tuple[str, Decimal]], time: int) -> tuple[Output, ...]:
    """The outputs of one event: `x,y` at its time, or tokens with times of their own."""
    if isinstance(raw, str):
        return () if raw == "." else tuple(Output(token, time) for token in raw.split(","))
    return tuple(Output(token, _microseconds(seconds)) for token, seconds in raw)


def _microseconds(seconds: Decimal) -> int:
    exact = seconds * US_PER_S
    if exact != int(exact):
        raise ValueError(f"{seconds} s is not a whole number of microseconds")
    return int(exact)


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
    engine, program = table_engine(table, evaluator), table.program
    state = engine.start(events[0].time if events else 0)
    steps: list[RunStep] = []
    for event in events:
        advanced, fired = engine.advance(state, event.time)
        state, outputs = engine.take(advanced, event, event.time)
        instances = state if isinstance(state, tuple) else (cast(TableState, state),)
        # Of several instances, show the newest.
        shown = instances[-1] if instances else start_state(table, event.time)
        captured = tuple(program.show_state(instance.memory, event.time) for instance in instances) if program else ()
        is_change = state != advanced or bool(outputs)
        steps.append(RunStep(event, fired + outputs, is_change, shown, engine.status(state), captured))
    return tuple(steps)
