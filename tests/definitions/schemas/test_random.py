"""For random schemas and payloads, the value set, jsonschema-rs, the database and the comparison of schemas agree."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from headrace.db import Connection
from headrace.definitions.schemas import accepts, compare, database_check, parse_schema, read_json
from headrace.definitions.schemas.comparison import examples

from .strategies import documents, schemas


@settings(max_examples=200, deadline=None)
@given(schemas, st.lists(documents, min_size=1, max_size=10))
def test_value_set_accepts_what_the_validator_accepts(schema: Any, payloads: list[Any]) -> None:
    values = parse_schema(json.dumps(schema))
    validator = jsonschema_rs.Draft202012Validator(schema)
    own = [value for value, _ in zip(examples(values), range(10), strict=False)]
    for payload in [*payloads, *own]:
        assert accepts(values, payload) is validator.is_valid(payload), (schema, payload)


@settings(max_examples=200, deadline=None)
@given(schemas, schemas, st.lists(documents, max_size=10))
def test_comparison_never_says_a_wrong_yes_or_no(one: Any, other: Any, payloads: list[Any]) -> None:
    first, second = parse_schema(json.dumps(one)), parse_schema(json.dumps(other))
    first_validator, second_validator = jsonschema_rs.Draft202012Validator(one), jsonschema_rs.Draft202012Validator(other)
    answer = compare(first, second)
    if answer.holds is False:
        assert answer.example is not None
        example = read_json(answer.example)
        assert first_validator.is_valid(example) and not second_validator.is_valid(example), (one, other, answer)
    if answer.holds:
        own = [value for value, _ in zip(examples(first), range(20), strict=False)]
        for payload in [*payloads, *own]:
            assert not first_validator.is_valid(payload) or second_validator.is_valid(payload), (one, other, payload)


@settings(max_examples=150, deadline=None)
@given(schemas)
def test_schema_is_compatible_with_itself(schema: Any) -> None:
    values = parse_schema(json.dumps(schema))
    assert compare(values, values).holds


@pytest.mark.lane("pg18", "pg15")
def test_database_accepts_what_the_validator_accepts(conn: Connection) -> None:
    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(schemas, st.lists(documents, min_size=1, max_size=10))
    def check(schema: Any, payloads: list[Any]) -> None:
        values = parse_schema(json.dumps(schema))
        check = database_check(values)
        validator = jsonschema_rs.Draft202012Validator(schema)
        payloads += [value for value, _ in zip(examples(values), range(10), strict=False)]
        assert check.is_complete
        rows = conn.execute(
            """select jsonb_path_match(p.payload, %(check)s::jsonpath, silent => true),
                (select bool_and(jsonb_path_match(p.payload, r.rule::jsonpath, silent => true)) from unnest(%(rules)s::text[]) r (rule))
            from unnest(%(payloads)s::text[]) with ordinality t (text, place) cross join lateral (select t.text::jsonb) p (payload)
            order by t.place""",
            {
                "check": check.check,
                "rules": [rule.check for rule in check.rules],
                "payloads": [json.dumps(payload, default=float) for payload in payloads],
            },
        ).fetchall()
        for payload, (whole, by_rule) in zip(payloads, rows, strict=True):
            expected = validator.is_valid(payload)
            assert whole is expected, (schema, payload, check.check)
            assert by_rule is (expected if check.rules else None), (schema, payload, check.rules)

    check()
