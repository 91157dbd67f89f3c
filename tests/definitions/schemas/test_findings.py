"""What conditions read that a schema does not have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.definitions.schemas import Finding, RelayFields, check_condition, parse_schema, relay_findings
from headrace.lang.condition import parse

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False},
        "total": {"type": "integer", "minimum": 0},
        "price": {"type": "string"},
        "paid": {"type": "boolean"},
        "status": {"enum": ["placed", "shipped", None]},
        "items": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string", "maxLength": 5}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "at": {"type": "string", "format": "date-time"},
        "free": {},
    },
}
CLOSED = parse_schema(json.dumps({**ORDER, "additionalProperties": False}))
OPEN = parse_schema(json.dumps(ORDER))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("(object -> 'total')::int > 5", []),
        ("object ->> 'custmer' = 'x'", [("error", 12, "no field 'custmer'", "'customer'")]),
        ("object -> 'customer' ->> 'nam' = 'x'", [("error", 26, "no field 'nam'", "'name'")]),
        ("object #>> '{customer,nam}' = 'x'", [("error", 12, "no field 'nam'", "'name'")]),
        ("object -> 'total' ->> 'x' = '1'", [("error", 23, "always a number", None)]),
        ("(object -> 'price')::int > 1", [("error", 12, "cast to int", "->> and ::int, which converts the text")]),
        ("(object ->> 'price')::int > 1", []),
        ("(object ->> 'paid')::int = 1", [("error", 13, "always a boolean", None)]),
        ("(object ->> 'total')::timestamptz > '2026-01-01T00:00:00Z'", [("error", 13, "timestamptz", None)]),
        ("(object ->> 'at')::timestamptz > '2026-01-01T00:00:00Z'", []),
        ("object ->> 'status' = 'shiped'", [("error", 23, "status is never 'shiped'", "'shipped'")]),
        ("object ->> 'status' <> 'shiped'", [("warning", 24, "status is never 'shiped'", "'shipped'")]),
        ("object ->> 'status' in ('placed', 'shiped')", [("warning", 35, "never 'shiped'", "'shipped'")]),
        ("object ->> 'status' in ('lost', 'gone')", [("error", 25, "never 'lost'", None), ("error", 33, "never 'gone'", None)]),
        ("(object -> 'total')::int = -5", [("error", 29, "total is never -5", None)]),
        ("object -> 'items' -> 0 ->> 'sku' = 'abcdef'", [("error", 36, "items.0.sku is never 'abcdef'", None)]),
        ("object -> 'items' ->> 'sku' = 'a'", [("error", 23, "always an array", None)]),
        ("object -> 'total' ->> 0 = 'a'", [("error", 23, "not an array", None)]),
        ("object -> 'labels' ->> 'anything' = 'a'", []),
        ("object -> 'free' -> 'x' ->> 'y' = 'a'", []),
        ("jsonb_array_length(object -> 'total') > 1", [("error", 30, "jsonb_array_length", None)]),
        ("object ? 'totl'", [("warning", 10, "no field 'totl'", "'total'")]),
        ("headers ->> 'x' = 'y' and key = 'a'", []),
        ("object ->> 'status' is null", []),
    ],
)
def test_finding_names_the_place_and_a_suggestion(condition: str, expected: list[tuple[str, int, str, str | None]]) -> None:
    findings = check_condition(parse(condition), condition, CLOSED)
    assert [(f.severity, f.column, f.suggestion) for f in findings] == [(s, c, h) for s, c, _, h in expected], findings
    for finding, (_, _, part, _) in zip(findings, expected, strict=True):
        assert part in finding.message and finding.line == 1


def test_field_that_an_open_schema_does_not_mention_is_a_warning() -> None:
    text = "(object -> 'total')::int > 5\nand object ->> 'custmer' = 'x'"
    (finding,) = check_condition(parse(text), text, OPEN)
    assert (finding.severity, finding.line, finding.column) == ("warning", 2, 16)
    assert str(finding).startswith("line 2, column 16: the schema does not mention the field 'custmer'; it mentions at, customer")
    assert str(finding).endswith("did you mean 'customer'?")


def test_opaque_part_of_a_schema_gives_no_findings() -> None:
    values = parse_schema({"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}, "additionalProperties": False})
    assert check_condition(parse("(object -> 'a' ->> 'b')::int = 1"), "(object -> 'a' ->> 'b')::int = 1", values) == ()


def paid(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"total": {"type": "integer"}, **more}, "additionalProperties": False}


SCHEMAS = {
    "order.paid": parse_schema(paid(method={"enum": ["card", "cash"]})),
    "order.placed": parse_schema(
        paid(lines={"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}})
    ),
}


def in_relay(condition: str, mapping: dict[str, Any] | None = None, **options: Any) -> list[Finding]:
    return [finding for _, finding in relay_findings(RelayFields(condition, mapping), SCHEMAS, SCHEMAS, **options)]


def test_relay_is_checked_against_the_types_that_its_condition_names() -> None:
    (finding,) = in_relay("type = 'order.paid' and object ->> 'metod' = 'card'")
    assert (finding.severity, finding.column, finding.suggestion) == ("error", 36, "'method'")
    (finding,) = in_relay("type = 'order.paid' and object ->> 'method' = 'cart'")
    assert str(finding).endswith("method is never 'cart'; the schema allows 'card', 'cash'; did you mean 'card'?")
    (finding,) = in_relay("type = 'order.placed' and (object -> 'total')::boolean")
    assert "the cast to boolean of it is unknown" in finding.message
    assert (
        in_relay(
            "(type = 'order.paid' and object ->> 'method' = 'cash') or (type = 'order.placed' and object -> 'lines' is not null)"
        )
        == []
    )
    (finding,) = in_relay("(type = 'order.paid' and object -> 'lines' is not null) or type = 'order.placed'")
    assert finding.column == 36


def test_relay_that_names_no_type_is_checked_against_what_all_types_lack() -> None:
    assert in_relay("object ->> 'method' = 'card'") == [], "one type has it"
    (finding,) = in_relay("(object -> 'totl')::int > 5")
    assert (finding.severity, finding.suggestion) == ("error", "'total'")
    unknown = relay_findings(RelayFields("(object -> 'totl')::int > 5"), SCHEMAS, ["order.paid", "order.sent"])
    assert unknown == (), "order.sent has no schema, so it may have the field"


def test_field_of_a_mapping_that_no_type_has_is_found_with_its_place() -> None:
    mapping = {"id": "$.id", "sum": {"total": "$.payload.totl"}, "first": "$.payload.lines[0].sku", "text": "$$.payload.x"}
    (finding,) = in_relay("true", mapping)
    assert str(finding) == "mapping, field sum.total: the schema has no field 'totl'; it has method, total; did you mean 'total'?"
    first, second = in_relay("type = 'order.paid'", mapping)
    assert (first.place, second.place) == ("mapping, field sum.total", "mapping, field first")


def test_only_findings_on_the_changed_type_are_listed() -> None:
    condition = "type = 'order.paid' and object ->> 'metod' = 'card'"
    assert in_relay(condition, changed="order.placed") == [] and len(in_relay(condition, changed="order.paid")) == 1
