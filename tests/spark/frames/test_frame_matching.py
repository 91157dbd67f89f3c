"""match over rules of every shape, and over rows from anywhere."""

from __future__ import annotations

from typing import Any

from headrace.spark import match
from tests.spark.frames.test_match import SAMPLES, SCHEMA, expected, frame, hits, moment, rule


def test_rules_of_every_shape_find_what_python_finds(spark: Any) -> None:
    """Enough rules for whole columns, and for the lookup of what they need."""
    days = [f"2026-01-{n % 28 + 1:02}" for n in range(20)]
    rules = [
        *(rule(f"a{n}", f"object ->> 'color' in ('red', '{'xyz'[n % 3]}') and (object -> 'n')::int <> {n}") for n in range(20)),
        *(rule(f"b{n}", f"(object -> 'n')::int = {n} and object ->> 'color' like '{'rbg'[n % 3]}%'") for n in range(20)),
        *(rule(f"c{n}", f"object ->> 'at' like '{days[n][: 5 + n % 6]}%'") for n in range(20)),
        *(rule(f"d{n}", f"(object ->> 'half')::numeric between {n - 0.5} and {n + 3}") for n in range(20)),
        *(rule(f"e{n}", f"(object ->> 'at')::timestamptz >= {moment(n + 1)} and key = '{n}'") for n in range(20)),
        *(rule(f"g{n}", f"object ->> 'at' between '{days[n]}' and '2026-01-29'") for n in range(20)),
        *(rule(f"h{n}", f"(object -> 'n')::int in ({n}, {n * 2}, {n + 7})") for n in range(20)),
        *(rule(f"i{n}", f"(object ->> 'half')::numeric <= {n / 3:.4f}") for n in range(20)),
        *(rule(f"j{n}", f"(object ->> 'half')::numeric = {n}") for n in range(20)),
        rule("f", "emitted_at > timestamptz '1969-01-01T00:00:00Z' and headers ->> 'x' is null"),
    ]
    matches = expected(rules, SAMPLES)
    assert {name[0] for name, _ in matches} == set("abcdefghij")
    assert hits(match(frame(spark, SAMPLES), rules)) == matches


def test_payload_that_is_no_json_is_unknown_and_changes_no_other(spark: Any) -> None:
    """Rows of a frame may come from anywhere; together these texts would be other events."""
    texts = ['{"n": 1}', '{"n":', "3}", None, '{"n": 5}, {"n": 6}', "", '{"n": 7}']
    rows = [("k", "placed", text, "orders", 0, at, None, f"e{at}", "{}", "main") for at, text in enumerate(texts)]
    rules = [rule("some", "(object -> 'n')::int > 0"), rule("none", "object ->> 'n' is null")]
    matches = hits(match(spark.createDataFrame(rows, SCHEMA), rules))
    assert matches == {*(("some", at) for at in (0, 6)), *(("none", at) for at in range(1, 6))}
