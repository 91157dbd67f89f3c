"""Real payloads: GitHub's webhook examples. Schemas are inferred from them, they keep these, and rules over them are checked.

The npm package is downloaded, never committed."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from headrace.db import Connection
from headrace.definitions.schemas import (
    accepts,
    canonical,
    check_condition,
    compare,
    database_check,
    generate_classes,
    infer_schema,
    parse_schema,
    read_json,
    set_schema,
)
from headrace.lang.condition import parse
from headrace.log.outbox import publish
from headrace.log.topics import create_topic
from tests.webhook_examples import github_examples


@pytest.fixture(scope="module")
def examples() -> dict[str, list[Any]]:
    """Payloads by event."""
    texts = github_examples()
    return {name: [read_json(text) for text in payloads] for name, payloads in texts.items()}


def test_inferred_schemas_accept_their_examples_in_every_engine(examples: dict[str, list[Any]]) -> None:
    assert len(examples) > 40
    for payloads in examples.values():
        schema = infer_schema(payloads)
        values = parse_schema(canonical(schema))
        validator = jsonschema_rs.Draft202012Validator(json.loads(canonical(schema)))
        assert values.is_exact and database_check(values).is_complete
        assert all(accepts(values, payload) and validator.is_valid(payload) for payload in payloads)
        assert compare(values, values).holds


def test_first_example_alone_is_no_backward_compatible_successor(examples: dict[str, list[Any]]) -> None:
    """A schema of all examples against one of the first: each difference comes with a payload that proves it."""
    for name in ("issues", "pull_request", "push"):
        full, first = (
            parse_schema(canonical(infer_schema(examples[name]))),
            parse_schema(canonical(infer_schema(examples[name][:1]))),
        )
        answer = compare(full, first)
        assert answer.holds is False and answer.example is not None
        assert accepts(full, read_json(answer.example)) and accepts(first, read_json(answer.example)) is False


def test_rules_over_real_payloads_are_checked(examples: dict[str, list[Any]]) -> None:
    values = parse_schema(canonical(infer_schema(examples["issues"])))
    good = "object ->> 'action' = 'opened' and (object -> 'issue' -> 'number')::int > 5 and object #>> '{repository,full_name}' = 'a/b'"
    assert check_condition(parse(good), good, values) == ()
    bad = "object -> 'isue' ->> 'title' = 'x' and (object -> 'issue' -> 'title')::int = 1 and object -> 'issue' -> 'user' ->> 'logn' = 'a'"
    findings = check_condition(parse(bad), bad, values)
    assert [(finding.severity, finding.suggestion) for finding in findings] == [
        ("warning", "'issue'"),
        ("error", "->> and ::int, which converts the text"),
        ("warning", "'login'"),
    ]


def test_classes_of_all_events_are_python(examples: dict[str, list[Any]]) -> None:
    schemas = {name: parse_schema(canonical(infer_schema(payloads))) for name, payloads in examples.items()}
    for style in ("msgspec", "pydantic"):
        compile(generate_classes(schemas, style=style), "payloads.py", "exec")  # type: ignore[arg-type]


@pytest.mark.lane("pg18")
def test_database_accepts_the_examples(examples: dict[str, list[Any]], conn: Connection) -> None:
    create_topic(conn, "github")
    for name in ("issues", "push", "check_run"):
        set_schema(conn, name, canonical(infer_schema(examples[name])), validation="reject")
        for payload in examples[name]:
            publish(conn, "github", name, payload)
