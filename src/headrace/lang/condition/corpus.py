"""A corpus of conditions: cases in TOML to which every engine must give the same answer, and how engines are asked.

A case has a name, a condition, and an `event` (a JSON object with type, key, headers, payload, emitted_at) or a bare
`payload`, and either `expect` (true, false, unknown) or `error`, a part of the message that rejects the text; an
empty part means any error.

An engine evaluates many conditions over many events: a truth table with a row per event and a column per condition. Here is the Python
engine, and what an engine that runs SQL needs: events as rows, and the SELECT statements. The engine of the database is in `rules`,
the one of Spark in `spark`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from headrace.core import Invalid
from headrace.lang.condition.condition import Condition, parse
from headrace.lang.condition.errors import ConditionError
from headrace.lang.condition.python_printer import to_python
from headrace.lang.condition.subject import Json, Sample, decode_json, jsonb_text, micros_of_text, moment_of
from headrace.lang.condition.tree import Field

Entry = TypeVar("Entry")
Loaded = TypeVar("Loaded")


def load_cases(path: Path, entry: type[Entry], build: Callable[[Entry], Loaded], error: type[Invalid]) -> tuple[Loaded, ...]:
    """The cases of a file, in its order: each is read as an `entry`, and then built. Raises `error` naming file and case."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise error(f"{path}: {problem}") from None
    tables = document.get("case")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise error(f"{path}: no [[case]] found; write one per case")
    cases = []
    for number, table in enumerate(tables, 1):
        try:
            cases.append(build(msgspec.convert(table, entry)))
        except (Invalid, ValueError, ArithmeticError) as problem:
            raise error(f"{path}: case {number} ({table.get('name', 'without a name')}): {problem}") from None
    return tuple(cases)


EvaluatePairs = Callable[[Sequence[tuple[Condition, Sample]]], Sequence[bool | None]]
_ANSWERS = {True: "true", False: "false", None: "unknown"}
_EVENT_KEYS = frozenset({"type", "key", "headers", "payload", "emitted_at"})


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A case as it is in the file."""

    name: str
    condition: str
    event: str | None = None
    payload: str | None = None
    expect: Literal["true", "false", "unknown"] | None = None
    error: str | None = None


class CorpusError(Invalid):
    """The corpus file cannot be read as cases."""

    sqlstate = "HR311"


@dataclass(frozen=True, slots=True)
class Case:
    """One case: `expect` is the answer, or `error` a part of the error message."""

    name: str
    condition: str
    event: Sample
    expect: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case on an engine: an answer, or `error: …`."""

    case: Case
    got: str
    passed: bool


def load_corpus(path: Path) -> tuple[Case, ...]:
    """The cases of a file. Raises CorpusError naming the file and the case."""
    return load_cases(path, _Entry, _read_case, CorpusError)


def _read_case(case: _Entry) -> Case:
    if (case.expect is None) == (case.error is None):
        raise Invalid("give either expect = 'true', 'false' or 'unknown', or error = 'part of the message'")
    return Case(case.name, case.condition, read_sample(case.event, case.payload), case.expect, case.error)


def read_sample(text: str | None, payload: str | None = None) -> Sample:
    """An event from JSON: the whole event, or its payload alone; an empty object by default."""
    if text is None:
        return Sample(decode_json(payload if payload is not None else "{}"))
    value = decode_json(text)
    if payload is not None or not isinstance(value, dict) or set(value) - _EVENT_KEYS:
        raise Invalid(f"an event is one JSON object with {', '.join(sorted(_EVENT_KEYS))}; give payload alone instead")
    type_, key, headers = value.get("type", ""), value.get("key"), value.get("headers", {})
    if not isinstance(type_, str) or not (key is None or isinstance(key, str)) or not isinstance(headers, dict):
        raise Invalid("the type of an event is a text, its key a text or null, its headers an object")
    event = Sample(value.get("payload", {}), type_, key, headers)
    return replace(event, emitted_at=_read_moment(value["emitted_at"])) if "emitted_at" in value else event


def _read_moment(value: Json) -> datetime:
    micros = micros_of_text(value) if isinstance(value, str) else None
    moment = None if micros is None else moment_of(micros)
    if moment is None:
        raise Invalid("emitted_at is RFC 3339 with an offset, such as 2026-01-31T08:30:00Z")
    return moment


