"""The corpus: cases that every engine must answer alike, read from TOML.

Short form: `events = "a a b"` are types one second apart, `outputs = ". x x,y"` the tokens per event. Long form:
`events = [["a", 0], ["b", 2.5]]` are types and seconds since 1970 (and, third, a payload, else `{}`), `outputs =
[[], [["x", 2]]]` tokens and seconds; outputs of timers due by an event stand under it, before its own. `status` is that
after the last event."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Literal, cast

from headrace.lang.condition import Json, Sample
from headrace.lang.ecl.compiler import compile
from headrace.lang.ecl.conditions import evaluate_condition
from headrace.lang.ecl.errors import CorpusError
from headrace.lang.ecl.events import US_PER_S, Engine, Evaluator, Event, Output, Status
from headrace.lang.ecl.interpreter import Interpreter
from headrace.lang.ecl.machine import MachineEngine
from headrace.lang.ecl.machine_builder import build_machine
from headrace.lang.ecl.parser import parse
from headrace.lang.ecl.table import TableEngine
from headrace.lang.ecl.tree import Pattern

EngineName = Literal["interpreter", "machine", "table"]
ENGINES: tuple[EngineName, ...] = ("interpreter", "machine", "table")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS = frozenset({"name", "pattern", "events", "outputs", "status", "why"})


@dataclass(frozen=True, slots=True)
class Case:
    """One case; times in microseconds. `outputs` has one entry per event."""

    name: str
    pattern: str
    events: tuple[Event, ...]
    outputs: tuple[tuple[Output, ...], ...]
    status: Status


@dataclass(frozen=True, slots=True)
class Observation:
    """What an engine made of a case: outputs per event (those of timers due by it first), the status at the end, and `late`, the
    outputs of timers after the last event."""

    outputs: tuple[tuple[Output, ...], ...]
    status: Status
    late: tuple[Output, ...] = ()


def load_corpus(path: Path) -> tuple[Case, ...]:
    """The cases of a file, in its order. Raises CorpusError naming file and case."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CorpusError(f"{path}: {error}") from error
    cases = document.get("case")
    if not isinstance(cases, list) or not cases or set(document) != {"case"}:
        raise CorpusError(f"{path}: expected [[case]] tables and nothing else, found {', '.join(document) or 'nothing'}")
    loaded = tuple(_case(path, number, raw) for number, raw in enumerate(cases, 1))
    for name, count in Counter(case.name for case in loaded).items():
        if count > 1:
            raise CorpusError(f"{path}: two cases are named {name!r}")
    return loaded


def make_engine(pattern: Pattern, engine: EngineName, evaluator: Evaluator = evaluate_condition) -> Engine[object]:
    """One of the engines by name."""
    made: object
    match engine:
        case "interpreter":
            made = Interpreter(pattern, evaluator=evaluator)
        case "machine":
            made = MachineEngine(build_machine(pattern), evaluator=evaluator)
        case "table":
            made = TableEngine(compile(pattern), evaluator=evaluator)
    return made  # type: ignore[return-value]


def run_case(case: Case, engine: EngineName, *, evaluator: Evaluator = evaluate_condition) -> str | None:
    """The difference between an engine's answers and those of the case, or None."""
    runner = make_engine(parse(case.pattern), engine, evaluator)
    state = runner.start(case.events[0].time if case.events else 0)
    outputs = []
    for event in case.events:
        state, pushed = runner.step(state, event)
        outputs.append(pushed)
    return difference(case, engine, Observation(tuple(outputs), runner.status(state)))


def difference(case: Case, engine: str, seen: Observation) -> str | None:
    """The first event whose outputs are not the case's answer, in words; None where all are."""
    for number, (event, expected, outputs) in enumerate(zip(case.events, case.outputs, seen.outputs, strict=True), 1):
        if outputs != expected:
            found = f"expected {_describe(expected)}, got {_describe(outputs)}"
            return f"{case.name}: {engine}: event {number} ({event.type}): {found}"
    return None if seen.status is case.status else f"{case.name}: {engine}: expected status {case.status}, got {seen.status}"


