"""Engines behind one face: the answers of many conditions to many events, as a table with a row per event.

Here is the Python engine and what the engines that run SQL share: the events as rows, and the SELECT statements. The
database's engine is in `react`, Spark's in `spark`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.lang.condition.condition import Condition
from headrace.lang.condition.corpus import EvaluateMany
from headrace.lang.condition.python_printer import to_python
from headrace.lang.condition.subject import Sample, jsonb_text
from headrace.lang.condition.tree import Field

Answers = list[list[bool | None]]
Engine = Callable[[Sequence[Condition], Sequence[Sample]], Answers]
SampleRow = tuple[int, str, str | None, str, str, datetime]

CONDITIONS_PER_QUERY = 200
PAIRS_AT_ONCE = 100
"""A pair is answered out of a table of so many conditions and events: larger ones compute more that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes conditions and fields; `fence` keeps its planner from flattening the subquery of fields."""

    condition: Callable[[Condition, Mapping[Field, str]], str]
    field: Callable[[Field], str]
    fence: str


def python_engine(conditions: Sequence[Condition], events: Sequence[Sample]) -> Answers:
    """The answers as Python computes them."""
    functions = [to_python(condition) for condition in conditions]
    return [[function(event) for function in functions] for event in events]


def sample_rows(events: Sequence[Sample]) -> list[SampleRow]:
    """The events as rows: number, type, key, headers and payload as JSON text, moment."""
    return [(n, e.type, e.key, jsonb_text(dict(e.headers)), jsonb_text(e.payload), e.emitted_at) for n, e in enumerate(events)]


def answer_queries(conditions: Sequence[Condition], dialect: Dialect, *, hoisted: bool) -> Iterator[str]:
    """SELECTs over a table `sample` of such rows, a column per condition, CONDITIONS_PER_QUERY in each.

    Where `hoisted`, each field is taken out of an event once, as the rules of a topic do it."""
    fields = dict.fromkeys(field for condition in conditions for field in condition.fields) if hoisted else {}
    columns = {field: f"f{number}" for number, field in enumerate(fields)}
    # All of it is made of our own printers' text and names only.
    source = "sample"
    if columns:
        taken = ", ".join(f"{dialect.field(field)} as {name}" for field, name in columns.items())
        source = f"(select number, type, key, headers, payload, emitted_at, {taken} from sample{dialect.fence}) s"  # noqa: S608
    for start in range(0, len(conditions), CONDITIONS_PER_QUERY):
        chunk = conditions[start : start + CONDITIONS_PER_QUERY]
        answers = ", ".join(f"{dialect.condition(condition, columns)} as c{number}" for number, condition in enumerate(chunk))
        yield f"select number, {answers} from {source}"  # noqa: S608


def joined(rows: int, results: Iterator[Sequence[Sequence[int | bool | None]]]) -> Answers:
    """The table out of the results of its queries."""
    table: Answers = [[] for _ in range(rows)]
    for result in results:
        for number, *answers in result:
            assert isinstance(number, int)
            table[number].extend(None if answer is None else bool(answer) for answer in answers)
    return table


def pairwise(engine: Engine) -> EvaluateMany:
    """The engine as the corpus wants it: one answer per pair of condition and event."""

    def evaluate(pairs: Sequence[tuple[Condition, Sample]]) -> list[bool | None]:
        answers: list[bool | None] = []
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            chunk = pairs[start : start + PAIRS_AT_ONCE]
            table = engine([condition for condition, _ in chunk], [event for _, event in chunk])
            answers += [table[number][number] for number in range(len(chunk))]
        return answers

    return evaluate
