"""Shapes: conditions that differ in constants only are one shape, and the shape with its constants means the condition."""

from __future__ import annotations

from dataclasses import astuple

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.examples import examples

from headrace.lang.condition import (
    Condition,
    Node,
    Sample,
    field_to_postgres,
    parameterize,
    parse,
    python_engine,
    sample_rows,
    shape_to_postgres,
    to_postgres,
)

from .strategies import key_conditions, key_events
from .test_agreement import batches, slow

CONSTANTS = "integers bigint[], numerics numeric[], texts text[], moments timestamptz[]"


def test_conditions_that_differ_in_constants_have_one_shape() -> None:
    texts = [
        "(object -> 'price')::int < 100000 and object ->> 'color' = 'silver'",
        "(object -> 'price')::int < 5 and object ->> 'color' = 'it''s \\ red'",
    ]
    first, second = (parameterize(parse(text)) for text in texts)
    assert first.shape == second.shape
    assert (first.access.keys, first.constants.integers) == (("silver",), (100000,))
    assert (second.access.keys, second.constants.integers) == (("it's \\ red",), (5,))


@pytest.mark.parametrize(
    "other",
    [
        "(object -> 'price')::int > 1",
        "(object -> 'cost')::int < 1",
        "(object -> 'price')::bigint < 1",
        "(object -> 'price')::int < 1.0",
        "(object -> 'price')::int < 1 or true",
    ],
)
def test_conditions_that_differ_otherwise_have_two_shapes(other: str) -> None:
    assert parameterize(parse("(object -> 'price')::int < 1")).shape != parameterize(parse(other)).shape


def test_patterns_are_constants() -> None:
    texts = ["object ->> 'a' like 'x%' and key ~ '^a'", "object ->> 'a' like 'bc_%' and key ~ 'b+'"]
    first, second = (parameterize(parse(text)) for text in texts)
    assert first.shape == second.shape
    assert len(second.constants.texts) == 2


def test_constant_too_long_for_an_index_is_found_by_its_prefix() -> None:
    parameterized = parameterize(parse(f"object ->> 'a' = '{'x' * 501}'"))
    assert parameterized.access.keys == (f"32:{'x' * 32}",)
    assert parameterized.constants.texts == ("x" * 501,)


def test_every_constant_is_bound_once() -> None:
    bound: list[object] = []

    def bind(value: object, type: object) -> str:
        bound.append(value)
        return "?"

    to_postgres(parse("abs(1) + div(2, 3) < 4 and lower(coalesce(key, 'a')) ~ 'b' and true"), None, bind)
    assert bound == [1, 2, 3, 4, "a", "b"]


@settings(slow, max_examples=examples(40, 200), suppress_health_check=list(HealthCheck))
@given(st.lists(key_conditions, min_size=1, max_size=15), st.lists(key_events, min_size=1, max_size=30))
def test_keys_and_bounds_miss_nothing(database: psycopg.Connection, trees: list[Node], subjects: list[Sample]) -> None:
    assert_found(database, trees, subjects)


@settings(slow, max_examples=examples(25, 60), suppress_health_check=list(HealthCheck))
@given(*batches)
def test_shape_with_its_constants_means_the_condition(
    database: psycopg.Connection, trees: list[Node], subjects: list[Sample]
) -> None:
    assert_found(database, trees, subjects)


def assert_found(database: psycopg.Connection, trees: list[Node], subjects: list[Sample]) -> None:
    conditions = [Condition(tree) for tree in trees]
    for condition, expected in zip(conditions, zip(*python_engine(conditions, subjects), strict=True), strict=True):
        assert hits(database, condition, subjects) == [answer is True for answer in expected], condition.text


def hits(database: psycopg.Connection, condition: Condition, subjects: list[Sample]) -> list[bool]:
    """Which events the shape finds by joining them with the one row of constants."""
    parameterized = parameterize(condition)
    columns = {field: f"e.f{number}" for number, field in enumerate(condition.fields)}
    access = parameterized.access
    # Other conditions of the shape may have other variants: an event then asks for more keys.
    variants = [] if access.variant is None else sorted({1, 2, access.variant})
    sql = shape_to_postgres(condition, columns, "c", variants)
    extracted = "".join(f", {field_to_postgres(field)} as {name[2:]}" for field, name in columns.items())
    condition_sql = " and ".join(
        [f"c.key in ({', '.join(sql.keys)})", *([sql.bound] if sql.bound else []), sql.residual or "true"]
    )
    bound = access.bound.value if access.bound else None
    with database.transaction(force_rollback=True):
        database.execute(
            "create temporary table sample (i int, type text, key text, headers jsonb, payload jsonb, emitted_at timestamptz)"
        )
        with database.cursor().copy("copy sample from stdin") as copy:
            for row in sample_rows(subjects):
                copy.write_row(row)
        database.execute(f'create temporary table constants (key text, bound float8, bound_text text collate "C", {CONSTANTS})')
        constants = parameterized.constants
        database.cursor().executemany(
            "insert into constants values (%s, %s, %s, %s::bigint[], %s::numeric[], %s::text[], %s::timestamptz[])",
            [
                (key, *((None, bound) if isinstance(bound, str) else (bound, None)), *map(list, astuple(constants)))
                for key in access.keys
            ],
        )
        rows = database.execute(
            f"""select e.i, (select count(*) from constants c where {condition_sql})
                from (select i{extracted} from sample offset 0) e order by e.i"""
        ).fetchall()
    assert all(row[1] <= 1 for row in rows), "found twice"
    return [row[1] == 1 for row in rows]
