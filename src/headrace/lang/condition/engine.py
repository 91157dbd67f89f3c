"""Engines that evaluate many conditions over many events: a truth table with a row per event and a column per condition.

Here is the Python engine, and what the engines that run SQL share: events as rows, and the SELECT statements. The engine of
the database is in `rules`, the one of Spark in `spark`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.lang.condition.condition import Condition
from headrace.lang.condition.corpus import EvaluatePairs
from headrace.lang.condition.python_printer import to_python
from headrace.lang.condition.subject import Sample, jsonb_text
from headrace.lang.condition.tree import Field

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
