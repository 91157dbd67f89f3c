"""Payloads are checked when they are published: by the database in every way of publishing, and by the library for all rules."""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from headrace.core import Event, PayloadRejected
from headrace.db import Connection, Target, connect
from headrace.definitions.schemas import (
    PayloadChecker,
    alter_schema,
    drop_schema,
    load_checker,
    set_schema,
    validation as validation_module,
)
from headrace.log.outbox import capture, publish, publish_many
from headrace.log.topics import create_topic

pytestmark = pytest.mark.lane("pg18")

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "total": {"type": "integer", "minimum": 0},
        "items": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
        "status": {"enum": ["placed", "paid"]},
    },
    "required": ["total"],
    "additionalProperties": False,
}
GOOD = {"total": 5, "items": [{"sku": "a"}], "status": "paid"}


@pytest.fixture
def orders(conn: Connection) -> Connection:
    create_topic(conn, "orders")
    set_schema(conn, "order.placed", ORDER, validation="reject")
    return conn


def outbox_count(conn: Connection) -> int:
    row = conn.execute("select count(*) from headrace_internal.outbox").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("payload", "place", "rule"),
    [
        ({"total": -1}, "/total", "minimum 0"),
        ({"total": "5"}, "/total", "type integer"),
        ({"total": 1.5}, "/total", "type integer"),
        ({}, "its root", 'required "total"'),
        ([], "its root", "type object"),
        ({"total": 1, "x": 1}, "its root", "additionalProperties false"),
        ({"total": 1, "status": "lost"}, "/status", 'enum "placed", "paid"'),
        ({"total": 1, "items": [{"sku": "a"}, {"sku": 5}]}, "/items/*/sku", "type string"),
        ({"total": 1, "items": [{}]}, "/items/*", 'required "sku"'),
    ],
)
def test_rejected_payload_names_the_path_and_the_rule(orders: Connection, payload: Any, place: str, rule: str) -> None:
    with pytest.raises(PayloadRejected) as error:
        publish(orders, "orders", "order.placed", payload)
    assert f"payload of type order.placed breaks version 1 of its schema at {place}: {rule}" in str(error.value)
    assert outbox_count(orders) == 0


