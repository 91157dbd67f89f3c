"""An event is sealed only within every rule and limit, and SQL refuses and accepts the same."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest

from headrace.core import (
    BadHeaders,
    BadKey,
    BadPayload,
    BadText,
    BadType,
    Event,
    HeadraceError,
    Invalid,
    NumberRefused,
    PayloadTooDeep,
    PayloadTooLarge,
    RawJSON,
    UnknownTopic,
    error_for_sqlstate,
    seal,
)
from headrace.core.limits import (
    HEADERS_BYTES_MAX,
    KEY_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PAYLOAD_DEPTH_MAX,
    PRODUCER_BYTES_MAX,
    TYPE_CHARS_MAX,
)
from headrace.db import Connection, map_error
from headrace.outbox import publish, publish_many


def event(**given: object) -> Event:
    return Event(**{"topic": "orders", "type": "order.placed", **given})


def deep(levels: int) -> RawJSON:
    return RawJSON(b"[" * levels + b"]" * levels)


def text_of(size: int) -> str:
    """A text whose JSON has so many bytes."""
    return "x" * (size - 2)


# Ones and commas: PostgreSQL prints a space after each comma, so n ones take 3n bytes.
ONES = PAYLOAD_BYTES_MAX // 3

ACCEPTED = {
    "smallest": event(payload=None),
    "type of 200": event(type="t" * TYPE_CHARS_MAX),
    "type with every sign": event(type="_aZ09_.:/-"),
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

REFUSED = {
    "no type": (event(type=""), BadType),
    "type of 201": (event(type="t" * (TYPE_CHARS_MAX + 1)), BadType),
    "type with a space": (event(type="order placed"), BadType),
    "type that starts with a digit": (event(type="1order"), BadType),
    "type with a line end": (event(type="order\n"), BadType),
    "type beyond ASCII": (event(type="ördër"), BadType),
    "empty key": (event(key=""), BadKey),
    "key of 1025 bytes": (event(key="k" * (KEY_BYTES_MAX + 1)), BadKey),
    "key of 513 two-byte letters": (event(key="ä" * (KEY_BYTES_MAX // 2 + 1)), BadKey),
    "payload over the limit": (event(payload=text_of(PAYLOAD_BYTES_MAX + 1)), PayloadTooLarge),
    "payload over the limit as printed": (event(payload=[1] * (ONES + 1)), PayloadTooLarge),
    "payload over the limit in digits": (event(payload=[1e300] * 3500), PayloadTooLarge),
    "payload over the limit in digits after the point": (
        event(payload=RawJSON(b"[" + b",".join([b"1e-9999"] * 105) + b"]")),
        PayloadTooLarge,
    ),
    "payload 129 deep": (event(payload=deep(PAYLOAD_DEPTH_MAX + 1)), PayloadTooDeep),
    "payload 129 deep, with a leaf": (event(payload=RawJSON(b"[" * 129 + b"1" + b"]" * 129)), PayloadTooDeep),
    "20 000 digits after the point": (event(payload=RawJSON(b'{"a": 1e-20000}')), NumberRefused),
    "just beyond the largest number": (event(payload=RawJSON(b"17976931348623159" + b"0" * 292)), NumberRefused),
    "1e400": (event(payload=RawJSON(b'{"a": 1e400}')), NumberRefused),
    "-1e400": (event(payload=RawJSON(b"[-1e400]")), NumberRefused),
    "integer beyond a double": (event(payload=RawJSON(b"1" + b"0" * 309)), NumberRefused),
    "headers over the limit": (event(headers={"h": "x" * (HEADERS_BYTES_MAX - 8)}), BadHeaders),
    "headers that are a list": (event(headers=["a"]), BadHeaders),
    "headers too deep": (event(headers={"h": deep(PAYLOAD_DEPTH_MAX)}), BadHeaders),
    "headers with 1e400": (event(headers={"h": RawJSON(b"1e400")}), BadHeaders),
    "producer over the limit": (event(producer="p" * (PRODUCER_BYTES_MAX + 1)), Invalid),
    "payload with NUL": (event(payload=RawJSON(rb'"\u0000"')), BadText),
    "payload that is not JSON": (event(payload=RawJSON(b"{")), Invalid),
}

ONLY_PYTHON = {
    "NaN": (event(payload=float("nan")), NumberRefused),
    "NUL in a key": (event(key="a\0"), BadText),
    "half a surrogate pair in a key": (event(key="\ud800"), BadText),
    "NUL in a producer": (event(producer="a\0"), BadText),
    "NUL in a topic": (event(topic="orders\0"), UnknownTopic),
    "half a surrogate pair in a topic": (event(topic="\ud800"), UnknownTopic),
    "key that is a number": (event(key=5), BadKey),
    "type that is a number": (event(type=5), BadType),
    "id that is text": (event(id="5"), Invalid),
    "time without a zone": (event(emitted_at=datetime(2026, 1, 1)), Invalid),
    "object": (event(payload=object()), BadPayload),
}


def raw(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


def refusal_by_sql(conn: Connection, given: Event) -> type[HeadraceError] | None:
    """The error that the SQL function raises for texts which Python has not looked at."""
    statement = "select headrace.publish(%s, %s, %s::text::jsonb, %s, %s::text::jsonb, p_producer => %s)"
    try:
        conn.execute(statement, (given.topic, given.type, raw(given.payload), given.key, raw(given.headers), given.producer))
    except psycopg.Error as error:
        ours = map_error(error)
        assert ours is not None, error
        return type(ours)
    return None


@pytest.fixture
def orders(conn: Connection) -> Connection:
    conn.execute("select headrace.create_topic('orders')")
    return conn


@pytest.mark.parametrize("name", ACCEPTED)
def test_python_and_sql_accept(orders: Connection, name: str) -> None:
    given = ACCEPTED[name]
    assert refusal_by_sql(orders, given) is None
    publish_many(orders, [given])
    publish(orders, given.topic, given.type, given.payload, key=given.key, headers=given.headers, producer=given.producer)
    rows = orders.execute("select type, key, payload, headers, producer from headrace_internal.outbox order by id").fetchall()
    assert rows[0] == rows[1] == rows[2]


@pytest.mark.parametrize("name", REFUSED)
def test_python_and_sql_refuse(orders: Connection, name: str) -> None:
    given, reason = REFUSED[name]
    with pytest.raises(reason):
        publish_many(orders, [given])
    by_sql = refusal_by_sql(orders, given)
    assert by_sql is not None and (issubclass(by_sql, reason) or by_sql is Invalid)
    assert orders.execute("select count(*) from headrace_internal.outbox").fetchone() == (0,)


@pytest.mark.parametrize("name", ONLY_PYTHON)
def test_python_refuses_what_cannot_reach_sql(name: str) -> None:
    given, reason = ONLY_PYTHON[name]
    with pytest.raises(reason):
        seal(given)


def test_error_says_what_to_do() -> None:
    with pytest.raises(PayloadTooLarge, match=r"payload has 1048577 bytes, at most 1048576 are allowed; store the large part"):
        seal(event(payload=text_of(PAYLOAD_BYTES_MAX + 1)))
    with pytest.raises(BadType, match=r"'a b' is not a name; use 1 to 200 letters"):
        seal(event(type="a b"))


def test_every_refusal_has_a_sqlstate_of_its_own() -> None:
    for _, reason in [*REFUSED.values(), *ONLY_PYTHON.values()]:
        assert error_for_sqlstate(reason.sqlstate) is reason


def test_sealed_event_keeps_what_was_given() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    given = event(payload={"a": 1}, key="k", headers={"h": True}, emitted_at=at, producer="p")
    sealed = seal(given)
    assert (sealed.payload, sealed.key, sealed.headers, sealed.id) == ('{"a":1}', "k", '{"h":true}', given.id)
    assert (sealed.emitted_at, sealed.producer) == (at, "p")