def run_cases(cases: Sequence[Case], evaluate: EvaluatePairs) -> tuple[Outcome, ...]:
    """The outcome of every case, in order. The engine gets all valid conditions in one call."""
    conditions = [_parse(case.condition) for case in cases]
    pairs = [
        (condition, case.event) for condition, case in zip(conditions, cases, strict=True) if isinstance(condition, Condition)
    ]
    answers = iter(evaluate(pairs))
    outcomes: list[Outcome] = []
    for condition, case in zip(conditions, cases, strict=True):
        if isinstance(condition, Condition):
            answer = _ANSWERS[next(answers)]
            outcomes.append(Outcome(case, answer, case.expect == answer))
        else:
            outcomes.append(Outcome(case, f"error: {condition}", case.error is not None and case.error in str(condition)))
    return tuple(outcomes)


def _parse(text: str) -> Condition | ConditionError:
    try:
        return parse(text)
    except ConditionError as error:
        return error


TruthTable = list[list[bool | None]]
Engine = Callable[[Sequence[Condition], Sequence[Sample]], TruthTable]
SampleRow = tuple[int, str, str | None, str, str, datetime]

CONDITIONS_PER_QUERY = 200
PAIRS_PER_TABLE = 100
"""Pairs are evaluated as the diagonal of a truth table of this size: a larger one computes more that nobody needs."""


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """How an engine prints conditions and fields. `fence` keeps its planner from flattening the subquery of extracted fields."""

    condition: Callable[[Condition, Mapping[Field, str]], str]
    field: Callable[[Field], str]
    fence: str


def python_engine(conditions: Sequence[Condition], events: Sequence[Sample]) -> TruthTable:
    """The truth table as Python computes it."""
    functions = [to_python(condition) for condition in conditions]
    return [[function(event) for function in functions] for event in events]


def sample_rows(events: Sequence[Sample]) -> list[SampleRow]:
    """The events as rows: number, type, key, headers and payload as JSON text, emitted_at."""
    return [(n, e.type, e.key, jsonb_text(dict(e.headers)), jsonb_text(e.payload), e.emitted_at) for n, e in enumerate(events)]


def evaluate_sql(
    conditions: Sequence[Condition],
    events: int,
    dialect: SqlDialect,
    run: Callable[[str], Iterable[Sequence[int | bool | None]]],
    *,
    extract_once: bool = True,
) -> TruthTable:
    """The truth table over a table `sample` of such rows; `run` gets SELECTs with a column per condition.

    With `extract_once` each field is extracted once per event, as the rules of a topic do it; else wherever it is read."""
    fields = dict.fromkeys(field for condition in conditions for field in condition.fields) if extract_once else {}
    columns = {field: f"f{number}" for number, field in enumerate(fields)}
    # All of it is text of our own printers, and our own names.
    source = "sample"
    if columns:
        extractions = ", ".join(f"{dialect.field(field)} as {name}" for field, name in columns.items())
        source = f"(select number, type, key, headers, payload, emitted_at, {extractions} from sample{dialect.fence}) s"  # noqa: S608
    table: TruthTable = [[] for _ in range(events)]
    for start in range(0, len(conditions), CONDITIONS_PER_QUERY):
        chunk = conditions[start : start + CONDITIONS_PER_QUERY]
        answers = ", ".join(f"{dialect.condition(condition, columns)} as c{number}" for number, condition in enumerate(chunk))
        for number, *row in run(f"select number, {answers} from {source}"):  # noqa: S608
            assert number is not None
            table[number].extend(None if answer is None else bool(answer) for answer in row)
    return table


def evaluate_pairs(engine: Engine) -> EvaluatePairs:
    """The engine as a corpus needs it: one answer per pair of condition and event."""

    def evaluate(pairs: Sequence[tuple[Condition, Sample]]) -> list[bool | None]:
        answers: list[bool | None] = []
        for start in range(0, len(pairs), PAIRS_PER_TABLE):
            chunk = pairs[start : start + PAIRS_PER_TABLE]
            table = engine([condition for condition, _ in chunk], [event for _, event in chunk])
            answers += [row[number] for number, row in enumerate(table)]
        return answers

    return evaluate
