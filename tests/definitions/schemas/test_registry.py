"""Schemas in the database: versions, compatibility, findings on rules and correlators, inference and documents."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from headrace.core import IncompatibleSchema, InvalidSchema, NotFound, SchemaChanged, SchemaFindings, UnknownSchema
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import Connection
from headrace.definitions.schemas import (
    alter_schema,
    check_schema,
    describe_namespace,
    drop_schema,
    get_schema,
    infer_event_schema,
    list_schema_versions,
    list_schemas,
    set_schema,
)
from headrace.log.outbox import publish
from headrace.log.topics import create_topic
from headrace.relays import Relay, alter_relay, create_relay
from headrace.rules import Rule, create_rule

pytestmark = pytest.mark.lane("pg18")

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {"customer": {"type": "string"}, "total": {"type": "integer"}},
    "required": ["total"],
}


def with_property(name: str, schema: Any, *, required: bool = False) -> dict[str, Any]:
    return {
        **ORDER,
        "properties": {**ORDER["properties"], name: schema},
        "required": [*ORDER["required"], *([name] if required else [])],
    }


def test_changed_schema_is_a_new_version_and_an_equal_one_is_not(conn: Connection) -> None:
    assert set_schema(conn, "order.placed", ORDER).version == 1
    assert set_schema(conn, "order.placed", json.dumps(ORDER, indent=3)).version == 1
    assert set_schema(conn, "order.placed", {**ORDER, "required": []}).version == 2
    assert [version.version for version in list_schema_versions(conn, "order.placed")] == [1, 2]
    schema = get_schema(conn, "order.placed")
    assert (schema.version, schema.compatibility, schema.validation, schema.check_is_complete) == (2, "backward", "off", True)
    assert list(json.loads(schema.text)["properties"]) == ["customer", "total"]  # the author's order


def test_incompatible_schema_is_refused_with_an_example_that_the_old_one_accepts(conn: Connection) -> None:
    set_schema(conn, "order.placed", ORDER)
    with pytest.raises(IncompatibleSchema) as error:
        set_schema(conn, "order.placed", with_property("currency", {"type": "string"}, required=True))
    assert '{"total": 0}' in str(error.value) and "backward" in str(error.value)
    assert get_schema(conn, "order.placed").version == 1
    change = set_schema(conn, "order.placed", with_property("currency", {"type": "string"}, required=True), force=True)
    assert change.version == 2 and list_schema_versions(conn, "order.placed")[1].forced


@pytest.mark.parametrize(
    ("compatibility", "new", "broken"),
    [
        ("backward", {**ORDER, "required": []}, []),
        ("forward", {**ORDER, "required": []}, ["forward"]),
        ("forward", with_property("currency", {"type": "string"}, required=True), []),
        ("backward", with_property("currency", {"type": "string"}, required=True), ["backward"]),
        ("full", with_property("currency", {"type": "string"}), ["backward"]),
        ("none", {"type": "string"}, []),
        ("full", {"type": "string"}, ["backward", "forward"]),
    ],
)
def test_each_compatibility_protects_its_side(
    conn: Connection, compatibility: Any, new: dict[str, Any], broken: list[str]
) -> None:
    set_schema(conn, "order.placed", ORDER)
    check = check_schema(conn, "order.placed", new, compatibility=compatibility)
    assert [entry.direction for entry in check.breaks] == broken
    assert all(entry.is_certain for entry in check.breaks)
    assert get_schema(conn, "order.placed").version == 1


def test_what_cannot_be_decided_is_refused_and_says_so(conn: Connection) -> None:
    set_schema(conn, "order.placed", {"type": "string", "pattern": "^(?=a)"})
    with pytest.raises(IncompatibleSchema, match="cannot decide"):
        set_schema(conn, "order.placed", {"type": "string", "pattern": "^(?=b)"})
    set_schema(conn, "order.placed", {"type": ["string", "null"], "pattern": "^(?=a)"})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ('{"type": "objct"}', "did you mean object"),
        ('{"type": "object", "requird": []}', "did you mean required"),
        ('{"properties": {"a": {"minimum": "0"}}}', "at /properties/a: minimum must be a number"),
        ('{"type": "string", "nullable": true}', "null"),
        ('{"$ref": "#/$defs/missing"}', "refers to nothing"),
        ('{"$ref": "https://example.com/x"}', "put what it refers to into"),
        ("[]", "is an array"),
        ("{", "not JSON"),
        ('{"$schema": "http://json-schema.org/draft-07/schema#"}', "2020-12"),
        ('{"allOf": 5}', "not valid"),
    ],
)
def test_invalid_schema_is_refused_with_its_place(conn: Connection, schema: str, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        set_schema(conn, "order.placed", schema)
    assert list_schemas(conn) == []


def test_schema_that_unfolds_without_end_is_refused(conn: Connection) -> None:
    layers = {f"d{n}": {"properties": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in "abcdefghij"}} for n in range(8)}
    with pytest.raises(InvalidSchema, match="parts"):
        set_schema(conn, "bomb", {"$ref": "#/$defs/d0", "$defs": {**layers, "d8": {"type": "string"}}})


def test_second_writer_does_not_overwrite_what_it_did_not_see(conn: Connection) -> None:
    set_schema(conn, "order.placed", ORDER)
    with pytest.raises(psycopg.Error) as error:
        conn.execute("select headrace.set_event_schema('order.placed', '{}', p_expected_version => 0)")
    assert error.value.sqlstate == SchemaChanged.sqlstate


def test_sql_alone_cannot_switch_on_a_check_that_does_not_exist(conn: Connection) -> None:
    conn.execute("select headrace.set_event_schema('order.placed', '{\"type\": \"object\"}')")
    with pytest.raises(InvalidSchema, match="headrace event-type set"):
        alter_schema(conn, "order.placed", validation="reject")
    set_schema(conn, "order.placed", get_schema(conn, "order.placed").text)
    alter_schema(conn, "order.placed", validation="reject", compatibility="full")
    assert (get_schema(conn, "order.placed").validation, get_schema(conn, "order.placed").compatibility) == ("reject", "full")


def test_dropped_schema_is_unknown_and_its_type_stays(conn: Connection) -> None:
    set_schema(conn, "order.placed", ORDER)
    drop_schema(conn, "order.placed")
    for act in (get_schema, drop_schema, list_schema_versions):
        with pytest.raises(UnknownSchema):
            act(conn, "order.placed")
    assert conn.execute("select count(*) from headrace.event_type where event_type = 'order.placed'").fetchone() == (1,)


def rule(condition: str) -> Rule:
    return Rule(name="r", topic="orders", event_type="order.placed", condition=condition, action="NOTE")


@pytest.mark.parametrize("policy", ["refuse", "warn", "allow"])
def test_rule_with_a_misspelled_field_is_treated_like_an_unknown_name(conn: Connection, policy: str) -> None:
    create_topic(conn, "orders")
    conn.execute("insert into headrace.action (action) values ('NOTE')")
    set_schema(conn, "order.placed", {**ORDER, "additionalProperties": False})
    conn.execute("update headrace_internal.namespace set unknown_names = %s", (policy,))
    notices: list[str] = []
    conn.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    if policy == "refuse":
        with pytest.raises(SchemaFindings, match=r"rule r, order.placed, line 1, column 12: the schema has no field 'custmer'"):
            create_rule(conn, rule("object ->> 'custmer' = 'x'"))
        assert conn.execute("select count(*) from headrace.rule").fetchone() == (0,)
        create_rule(conn, rule("object ->> 'customer' = 'x'"))
        return
    create_rule(conn, rule("object ->> 'custmer' = 'x'"))
    assert any("did you mean 'customer'?" in notice for notice in notices) is (policy == "warn")


def test_rules_and_correlators_that_a_new_schema_breaks_are_listed(conn: Connection) -> None:
    create_topic(conn, "orders")
    create_rule(conn, rule("(object -> 'total')::int > 5 and object ->> 'customer' = 'x'"))
    pattern = "push(BIG) {order.placed and <(object -> 'total')::int > 5>}"
    create_correlator(conn, Correlator(name="c", topic="orders", pattern=pattern, outputs={"BIG": ActionOutput(action="NOTE")}))
    set_schema(conn, "order.placed", ORDER)
    new = {**ORDER, "properties": {"customer": {"type": "string"}, "total": {"type": "string"}}}
    check = check_schema(conn, "order.placed", new)
    assert [(entry.kind, entry.name, entry.finding.severity) for entry in check.findings] == [
        ("rule", "r", "error"),
        ("correlator", "c", "error"),
    ]
    assert "total is always a string" in str(check.findings[0])
    conn.execute("update headrace_internal.namespace set unknown_names = 'refuse'")
    conn.execute("insert into headrace.action (action) values ('NOTE')")
    set_schema(conn, "order.placed", new, force=True)
    with pytest.raises(SchemaFindings, match=r"correlator d, order[.]placed"):
        create_correlator(
            conn, Correlator(name="d", topic="orders", pattern=pattern, outputs={"BIG": ActionOutput(action="NOTE")})
        )


def test_relay_that_reads_what_no_type_has_is_reported_when_written_and_when_the_schema_changes(conn: Connection) -> None:
    create_topic(conn, "orders")
    set_schema(conn, "order.placed", {**ORDER, "additionalProperties": False})
    conn.execute("update headrace_internal.namespace set unknown_names = 'refuse'")
    options = {"url": "https://example.com/hook"}
    mapping = {"sum": "$.payload.total", "who": "$.payload.customer"}
    good = Relay(
        name="crm", topic="orders", target="webhook", options=options, condition="type = 'order.placed'", format="template", mapping=mapping
    )  # fmt: skip
    with pytest.raises(SchemaFindings, match=r"relay crm, order.placed, mapping, field sum: the schema has no field 'totl'"):
        create_relay(conn, replace(good, mapping={"sum": "$.payload.totl"}))
    create_relay(conn, good)
    with pytest.raises(
        SchemaFindings, match=r"relay crm, order.placed, line 1, column 38: .* 'custmer'.* did you mean 'customer'"
    ):
        alter_relay(conn, replace(good, condition="type = 'order.placed' and object ->> 'custmer' = 'x'"))
    check = check_schema(conn, "order.placed", {"type": "object", "properties": {"sum": {}}, "additionalProperties": False})
    assert [(entry.kind, entry.name, entry.finding.location) for entry in check.findings] == [
        ("relay", "crm", "mapping, field sum"),
        ("relay", "crm", "mapping, field who"),
    ]


def test_schema_is_inferred_from_the_events_of_the_log(conn: Connection) -> None:
    create_topic(conn, "orders")
    for number in range(30):
        payload = {"total": number, "status": ["placed", "shipped"][number % 2], "at": "2026-01-31T08:30:00Z", "note": None}
        publish(conn, "orders", "order.placed", payload if number else {"total": 1.5, "status": "placed"})
    conn.execute("select headrace.sequence()")
    proposal = infer_event_schema(conn, "orders", "order.placed")
    assert proposal.sample == 30
    assert proposal.schema == {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "note": {"type": "null"},
            "status": {"enum": ["placed", "shipped"]},
            "total": {"type": "number"},
        },
        "required": ["status", "total"],
    }
    assert infer_event_schema(conn, "orders", "order.placed", sample=5).sample == 5
    with pytest.raises(NotFound, match="no event of type"):
        infer_event_schema(conn, "orders", "order.lost")


def test_asyncapi_document_has_topics_types_and_schemas(conn: Connection) -> None:
    create_topic(conn, "orders")
    publish(conn, "orders", "order.placed", {"total": 1})
    conn.execute("select headrace.sequence()")
    create_rule(conn, Rule(name="r", topic="orders", event_type="order/paid", action="NOTE"))
    set_schema(conn, "order.placed", ORDER)
    document: Any = describe_namespace(conn)
    assert document["asyncapi"] == "3.0.0"
    channel = document["channels"]["orders"]
    assert channel["address"] == "orders" and set(channel["messages"]) == {"order.placed", "order_paid"}
    assert document["components"]["messages"]["order.placed"]["payload"]["schema"] == ORDER
    for operation in document["operations"].values():
        for reference in [operation["channel"], *operation["messages"]]:
            target = document
            for step in reference["$ref"].split("/")[1:]:
                target = target[step]
