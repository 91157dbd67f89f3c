"""Random conditions over random events: the canonical text round-trips, and the three engines agree."""

from __future__ import annotations

from typing import Any

import psycopg
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from tests.examples import examples

from headrace.lang.condition import Condition, Engine, Node, Sample, decode_json, jsonb_text, parse, python_engine
from headrace.rules import database_engine
from headrace.spark import spark_engine

from .strategies import conditions, documents, events

slow = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
)
batches = (st.lists(conditions, min_size=1, max_size=15), st.lists(events, min_size=1, max_size=10))


@settings(slow, max_examples=examples(100, 300))
@given(conditions)
def test_canonical_text_parses_to_the_same_tree(tree: Node) -> None:
    condition = Condition(tree)
    assert parse(condition.text) == condition


@settings(slow, max_examples=examples(70, 200))
@given(documents)
def test_json_text_is_read_back_exactly(document: Any) -> None:
    assert jsonb_text(decode_json(jsonb_text(document))) == jsonb_text(document)


def assert_agreement(engine: Engine, trees: list[Node], subjects: list[Sample]) -> None:
    conditions = [Condition(tree) for tree in trees]
    expected, actual = python_engine(conditions, subjects), engine(conditions, subjects)
    for subject, expected_row, actual_row in zip(subjects, expected, actual, strict=True):
        for condition, a, b in zip(conditions, expected_row, actual_row, strict=True):
            assert a is b, f"{condition.text} on {subject}: python {a}, engine {b}"


@settings(slow, max_examples=examples(25, 60), suppress_health_check=list(HealthCheck))
@given(*batches)
def test_database_agrees_with_python(database: psycopg.Connection, trees: list[Node], subjects: list[Sample]) -> None:
    assert_agreement(database_engine(database, extract_once=False), trees, subjects)
    assert_agreement(database_engine(database), trees, subjects)


# Few and large examples, and no shrinking: each is a Spark job.
@settings(slow, max_examples=examples(2, 4), phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(conditions, min_size=10, max_size=20), st.lists(events, min_size=5, max_size=15))
def test_spark_agrees_with_python(spark: Any, trees: list[Node], subjects: list[Sample]) -> None:
    assert_agreement(spark_engine(spark), trees, subjects)


@settings(slow, max_examples=examples(40, 100), suppress_health_check=list(HealthCheck))
@given(st.lists(documents, min_size=1, max_size=30))
def test_json_is_printed_as_the_database_prints_it(database: psycopg.Connection, values: list[Any]) -> None:
    printed = [jsonb_text(value) for value in values]
    rows = database.execute("select x::jsonb::text from unnest(%s::text[]) with ordinality u (x, n) order by n", [printed])
    assert [row[0] for row in rows] == printed
