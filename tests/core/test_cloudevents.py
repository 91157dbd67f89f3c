"""CloudEvents come out as they came in; invalid ones are rejected with a reason; SQL maps them as Python does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from headrace.core import (
    Event,
    Invalid,
    InvalidCloudEvent,
    InvalidTime,
    RawJSON,
    decode,
    encode,
    from_cloudevent,
    to_cloudevent,
    validate_event,
)
from headrace.db import Connection, map_database_errors
from headrace.log.outbox import publish_many

SMALLEST = {"specversion": "1.0", "id": "A234-1234", "source": "/mycontext", "type": "com.example.someevent"}

EVENTS: dict[str, dict[str, object]] = {
    "smallest": SMALLEST,
    "uuid as id": SMALLEST | {"id": "0198c0de-0000-7000-8000-000000000001"},
    "uuid in capitals as id": SMALLEST | {"id": "0198C0DE-0000-7000-8000-000000000001"},
    "every attribute": SMALLEST
    | {
        "subject": "larger-context",
        "time": "2026-04-05T17:31:00+00:00",
        "datacontenttype": "text/xml",
        "dataschema": "https://example.org/schema",
        "data": '<much wow="xml"/>',
    },
    "extensions": SMALLEST | {"comexampleextension1": "value", "comexampleothervalue": 5, "flag": True, "data": {"a": [1, None]}},
    "partition key": SMALLEST | {"partitionkey": "customer 7", "data": 1},
    "trace context": SMALLEST | {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"},
    "binary data": SMALLEST | {"datacontenttype": "image/png", "data_base64": "iVBORw0KGgo="},
    "empty binary data": SMALLEST | {"data_base64": ""},
    "time in nanoseconds": SMALLEST | {"time": "2026-04-05T17:31:00.123456789Z", "data": "x"},
    "data that is false": SMALLEST | {"data": False},
    "source of the topic": SMALLEST | {"source": "/topics/orders"},
}

REJECTED: dict[str, tuple[object, str]] = {
    "no specversion": ({"id": "1", "source": "/s", "type": "t"}, "specversion is missing, not 1.0"),
    "older version": (SMALLEST | {"specversion": "0.3"}, "specversion is 0.3"),
    "no id": (SMALLEST | {"id": None}, "id is missing"),
    "empty id": (SMALLEST | {"id": ""}, "id is missing"),
    "number as id": (SMALLEST | {"id": 5}, "id is missing or not text"),
    "no source": (SMALLEST | {"source": None}, "source is missing"),
    "no type": (SMALLEST | {"type": None}, "type is missing"),
    "name with a capital": (SMALLEST | {"myExtension": "x"}, 'attribute "myExtension"'),
    "name with a dash": (SMALLEST | {"my-extension": "x"}, 'attribute "my-extension"'),
    "object as extension": (SMALLEST | {"ext": {"a": 1}}, 'attribute "ext"'),
    "empty subject": (SMALLEST | {"subject": ""}, 'attribute "subject"'),
    "time in words": (SMALLEST | {"time": "yesterday"}, 'attribute "time"'),
    "time without offset": (SMALLEST | {"time": "2026-04-05T17:31:00"}, 'attribute "time"'),
    "data twice": (SMALLEST | {"data": 1, "data_base64": "AA=="}, "both data and data_base64"),
    "array": ([], "not a JSON object"),
}


def test_cloudevent_comes_out_as_it_came_in() -> None:
    for name, cloudevent in EVENTS.items():
        for form in (json.dumps(cloudevent), json.dumps(cloudevent).encode(), cloudevent):
            event = from_cloudevent(form, topic="orders")
            validate_event(event)
            assert json.loads(to_cloudevent(event)) == cloudevent, name


def test_attributes_become_fields_and_headers() -> None:
    event = from_cloudevent(EVENTS["every attribute"] | {"partitionkey": "k", "tenant": "t"}, topic="orders")
    assert (event.type, event.producer, event.key) == ("com.example.someevent", "/mycontext", "k")
    assert event.emitted_at == datetime(2026, 4, 5, 17, 31, tzinfo=UTC)
    assert event.headers == {
        "ce_id": "A234-1234",
        "ce_subject": "larger-context",
        "ce_datacontenttype": "text/xml",
        "ce_dataschema": "https://example.org/schema",
        "ce_tenant": "t",
    }


def test_same_source_and_id_are_the_same_event() -> None:
    first, again = (from_cloudevent(SMALLEST, topic="orders").id for _ in range(2))
    assert first == again and first.version == 8
    assert first != from_cloudevent(SMALLEST | {"source": "/other"}, topic="orders").id


def test_every_digit_of_the_data_is_kept() -> None:
    event = from_cloudevent(json.dumps(SMALLEST)[:-1] + ', "data": 1.10000000000000000001}', topic="orders")
    assert '"data":1.10000000000000000001' in to_cloudevent(event)


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | texts
names = texts | st.sampled_from(
    ["traceparent", "ce_id", "ce_time", "ce_subject", "ce_tenant", "ce_type", "ce_data_base64", "ce_X"]
)
events = st.builds(
    Event,
    topic=st.just("orders"),
    type=st.from_regex(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,20}", fullmatch=True),
    payload=st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=5),
    key=st.none() | texts.filter(bool),
    headers=st.dictionaries(names, scalars | st.lists(scalars, max_size=2), max_size=4),
    id=st.uuids(),
    emitted_at=st.none()
    | st.datetimes(
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(seconds=61))]),
        min_value=datetime(1, 1, 2),
        max_value=datetime(9999, 12, 30),
    ),
    producer=st.none() | texts.filter(bool),
)


@given(events)
def test_event_comes_in_as_it_went_out(event: Event) -> None:
    again = from_cloudevent(to_cloudevent(event), topic=event.topic)
    read = decode(bytes(again.payload)) if isinstance(again.payload, RawJSON) else again.payload
    assert read == event.payload and encode(again.headers) and dict(again.headers) == dict(event.headers)
    assert (again.type, again.key, again.id, again.emitted_at, again.producer) == (
        event.type,
        event.key,
        event.id,
        event.emitted_at,
        event.producer,
    )


def test_invalid_cloudevent_is_rejected_with_the_reason(conn: Connection) -> None:
    for form, reason in REJECTED.values():
        with pytest.raises(InvalidCloudEvent, match=reason):
            from_cloudevent(json.dumps(form), topic="orders")
        with pytest.raises(InvalidCloudEvent, match=reason.replace("missing or not text", "missing")), map_database_errors():
            conn.execute("select headrace.publish_cloudevent('orders', %s)", [json.dumps(form)])


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[1", b"\xff"])
def test_text_that_is_not_json_is_rejected(text: str | bytes) -> None:
    with pytest.raises(InvalidCloudEvent, match="not a JSON object"):
        from_cloudevent(text, topic="orders")


def test_sql_maps_as_python_does(conn: Connection) -> None:
    conn.execute("select headrace.create_topic('orders')")
    own = to_cloudevent(Event(topic="orders", type="t", headers={"My Header": {"a": 1}, "n": None}, key="k"))
    for form in [*map(json.dumps, EVENTS.values()), own]:
        event = from_cloudevent(form, topic="orders")
        publish_many(conn, [event])
        assert conn.execute("select headrace.publish_cloudevent('orders', %s)", [form]).fetchone() == (event.id,)
        python, sql = conn.execute(
            """delete from headrace_internal.outbox returning event_id, type, key, payload::text, headers, producer,
            case when %s then emitted_at end""",
            [event.emitted_at is not None],
        ).fetchall()
        assert python == sql


def test_invalid_type_is_rejected_when_published(conn: Connection) -> None:
    conn.execute("select headrace.create_topic('orders')")
    with pytest.raises(Invalid, match="is not a name"):
        publish_many(conn, [from_cloudevent(SMALLEST | {"type": "not  a name"}, topic="orders")])
    assert isinstance(from_cloudevent(SMALLEST, topic="orders").id, UUID)


def test_time_beyond_the_limits_is_rejected_when_published(conn: Connection) -> None:
    conn.execute("select headrace.create_topic('orders')")
    late = SMALLEST | {"time": "9999-12-31T23:59:59Z"}
    with pytest.raises(InvalidTime):
        publish_many(conn, [from_cloudevent(late, topic="orders")])
    with pytest.raises(InvalidTime), map_database_errors():
        conn.execute("select headrace.publish_cloudevent('orders', %s)", [json.dumps(late)])
