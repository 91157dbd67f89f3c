"""Conditions over whole columns give the answers of the Python printer, over the corpus and over random events."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import HealthCheck, given, settings, strategies as st

from headrace.evaluate.columns import FieldReader, Integers, Texts
from headrace.evaluate.conditions import truth_table
from headrace.lang.condition import Condition, Node, Sample, TruthTable, parse, python_engine, sample_rows
from tests.examples import examples
from tests.lang.condition.strategies import conditions, events
from tests.lang.condition.test_engines import VALID, corpus_failures

_SCHEMA = pa.schema(
    [
        ("type", pa.string()),
        ("key", pa.string()),
        ("headers", pa.string()),
        ("payload", pa.string()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


def as_batch(samples: Sequence[Sample]) -> pa.RecordBatch:
    columns = list(zip(*(row[1:] for row in sample_rows(samples)), strict=True))
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)


def column_engine(given: Sequence[Condition], samples: Sequence[Sample]) -> TruthTable:
    return truth_table(given, as_batch(samples))


def differences(given: Sequence[Condition], samples: Sequence[Sample]) -> list[str]:
    expected, actual = python_engine(given, samples), column_engine(given, samples)
    return [
        f"{condition.text} on {sample}: python {a}, columns {b}"
        for sample, expected_row, actual_row in zip(samples, expected, actual, strict=True)
        for condition, a, b in zip(given, expected_row, actual_row, strict=True)
        if a is not b
    ]


def test_columns_answer_the_corpus_and_agree_with_python() -> None:
    assert corpus_failures(column_engine) == []
    assert differences([parse(case.condition) for case in VALID], [case.event for case in VALID]) == []


def test_condition_alone_agrees_with_python_over_every_event() -> None:
    """So that the fast ways are taken, too: alone, a field may have a type of its own."""
    samples = [case.event for case in VALID]
    alike = [Sample({"n": n, "t": f"t{n % 3}"}, "a", f"k{n}") for n in range(20)]
    for case in VALID[::3]:
        assert differences([parse(case.condition)], samples) == []
    for text in ("(object -> 'n')::int > 7", "object ->> 't' in ('t1', 't9')", "object ->> 't' <> 't2' and key = 'k5'"):
        assert differences([parse(text)], alike) == []


def test_plain_values_are_not_extracted_one_by_one() -> None:
    condition = parse("(object -> 'n')::int > 7 and object ->> 't' = 'x'")
    columns = FieldReader(condition.fields).read(as_batch([Sample({"n": 5, "t": "x"}), Sample({"n": 2**40})]))
    number, text = (columns[field] for field in condition.fields)
    assert isinstance(number, Integers) and number.is_known.tolist() == [True, False]
    assert isinstance(text, Texts) and text.values.to_pylist() == ["x", None]


@settings(deadline=None, max_examples=examples(60, 400), suppress_health_check=list(HealthCheck))
@given(st.lists(conditions, min_size=1, max_size=10), st.lists(events, min_size=1, max_size=10))
def test_columns_agree_with_python_on_random_events(trees: list[Node], samples: list[Sample]) -> None:
    assert differences([Condition(tree) for tree in trees], samples) == []
