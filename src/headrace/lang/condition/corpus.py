"""A corpus of conditions: cases in TOML to which every engine must give the same answer.

A case has a name, a condition, and an `event` (a JSON object with type, key, headers, payload, emitted_at) or a bare
`payload`, and either `expect` (true, false, unknown) or `error`, a part of the message that rejects the text; an
empty part means any error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from headrace.core import Invalid
from headrace.lang.condition.condition import Condition, parse
from headrace.lang.condition.errors import ConditionError
from headrace.lang.condition.moments import micros_of_text, moment_of
from headrace.lang.condition.subject import Json, Sample, decode_json
from headrace.lang.corpus_file import load_cases

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
