"""Publishing opens a span, and the events carry its context, on every driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from opentelemetry.trace import SpanKind, StatusCode

from headrace.actions import send_action, send_action_async
from headrace.core import JSON, Event, InvalidEventType, InvalidHeaders, UnknownTopic
from headrace.core.events import HEADERS_BYTES_MAX
from headrace.db import Target
from headrace.log.outbox import publish, publish_many
from headrace.observe.tracing import switch
from headrace.testing import Kit
from tests.drivers.callers import CALLERS
from tests.observe.tracing.conftest import Spans, ids, is_child, links_of, traceparent
from tests.observe.tracing.test_context import MALFORMED, PARENT

pytestmark = pytest.mark.lane("pg18")


def headers(kit: Kit) -> list[dict[str, JSON]]:
    return [row[0] for row in kit.conn.execute("select headers from headrace.outbox order by id")]


@pytest.mark.parametrize("name", ["psycopg", "psycopg async", "sqlalchemy session", "asyncpg", "django"])
async def test_event_carries_the_span_that_published_it(name: str, kit: Kit, database: Target, spans: Spans) -> None:
    async with CALLERS[name](database.dsn) as caller:
        with spans.request():
            await caller.one(Event(topic="orders", type="placed", headers={"tenant": 7}))
            await caller.many(Event(topic="orders", type="placed", payload=n) for n in range(2))
        await caller.finish(True)
    request = spans.one("GET /")
    single, batch = spans.all("publish orders")
    assert is_child(single, request) and is_child(batch, request)
    assert headers(kit) == [{"tenant": 7, "traceparent": traceparent(single)}] + [{"traceparent": traceparent(batch)}] * 2


def test_spans_follow_the_conventions(kit: Kit, spans: Spans) -> None:
    event_id = publish(kit.conn, "orders", "placed")
    publish_many(kit.conn, [Event(topic="orders", type="placed") for _ in range(3)])
    single, batch = spans.all("publish orders")
    assert single.kind is batch.kind is SpanKind.PRODUCER
    common = {
        "messaging.system": "headrace",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
    }
    assert dict(single.attributes or {}) == common | {"messaging.message.id": str(event_id)}
    assert dict(batch.attributes or {}) == common | {"messaging.batch.message_count": 3}
    assert single.status.status_code is StatusCode.UNSET and not single.links


def test_batch_of_several_topics_names_none_of_them(kit: Kit, spans: Spans) -> None:
    kit.conn.execute("select headrace.create_topic('bills')")
    publish_many(kit.conn, [Event(topic=topic, type="placed") for topic in ("orders", "bills")])
    span = spans.one("publish")
    assert "messaging.destination.name" not in (span.attributes or {})
    assert headers(kit) == [{"traceparent": traceparent(span)}] * 2


def test_context_of_the_caller_is_kept_and_linked(kit: Kit, spans: Spans) -> None:
    own: Mapping[str, JSON] = {"traceparent": PARENT, "tracestate": "a=1"}
    publish(kit.conn, "orders", "placed", headers=own)
    publish_many(kit.conn, [Event(topic="orders", type="placed", headers=own), Event(topic="orders", type="placed")])
    single, batch = spans.all("publish orders")
    assert headers(kit) == [own, own, {"traceparent": traceparent(batch)}]
    expected = (int(PARENT[3:35], 16), int(PARENT[36:52], 16))
    assert (single.kind, links_of(single)) == (SpanKind.CLIENT, [expected]), "consumers do not link to this span"
    assert (batch.kind, links_of(batch)) == (SpanKind.PRODUCER, [expected])


def test_malformed_context_of_the_caller_is_replaced(kit: Kit, spans: Spans) -> None:
    for value in MALFORMED:
        publish(kit.conn, "orders", "placed", headers={"traceparent": value, "tracestate": [1], "x": 1})
    expected = [{"x": 1, "traceparent": traceparent(span)} for span in spans.all("publish orders")]
    assert len(expected) == len(MALFORMED) and headers(kit) == expected


def test_failure_marks_the_span_and_is_raised_as_without_tracing(kit: Kit, spans: Spans) -> None:
    with pytest.raises(UnknownTopic):
        publish(kit.conn, "bills", "placed")
    with pytest.raises(InvalidEventType):
        publish_many(kit.conn, [Event(topic="orders", type="")])
    unknown, invalid = spans.one("publish bills"), spans.one("publish orders")
    assert unknown.status.status_code is invalid.status.status_code is StatusCode.ERROR
    assert (unknown.attributes or {})["error.type"] == "headrace.core.errors.UnknownTopic"
    assert (invalid.attributes or {})["error.type"] == "headrace.core.errors.InvalidEventType"
    assert "bills" in (unknown.status.description or "")


def test_password_in_an_error_is_not_in_the_span(spans: Spans) -> None:
    assert switch.tracer is not None
    with pytest.raises(ValueError), switch.tracer.publish("orders", None):
        raise ValueError("cannot reach postgresql://me:secret@db/shop\nsecond line")
    assert spans.one("publish orders").status.description == "cannot reach postgresql://me:***@db/shop"


@pytest.mark.parametrize("wrong", [[1], "x", 5])
def test_wrong_headers_are_refused_as_without_tracing(kit: Kit, spans: Spans, wrong: Any) -> None:
    with pytest.raises(InvalidHeaders):
        publish(kit.conn, "orders", "placed", headers=wrong)
    with pytest.raises(InvalidHeaders):
        publish_many(kit.conn, [Event(topic="orders", type="placed", headers=wrong)])


def test_headers_near_their_limit_are_published_without_a_context(kit: Kit, spans: Spans) -> None:
    full: dict[str, JSON] = {"x": "y" * (HEADERS_BYTES_MAX - 20)}
    publish(kit.conn, "orders", "placed", headers=full)
    publish_many(kit.conn, [Event(topic="orders", type="placed", headers=full)])
    assert headers(kit) == [full, full]


def test_same_event_twice_is_one_event(kit: Kit, spans: Spans) -> None:
    event_id = uuid4()
    for _ in range(2):
        assert publish(kit.conn, "orders", "placed", id=event_id) == event_id
    assert len(spans.all("publish orders")) == 2
    assert len(kit.events("orders")) <= 1


async def test_action_carries_the_span_that_sent_it(kit: Kit, database: Target, spans: Spans) -> None:
    with spans.request():
        send_action(kit.conn, "MAIL")
        async with await psycopg.AsyncConnection.connect(database.dsn, autocommit=True) as conn:
            await send_action_async(conn, "MAIL")
    sent = spans.all("send MAIL")
    assert [span.kind for span in sent] == [SpanKind.PRODUCER] * 2 and all(is_child(span, spans.one("GET /")) for span in sent)
    [(queue,)] = kit.conn.execute("select headrace_internal.queue_of('default')").fetchall()
    rows = kit.conn.execute(f"select message -> 'headers' from pgmq.q_{queue} order by msg_id").fetchall()
    assert rows == [({"traceparent": traceparent(span)},) for span in sent]


def test_sql_publishers_pass_the_context_in_headers(kit: Kit) -> None:
    kit.conn.execute(
        "select headrace.publish('orders', 'placed', '{}', p_headers => jsonb_build_object('traceparent', %s::text))", (PARENT,)
    )
    assert headers(kit) == [{"traceparent": PARENT}]


def test_api_without_sdk_passes_the_current_context_on(kit: Kit, spans: Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans are not recorded then, but a context that came with a request still reaches the events."""
    from opentelemetry.context import attach, detach
    from opentelemetry.trace import NoOpTracer
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    monkeypatch.setattr(switch.tracer, "_tracer", NoOpTracer())
    publish(kit.conn, "orders", "placed")
    token = attach(TraceContextTextMapPropagator().extract({"traceparent": PARENT}))
    publish(kit.conn, "orders", "placed")
    detach(token)
    assert headers(kit) == [{}, {"traceparent": PARENT}]
    assert ids(None) is None
