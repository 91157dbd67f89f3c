"""A corpus of conditions: TOML cases that every engine must answer alike.

A case has a name, a condition, and an `event` (a JSON object with type, key, headers, payload, emitted_at) or a bare
`payload`, and either `expect` (true, false, unknown) or `error`, a part of the message that refuses the text; an
empty part means any refusal.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core import Invalid
from headrace.lang.condition.condition import Condition, parse
from headrace.lang.condition.errors import ConditionError
from headrace.lang.condition.moments import micros_of_text, moment_of
from headrace.lang.condition.subject import Json, Sample, decode_json

EvaluateMany = Callable[[Sequence[tuple[Condition, Sample]]], Sequence[bool | None]]
_ANSWERS = {True: "true", False: "false", None: "unknown"}
_CASE_KEYS = frozenset({"name", "condition", "event", "payload", "expect", "error"})
_EVENT_KEYS = frozenset({"type", "key", "headers", "payload", "emitted_at"})


class CorpusError(Invalid):
    """The corpus file cannot be read as cases."""

    sqlstate = "HR311"


@dataclass(frozen=True, slots=True)
class Case:
    """One case: `expect` is the answer, or `error` a part of the refusal."""

    name: str
    condition: str
    event: Sample
    expect: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an engine made of a case: an answer, or `error: …`."""

    case: Case
    got: str
    passed: bool


def load_corpus(path: Path) -> tuple[Case, ...]:
    """The cases of a file. Raises CorpusError naming the file and the case."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CorpusError(f"{path}: {error}") from None
    entries = document.get("case")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CorpusError(f"{path}: no [[case]] found; write one per case")
    return tuple(_case(path, number, entry) for number, entry in enumerate(entries, start=1))


def _case(path: Path, number: int, entry: dict[str, object]) -> Case:
    where = f"{path}: case {number} ({entry.get('name', 'without a name')})"
    if unknown := sorted(set(entry) - _CASE_KEYS):
        raise CorpusError(f"{where}: unknown key {unknown[0]}; allowed: {', '.join(sorted(_CASE_KEYS))}")
    texts = {key: value for key, value in entry.items() if isinstance(value, str)}
    if len(texts) != len(entry) or "name" not in texts or "condition" not in texts:
        raise CorpusError(f"{where}: name and condition are needed, and every value is a text")
    expect, error = texts.get("expect"), texts.get("error")
    if (expect is None) == (error is None) or (expect is not None and expect not in _ANSWERS.values()):
        raise CorpusError(f"{where}: give either expect = true, false or unknown (as text), or error")
    try:
        event = sample_of(texts.get("event"), texts.get("payload"))
    except Invalid as problem:
        raise CorpusError(f"{where}: {problem}") from None
    return Case(texts["name"], texts["condition"], event, expect, error)


def sample_of(event: str | None, payload: str | None = None) -> Sample:
    """An event out of JSON: the whole event, or its payload alone; neither is an empty object."""
    if event is None:
        return Sample(decode_json(payload if payload is not None else "{}"))
    value = decode_json(event)
    if payload is not None or not isinstance(value, dict) or set(value) - _EVENT_KEYS:
        raise Invalid(f"an event is one JSON object with {', '.join(sorted(_EVENT_KEYS))}; give payload alone instead")
    kind, key, headers = value.get("type", ""), value.get("key"), value.get("headers", {})
    if not isinstance(kind, str) or not (key is None or isinstance(key, str)) or not isinstance(headers, dict):
        raise Invalid("of an event, type is a text, key a text or null, headers an object")
    plain = Sample(value.get("payload", {}), kind, key, headers)
    return plain if "emitted_at" not in value else _emitted(plain, value["emitted_at"])


def _emitted(event: Sample, at: Json) -> Sample:
    micros = micros_of_text(at) if isinstance(at, str) else None
    moment = None if micros is None else moment_of(micros)
    if moment is None:
        raise Invalid("emitted_at is RFC 3339 with an offset, such as 2026-01-31T08:30:00Z")
    return Sample(event.payload, event.type, event.key, event.headers, moment)


def run_cases(cases: Sequence[Case], evaluate: EvaluateMany) -> tuple[Outcome, ...]:
    """The outcome of every case, in order. The engine sees all accepted conditions in one call."""
    parsed: list[Condition | ConditionError] = []
    for case in cases:
        try:
            parsed.append(parse(case.condition))
        except ConditionError as error:
            parsed.append(error)
    asked = [(what, case.event) for what, case in zip(parsed, cases, strict=True) if isinstance(what, Condition)]
    answers = iter(evaluate(asked))
    return tuple(
        _refused(case, what) if isinstance(what, ConditionError) else _answered(case, next(answers))
        for what, case in zip(parsed, cases, strict=True)
    )


def _refused(case: Case, error: ConditionError) -> Outcome:
    return Outcome(case, f"error: {error}", case.error is not None and case.error in str(error))


def _answered(case: Case, answer: bool | None) -> Outcome:
    got = _ANSWERS[answer]
    return Outcome(case, got, case.expect == got)