WAYS: dict[str, Callable[[Connection, Any], object]] = {
    "publish": lambda conn, payload: publish(conn, "orders", "order.placed", payload),
    "publish_many": lambda conn, payload: publish_many(
        conn, [Event(topic="orders", type="order.placed", payload=value) for value in (GOOD, payload)]
    ),
    "sql": lambda conn, payload: conn.execute(
        "select headrace.publish('orders', 'order.placed', %s)", (psycopg.types.json.Jsonb(payload),)
    ),
    "cloudevent": lambda conn, payload: conn.execute(
        "select headrace.publish_cloudevent('orders', %s)",
        (psycopg.types.json.Jsonb({"specversion": "1.0", "id": "1", "source": "/s", "type": "order.placed", "data": payload}),),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_publishing_is_checked(orders: Connection, way: str) -> None:
    WAYS[way](orders, GOOD)
    before = outbox_count(orders)
    with pytest.raises((PayloadRejected, psycopg.Error)) as error:
        WAYS[way](orders, {"total": -1})
    assert getattr(error.value, "sqlstate", None) == "HR351"
    assert outbox_count(orders) == before > 0
    publish(orders, "orders", "order.other", {"total": -1})


def test_role_that_may_only_publish_is_checked(orders: Connection, database: Target) -> None:
    orders.execute("create role schema_publisher_role login")
    try:
        orders.execute("select headrace.grant_namespace('schema_publisher_role', 'default', 'publish')")
        with connect(database) as other:
            other.execute("set role schema_publisher_role")
            publish(other, "orders", "order.placed", GOOD)
            with pytest.raises(PayloadRejected):
                publish(other, "orders", "order.placed", {"total": -1})
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute("select headrace.set_event_schema('order.placed', '{}')")
            assert other.execute("select count(*) from headrace.event_schema").fetchone() == (1,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute("select check_path from headrace_internal.event_schema")
    finally:
        orders.execute("drop owned by schema_publisher_role")
        orders.execute("drop role schema_publisher_role")


def test_captured_row_is_checked(orders: Connection) -> None:
    orders.execute("create table bills (total int)")
    set_schema(orders, "bill", {"properties": {"total": {"minimum": 0}}}, validation="reject")
    capture(orders, "bills", topic="orders", insert_type="bill", operations=["insert"])
    orders.execute("insert into bills values (1)")
    with pytest.raises(psycopg.Error, match="/total: minimum 0"):
        orders.execute("insert into bills values (-1)")


def test_warning_lets_the_event_pass(orders: Connection) -> None:
    alter_schema(orders, "order.placed", validation="warn")
    notices: list[str] = []
    orders.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    publish(orders, "orders", "order.placed", {"total": -1})
    assert outbox_count(orders) == 1
    assert notices == ["payload of type order.placed breaks version 1 of its schema at /total: minimum 0"]


def test_topics_are_marked_exactly_while_a_type_is_checked(orders: Connection) -> None:
    def marked() -> list[str]:
        return [
            topic for (topic,) in orders.execute("select topic from headrace_internal.topic where checks_payloads order by 1")
        ]

    create_topic(orders, "later")
    assert marked() == ["later", "orders"]
    set_schema(orders, "other", {"type": "object"}, validation="warn")
    alter_schema(orders, "order.placed", validation="off")
    assert marked() == ["later", "orders"]
    orders.execute("delete from headrace.event_type where event_type = 'other'")
    assert marked() == []
    publish(orders, "orders", "order.placed", {"total": -1})
    create_topic(orders, "last")
    assert marked() == []


def test_topic_created_beside_the_change_is_marked(orders: Connection, second: Connection) -> None:
    alter_schema(orders, "order.placed", validation="off")
    with orders.transaction():
        alter_schema(orders, "order.placed", validation="reject")
        # It waits for the change, at most two seconds.
        with pytest.raises(psycopg.OperationalError):
            second.execute("select headrace.create_topic('beside')")
    create_topic(second, "beside")
    with pytest.raises(PayloadRejected):
        publish(orders, "beside", "order.placed", {})


def test_library_checks_rules_that_the_database_has_no_form_for(orders: Connection, caplog: pytest.LogCaptureFixture) -> None:
    pair = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
    assert not set_schema(orders, "pair", pair, validation="reject").check.check_is_complete
    publish(orders, "orders", "pair", {"tags": [1, 1]})  # the database cannot tell
    schemas = load_checker(orders)
    with pytest.raises(PayloadRejected, match=r"/tags: uniqueItems"):
        publish(orders, "orders", "pair", {"tags": [1, 1]}, schemas=schemas)
    with pytest.raises(PayloadRejected, match=r"/tags: uniqueItems"):
        publish_many(orders, [Event(topic="orders", type="pair", payload={"tags": [1, 1]})], schemas=schemas)
    assert outbox_count(orders) == 1
    alter_schema(orders, "pair", validation="warn")
    with caplog.at_level(logging.WARNING):
        publish(orders, "orders", "pair", {"tags": [1, 1]}, schemas=load_checker(orders))
    assert "/tags: uniqueItems" in caplog.text and outbox_count(orders) == 2


def test_payload_checked_by_the_current_schemas_is_not_checked_again(orders: Connection) -> None:
    schemas = load_checker(orders)
    publish(orders, "orders", "order.placed", GOOD)  # the direct way is known from here on
    orders.execute("update headrace_internal.event_schema set check_path = 'strict exists($ ? (1 == 0))'")
    publish(orders, "orders", "order.placed", GOOD, schemas=schemas)
    batch = [Event(topic="orders", type="order.placed", payload=GOOD) for _ in range(3)]
    publish_many(orders, batch, schemas=schemas)
    assert outbox_count(orders) == 5
    with pytest.raises(PayloadRejected):
        publish(orders, "orders", "order.placed", GOOD)
    with pytest.raises(PayloadRejected):
        publish_many(orders, batch)
    # A float would round these numbers: only the database has all digits of them.
    for number in (Decimal("5.00"), Decimal("5.00000000000000000001")):
        with pytest.raises(PayloadRejected):
            publish(orders, "orders", "order.placed", {"total": number}, schemas=schemas)


def test_payload_checked_by_other_schemas_is_checked_again(orders: Connection) -> None:
    schemas = load_checker(orders)
    publish(orders, "orders", "order.placed", GOOD)
    dear = {"total": 500}
    drop_schema(orders, "order.placed")
    publish(orders, "orders", "order.placed", {}, schemas=PayloadChecker(digest=schemas.digest))
    # It has the version 1 again, but it is another schema.
    set_schema(orders, "order.placed", {"properties": {"total": {"maximum": 100}}}, validation="reject")
    with pytest.raises(PayloadRejected, match="maximum 100"):
        publish(orders, "orders", "order.placed", dear, schemas=schemas)
    set_schema(orders, "order.placed", ORDER, compatibility="none", force=True)
    publish(orders, "orders", "order.placed", dear, schemas=schemas)
    set_schema(orders, "pair", {"maximum": 5}, validation="warn")
    assert load_checker(orders).digest != schemas.digest


def test_schema_with_numbers_that_no_float_holds_is_left_to_the_database(orders: Connection) -> None:
    set_schema(orders, "order.placed", '{"properties": {"rate": {"maximum": 0.0999999999999999999999}}}', force=True)
    schemas = load_checker(orders)
    assert schemas.digest is None
    publish(orders, "orders", "order.placed", {"rate": 0.09}, schemas=schemas)
    with pytest.raises(PayloadRejected, match="maximum"):
        publish(orders, "orders", "order.placed", {"rate": 0.1}, schemas=schemas)


def test_missing_package_is_named(orders: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(validation_module.NotFound, match=r"pip install 'headrace\[schema\]'"):
        load_checker(orders)
    # Schemas that the database can check in full need no package.
    set_schema(orders, "order.placed", {**ORDER, "required": []})
