"""Handlers run in a span that links to where their messages were created, and what they publish belongs to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from headrace.actions import Action, send_action
from headrace.consume import Batch
from headrace.core import Discard, Event, LoggedEvent, Retry
from headrace.correlators import ActionOutput, Correlator, EventOutput, create_correlator
from headrace.db import AsyncConnection, Connection, Target
from headrace.log.outbox import publish, publish_async, publish_many
from headrace.node import Headrace
from headrace.observe.tracing import TracingMode
from headrace.rules import Rule, create_rule
from headrace.testing import Kit
from tests.observe.tracing.conftest import Spans, ids, is_child, is_root, links_of, traceparent
from tests.observe.tracing.test_context import MALFORMED

pytestmark = pytest.mark.lane("pg18")


async def test_span_of_a_consumer_follows_the_conventions(kit: Kit, spans: Spans) -> None:
    app = Headrace()

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None: ...

    event_id = publish(kit.conn, "orders", "placed")
    await kit.run_until_idle(app)
    span = spans.one("process orders")
    assert span.kind is SpanKind.CONSUMER and is_root(span)
    assert dict(span.attributes or {}) == {
        "messaging.system": "headrace",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.consumer.group.name": "mailer",
        "messaging.message.id": str(event_id),
        "messaging.destination.partition.id": "0",
    }
    assert links_of(span) == [ids(spans.one("publish orders").get_span_context())]


async def test_span_of_a_batch_links_to_each_event(kit: Kit, spans: Spans) -> None:
    app = Headrace()

    @app.consumer("orders", batch=Batch(max=10))
    async def mailer(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None: ...

    event_ids = [publish(kit.conn, "orders", "placed", n) for n in range(3)]
    event_ids.append(publish(kit.conn, "orders", "placed", headers={"traceparent": "x"}))
    kit.conn.execute("update headrace_internal.outbox set headers = '{\"traceparent\": 5}' where event_id = %s", (event_ids[3],))
    await kit.run_until_idle(app)
    span = spans.one("process orders")
    assert (span.attributes or {})["messaging.batch.message_count"] == 4 and "messaging.message.id" not in (span.attributes or {})
    assert links_of(span) == [ids(published.get_span_context()) for published in spans.all("publish orders")[:3]]
    assert [dict(link.attributes or {}) for link in span.links] == [{"messaging.message.id": str(id)} for id in event_ids[:3]]


@pytest.mark.parametrize("is_async", [True, False])
async def test_span_is_current_in_the_handler_and_its_events_belong_to_it(kit: Kit, spans: Spans, is_async: bool) -> None:
    """Each call has its own span, also when several calls share a thread."""
    app = Headrace()
    current: list[tuple[int, int] | None] = []

    async def ship_async(event: LoggedEvent, tx: AsyncConnection) -> None:
        current.append(ids(get_current_span().get_span_context()))
        await publish_async(tx, "parcels", "shipped")

    def ship_sync(event: LoggedEvent, tx: Connection) -> None:
        current.append(ids(get_current_span().get_span_context()))
        publish(tx, "parcels", "shipped")

    kit.conn.execute("select headrace.create_topic('parcels')")
    app.consumer("orders", name="ship")(ship_async if is_async else ship_sync)
    publish_many(kit.conn, [Event(topic="orders", type="placed") for _ in range(3)])
    await kit.run_until_idle(app)
    handled, published = spans.all("process orders"), spans.all("publish parcels")
    assert current == [ids(span.get_span_context()) for span in handled] and len(set(current)) == 3
    assert all(is_child(inner, outer) for inner, outer in zip(published, handled, strict=True))
    assert [event.headers["traceparent"] for event in kit.events("parcels")] == [traceparent(span) for span in published]


@pytest.mark.parametrize("mode", ["parent"])
async def test_single_handler_may_continue_the_trace(kit: Kit, spans: Spans, mode: TracingMode) -> None:
    app = Headrace()

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None: ...

    @app.consumer("orders", batch=Batch(max=10))
    async def counter(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None: ...

    publish(kit.conn, "orders", "placed")
    with spans.request():
        await kit.run_until_idle(app)
    published, request = spans.one("publish orders"), spans.one("GET /")
    single, batch = sorted(
        spans.all("process orders"), key=lambda span: "messaging.batch.message_count" in (span.attributes or {})
    )
    assert is_child(single, published), "one trace"
    assert links_of(single) == [ids(published.get_span_context()), ids(request.get_span_context())], "the surrounding span too"
    assert is_child(batch, request) and links_of(batch) == [ids(published.get_span_context())], "a batch has many creators"


@pytest.mark.parametrize(("timing", "engine"), [("after", "rule"), ("inline", "rule"), ("after", "on")])
async def test_action_of_a_rule_carries_the_context_of_its_event(kit: Kit, spans: Spans, timing: str, engine: str) -> None:
    app = Headrace()
    name = "on:placed" if engine == "on" else "MAIL"

    async def mail(action: Action, tx: AsyncConnection) -> None: ...

    (app.on("placed") if engine == "on" else app.handler("MAIL"))(mail)
    if engine == "rule":
        create_rule(kit.conn, Rule(name="r", topic="orders", event_type="placed", action="MAIL", timing=timing))
    await kit.run_until_idle(app)
    publish(kit.conn, "orders", "placed")
    await kit.run_until_idle(app)
    span = spans.one(f"process {name}")
    assert links_of(span) == [ids(spans.one("publish orders").get_span_context())]
    assert (span.attributes or {})["messaging.destination.name"] == name
    assert (span.attributes or {})["messaging.headrace.attempt"] == 1
    assert "messaging.consumer.group.name" not in (span.attributes or {})


async def test_output_of_a_correlator_continues_its_last_event_and_links_to_the_evidence(kit: Kit, spans: Spans) -> None:
    kit.conn.execute("select headrace.create_topic('alarms')")
    for name, output in (("a", ActionOutput(action="MAIL")), ("b", EventOutput(topic="alarms", event="alarm"))):
        pattern = "repeat {push(done) {sequential {placed, paid}}}"
        create_correlator(kit.conn, Correlator(name=name, topic="orders", pattern=pattern, outputs={"done": output}))
    app = Headrace()

    @app.handler("MAIL")
    async def mail(action: Action, tx: AsyncConnection) -> None: ...

    @app.consumer("alarms")
    async def siren(event: LoggedEvent, tx: AsyncConnection) -> None: ...

    await kit.run_until_idle(app)
    publish(kit.conn, "orders", "placed", key="k")
    publish(kit.conn, "orders", "paid", key="k")
    await kit.run_until_idle(app)
    placed, paid = (ids(span.get_span_context()) for span in spans.all("publish orders"))
    assert links_of(spans.one("process MAIL")) == [paid, placed]
    assert links_of(spans.one("process alarms")) == [paid, placed]
    [alarm] = kit.events("alarms")
    assert set(alarm.headers) == {"cause", "traceparent", "tracelinks"}


async def test_failed_call_marks_its_span(kit: Kit, spans: Spans) -> None:
    app = Headrace()

    @app.handler("FAIL", attempts=2)
    async def fail(action: Action, tx: AsyncConnection) -> None:
        raise {1: ValueError("no money"), 2: Retry("later")}[action.attempt]

    @app.handler("DROP", attempts=2)
    def drop(action: Action, tx: Connection) -> None:
        raise Discard("nobody wants it")

    send_action(kit.conn, "FAIL")
    send_action(kit.conn, "DROP")
    await kit.run_until_idle(app)
    kit.advance(hours=1)
    await kit.run_until_idle(app)
    # A batch that fails is handled again one by one, so the first attempt may have two spans.
    failed = spans.all("process FAIL")
    assert {(span.attributes or {})["error.type"] for span in failed} == {"ValueError", "headrace.core.outcomes.Retry"}
    assert all(span.status.status_code is StatusCode.ERROR for span in failed)
    assert failed[0].status.description == "no money" and not failed[0].events
    assert {span.status.status_code for span in spans.all("process DROP")} == {StatusCode.UNSET}, "a decision, not an error"
    assert links_of(failed[-1]) == [ids(spans.one("send FAIL").get_span_context())], "a retry links to the same span"


async def test_malformed_context_of_an_event_costs_the_link_and_nothing_else(kit: Kit, spans: Spans) -> None:
    app = Headrace()
    create_rule(kit.conn, Rule(name="r", topic="orders", event_type="placed", action="MAIL"))

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None: ...

    @app.handler("MAIL")
    async def mail(action: Action[dict[str, int]], tx: AsyncConnection) -> None: ...

    await kit.run_until_idle(app)
    for value in MALFORMED:
        publish(kit.conn, "orders", "placed", {"n": 1}, headers={"value": value})
    kit.conn.execute("update headrace_internal.outbox set headers = jsonb_build_object('traceparent', headers -> 'value')")
    await kit.run_until_idle(app)
    handled = [*spans.all("process orders"), *spans.all("process MAIL")]
    assert len(handled) == 2 * len(MALFORMED)
    assert not any(span.links for span in handled) and all(span.status.status_code is StatusCode.UNSET for span in handled)


async def test_call_after_commit_belongs_to_its_handler(kit: Kit, spans: Spans) -> None:
    app = Headrace()

    @app.after_commit()
    async def send_mail(to: str) -> None: ...

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None:
        await send_mail.after_commit(tx, to="me")

    publish(kit.conn, "orders", "placed")
    await kit.run_until_idle(app)
    sent = spans.one("send after-commit:send_mail")
    assert is_child(sent, spans.one("process orders"))
    assert links_of(spans.one("process after-commit:send_mail")) == [ids(sent.get_span_context())]


async def test_redriven_action_keeps_its_context(kit: Kit, spans: Spans) -> None:
    app = Headrace()

    @app.handler("FAIL", attempts=1)
    async def fail(action: Action, tx: AsyncConnection) -> None:
        if action.redriven_from is None:
            raise ValueError

    send_action(kit.conn, "FAIL")
    await kit.run_until_idle(app)
    kit.conn.execute("select headrace.redrive_actions()")
    await kit.run_until_idle(app)
    sent = ids(spans.one("send FAIL").get_span_context())
    assert [links_of(span) for span in spans.all("process FAIL")] == [[sent], [sent]]


async def test_handlers_of_a_node_do_not_belong_to_the_span_that_started_it(kit: Kit, database: Target, spans: Spans) -> None:
    app = Headrace()
    handled = asyncio.Event()

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None:
        handled.set()

    with spans.request():
        async with app.running([database]):
            publish(kit.conn, "orders", "placed")
            async with asyncio.timeout(30):
                await handled.wait()
        assert get_current_span().get_span_context().is_valid, "the application keeps its own span"
    assert is_root(spans.one("process orders"))


async def test_direct_delivery_is_part_of_its_request(kit: Kit, database: Target, spans: Spans) -> None:
    import psycopg

    app = Headrace()

    @app.handler("MAIL")
    async def mail(action: Action, tx: AsyncConnection) -> None: ...

    with spans.request():
        async with await psycopg.AsyncConnection.connect(database.dsn, autocommit=True) as conn:
            assert await app.deliver(conn, "MAIL")
    span, request = spans.one("process MAIL"), spans.one("GET /")
    assert is_child(span, request) and links_of(span) == [ids(spans.one("send MAIL").get_span_context())]
