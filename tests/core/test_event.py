"""Python and SQL accept and reject the same events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import psycopg
import pytest

from headrace.core import (
    Event,
    HeadraceError,
    Invalid,
    InvalidEventType,
    InvalidHeaders,
    InvalidKey,
    InvalidNumber,
    InvalidPayload,
    InvalidText,
    PayloadTooDeep,
    PayloadTooLarge,
    RawJSON,
    UnknownTopic,
    validate_event,
)
from headrace.core.events import (
    HEADERS_BYTES_MAX,
    KEY_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PRODUCER_BYTES_MAX,
    TYPE_CHARS_MAX,
)
from headrace.core.json_text import PAYLOAD_DEPTH_MAX
from headrace.db import Connection, map_error
from headrace.log.outbox import publish, publish_many


def event(**fields: object) -> Event:
    return Event(**{"topic": "orders", "type": "order.placed", **fields})


def deep(levels: int) -> RawJSON:
    return RawJSON(b"[" * levels + b"]" * levels)


def text_of(size: int) -> str:
    """A text whose JSON has `size` bytes."""
    return "x" * (size - 2)


# Ones and commas: PostgreSQL prints a space after each comma, so n ones take 3n bytes.
ONES = PAYLOAD_BYTES_MAX // 3

ACCEPTED = {
    "smallest": event(payload=None),
    "type of 200": event(type="t" * TYPE_CHARS_MAX),
    "type with every allowed character": event(type="_aZ09_.:/-"),
    "type of several words": event(type="Send for Credit Collection"),
    "key of 1024 bytes": event(key="k" * KEY_BYTES_MAX),
    "key of 512 two-byte letters": event(key="ä" * (KEY_BYTES_MAX // 2)),
    "payload at the limit": event(payload=text_of(PAYLOAD_BYTES_MAX)),
    "payload at the limit as printed": event(payload=[1] * ONES),
    "payload at the limit in two-byte letters": event(payload="ä" * ((PAYLOAD_BYTES_MAX - 2) // 2)),
    "payload 128 deep": event(payload=deep(PAYLOAD_DEPTH_MAX)),
    "largest double": event(payload=1.7976931348623157e308),
    "largest integer": event(payload=[int(1.7976931348623157e308)]),
    "largest number": event(payload=RawJSON(b"17976931348623158" + b"0" * 292)),
    "309 digits after the point": event(payload=RawJSON(b"0." + b"1" * 309)),
    "digits in a text": event(payload="1" * 400),
    "16 383 digits after the point": event(payload=RawJSON(b'{"a": 1e-16383}')),
    "escaped NUL": event(payload="\\u0000"),
    "headers at the limit": event(headers={"h": "x" * (HEADERS_BYTES_MAX - 9)}),
    "producer at the limit": event(producer="p" * PRODUCER_BYTES_MAX),
}

REJECTED = {
    "no type": (event(type=""), InvalidEventType),
    "type of 201": (event(type="t" * (TYPE_CHARS_MAX + 1)), InvalidEventType),
    "type with two spaces": (event(type="order  placed"), InvalidEventType),
    "type that ends with a space": (event(type="order "), InvalidEventType),
    "type that starts with a digit": (event(type="1order"), InvalidEventType),
    "type with a line end": (event(type="order\n"), InvalidEventType),
    "type beyond ASCII": (event(type="ördër"), InvalidEventType),
    "empty key": (event(key=""), InvalidKey),
    "key of 1025 bytes": (event(key="k" * (KEY_BYTES_MAX + 1)), InvalidKey),
    "key of 513 two-byte letters": (event(key="ä" * (KEY_BYTES_MAX // 2 + 1)), InvalidKey),
    "payload over the limit": (event(payload=text_of(PAYLOAD_BYTES_MAX + 1)), PayloadTooLarge),
    "payload over the limit as printed": (event(payload=[1] * (ONES + 1)), PayloadTooLarge),
    "payload over the limit in digits": (event(payload=[1e300] * 3500), PayloadTooLarge),
    "payload over the limit in digits after the point": (
        event(payload=RawJSON(b"[" + b",".join([b"1e-9999"] * 105) + b"]")),
        PayloadTooLarge,
    ),
    "payload 129 deep": (event(payload=deep(PAYLOAD_DEPTH_MAX + 1)), PayloadTooDeep),
    "payload 129 deep, with a leaf": (event(payload=RawJSON(b"[" * 129 + b"1" + b"]" * 129)), PayloadTooDeep),
    "20 000 digits after the point": (event(payload=RawJSON(b'{"a": 1e-20000}')), InvalidNumber),
    "just beyond the largest number": (event(payload=RawJSON(b"17976931348623159" + b"0" * 292)), InvalidNumber),
    "1e400": (event(payload=RawJSON(b'{"a": 1e400}')), InvalidNumber),
    "-1e400": (event(payload=RawJSON(b"[-1e400]")), InvalidNumber),
    "integer beyond a double": (event(payload=RawJSON(b"1" + b"0" * 309)), InvalidNumber),
    "headers over the limit": (event(headers={"h": "x" * (HEADERS_BYTES_MAX - 8)}), InvalidHeaders),
    "headers that are a list": (event(headers=["a"]), InvalidHeaders),
    "headers too deep": (event(headers={"h": deep(PAYLOAD_DEPTH_MAX)}), InvalidHeaders),
    "headers with 1e400": (event(headers={"h": RawJSON(b"1e400")}), InvalidHeaders),
    "producer over the limit": (event(producer="p" * (PRODUCER_BYTES_MAX + 1)), Invalid),
    "payload with NUL": (event(payload=RawJSON(rb'"\u0000"')), InvalidText),
    "payload that is not JSON": (event(payload=RawJSON(b"{")), InvalidPayload),
}

REJECTED_BY_PYTHON = {
    "NaN": (event(payload=float("nan")), InvalidNumber),
    "NUL in a key": (event(key="a\0"), InvalidText),
    "half a surrogate pair in a key": (event(key="\ud800"), InvalidText),
    "NUL in a producer": (event(producer="a\0"), InvalidText),
    "NUL in a topic": (event(topic="orders\0"), UnknownTopic),
    "half a surrogate pair in a topic": (event(topic="\ud800"), UnknownTopic),
    "key that is a number": (event(key=5), InvalidKey),
    "type that is a number": (event(type=5), InvalidEventType),
    "id that is text": (event(id="5"), Invalid),
    "time without a zone": (event(emitted_at=datetime(2026, 1, 1)), Invalid),
    "object": (event(payload=object()), InvalidPayload),
}


def raw(value: object) -> str:
    return msgspec.json.encode(value).decode()


def error_of_sql(conn: Connection, event: Event) -> type[HeadraceError] | None:
    """The error that the SQL function raises for values which Python has not checked."""
    statement = "select headrace.publish(%s, %s, %s::text::jsonb, %s, %s::text::jsonb, p_producer => %s)"
    try:
        conn.execute(statement, (event.topic, event.type, raw(event.payload), event.key, raw(event.headers), event.producer))
    except psycopg.Error as error:
        ours = map_error(error)
        assert ours is not None, error
        return type(ours)
    return None


@pytest.fixture
def orders(conn: Connection) -> Connection:
    conn.execute("select headrace.create_topic('orders')")
    return conn


def test_python_and_sql_accept_the_same_events(orders: Connection) -> None:
    wrong = {}
    for name, accepted in ACCEPTED.items():
        error = error_of_sql(orders, accepted)
        publish_many(orders, [accepted])
        fields = {"key": accepted.key, "headers": accepted.headers, "producer": accepted.producer}
        publish(orders, accepted.topic, accepted.type, accepted.payload, **fields)
        rows = orders.execute("select type, key, payload, headers, producer from headrace.outbox order by id").fetchall()
        orders.execute("delete from headrace_internal.outbox")
        if error is not None or len(rows) != 3 or rows[0] != rows[1] or rows[1] != rows[2]:
            wrong[name] = error or "the ways differ"
    assert wrong == {}


def test_python_and_sql_reject_the_same_events(orders: Connection) -> None:
    wrong = {}
    for name, (rejected, reason) in REJECTED.items():
        by_python = error_of(publish_many, orders, [rejected])
        by_sql = error_of_sql(orders, rejected)
        if by_python is not reason or by_sql is None or not (issubclass(by_sql, reason) or by_sql is Invalid):
            wrong[name] = (by_python, by_sql)
    assert wrong == {}
    assert orders.execute("select count(*) from headrace.outbox").fetchone() == (0,)


def test_python_rejects_what_cannot_reach_sql() -> None:
    errors = {name: error_of(validate_event, rejected) for name, (rejected, _) in REJECTED_BY_PYTHON.items()}
    assert errors == {name: reason for name, (_, reason) in REJECTED_BY_PYTHON.items()}


def error_of(function: Callable[..., object], *arguments: object) -> type[HeadraceError] | None:
    try:
        function(*arguments)
    except HeadraceError as error:
        return type(error)
    return None


def test_error_says_what_to_do() -> None:
    with pytest.raises(PayloadTooLarge, match=r"payload has 1048577 bytes, at most 1048576 are allowed; store the large part"):
        validate_event(event(payload=text_of(PAYLOAD_BYTES_MAX + 1)))
    with pytest.raises(InvalidEventType, match=r"'a  b' is not a name; use 1 to 200 letters"):
        validate_event(event(type="a  b"))


def test_validated_event_keeps_every_field() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    original = event(payload={"a": 1}, key="k", headers={"h": True}, emitted_at=at, producer="p")
    validated = validate_event(original)
    assert (validated.payload, validated.key, validated.headers, validated.id) == ('{"a":1}', "k", '{"h":true}', original.id)
    assert (validated.emitted_at, validated.producer) == (at, "p")


def test_mapping_instead_of_an_event_is_rejected_with_the_form_to_write() -> None:
    with pytest.raises(Invalid, match=r"takes events, not dict; write Event\(topic=…"):
        validate_event({"topic": "orders", "type": "placed"})  # type: ignore[arg-type]