def outputs_by_event(events: Sequence[Event], outputs: Iterable[tuple[int | None, int, str]]) -> tuple[tuple[Output, ...], ...]:
    """Outputs (number of their event, or None for a timer; time; token) per event. Those of a timer belong to the first event at
    or after its deadline; one more entry at the end holds those after the last event."""
    found: list[list[Output]] = [[] for _ in range(len(events) + 1)]
    for number, time, token in outputs:
        found[sum(event.time < time for event in events) if number is None else number].append(Output(token, time))
    return tuple(map(tuple, found))


def _describe(outputs: Iterable[Output]) -> str:
    return ", ".join(f"{output.token} at {Decimal(output.time) / US_PER_S} s" for output in outputs) or "nothing"


def _case(path: Path, number: int, raw: object) -> Case:
    name = raw.get("name", f"number {number}") if isinstance(raw, dict) else f"number {number}"
    try:
        if not isinstance(raw, dict):
            raise ValueError("is not a table")
        if missing := sorted({"name", "pattern", "events", "outputs", "status"} - set(raw)):
            raise ValueError(f"lacks {', '.join(missing)}")
        if unknown := sorted(set(raw) - _FIELDS):
            raise ValueError(f"has unknown {', '.join(unknown)}")
        events = read_events(raw["events"])
        outputs = _outputs(raw["outputs"], events)
        if len(outputs) != len(events):
            raise ValueError(f"has {len(events)} events and {len(outputs)} outputs")
        return Case(str(raw["name"]), str(raw["pattern"]), events, outputs, Status(raw["status"]))
    except (ValueError, TypeError) as error:
        raise CorpusError(f"{path}: case {name!r}: {error}") from error


def read_events(raw: object) -> tuple[Event, ...]:
    """Events in the short or the long form. Raises ValueError."""
    if isinstance(raw, str):
        return tuple(_event(type_, number * US_PER_S, {}) for number, type_ in enumerate(raw.split()))
    if not isinstance(raw, list):
        raise ValueError("events must be a text or a list")
    events = []
    for item in raw:
        if not isinstance(item, list) or not 2 <= len(item) <= 3 or not isinstance(item[0], str):
            raise ValueError(f"an event is [type, seconds] or [type, seconds, payload], not {item!r}")
        events.append(_event(item[0], _microseconds(item[1]), cast(Json, item[2]) if len(item) == 3 else {}))
    if any(later.time < earlier.time for earlier, later in pairwise(events)):
        raise ValueError("events go back in time")
    return tuple(events)


def _event(type_: str, time: int, payload: Json) -> Event:
    try:
        emitted_at = _EPOCH + timedelta(microseconds=time)
    except OverflowError:
        raise ValueError(f"{time // US_PER_S} s is beyond the years 1 to 9999; seconds count from 1970") from None
    return Event(type_, time, Sample(payload, type_, emitted_at=emitted_at))


def _outputs(raw: object, events: Sequence[Event]) -> tuple[tuple[Output, ...], ...]:
    if isinstance(raw, str):
        words = raw.split()
        if len(words) != len(events):
            raise ValueError(f"has {len(events)} events and {len(words)} outputs")
        pairs = zip(words, events, strict=True)
        return tuple(() if w == "." else tuple(Output(token, e.time) for token in w.split(",")) for w, e in pairs)
    if not isinstance(raw, list):
        raise ValueError("outputs must be a text or a list")
    return tuple(tuple(_output(item) for item in items) for items in raw)


def _output(item: object) -> Output:
    if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):
        raise ValueError(f"an output is [token, seconds], not {item!r}")
    return Output(item[0], _microseconds(item[1]))


def _microseconds(seconds: object) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float | Decimal):
        raise ValueError(f"{seconds!r} is not a number of seconds")
    exact = Decimal(str(seconds)) * US_PER_S
    if exact != int(exact):
        raise ValueError(f"{seconds} s is not a whole number of microseconds")
    return int(exact)
