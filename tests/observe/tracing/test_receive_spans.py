"""A program that reads the log by itself leaves spans of its reads; a node's handlers have spans of their own."""

from __future__ import annotations

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from headrace.core import UnknownTopic
from headrace.log.outbox import publish
from headrace.log.topics import follow_log, read_log
from headrace.testing import Kit
from tests.builders import drain
from tests.observe.tracing.conftest import Spans, ids, is_child, links_of

pytestmark = pytest.mark.lane("pg18")


def test_read_of_the_log_links_to_each_event_it_brings(kit: Kit, spans: Spans) -> None:
    event_ids = [publish(kit.conn, "orders", "placed", n) for n in range(3)]
    drain(kit.conn)
    with spans.request():
        assert len(read_log(kit.conn, "orders")) == 3
    span = spans.one("receive orders")
    assert span.kind is SpanKind.CLIENT and is_child(span, spans.one("GET /"))
    assert dict(span.attributes or {}) == {
        "messaging.system": "headrace",
        "messaging.operation.name": "receive",
        "messaging.operation.type": "receive",
        "messaging.destination.name": "orders",
        "messaging.batch.message_count": 3,
    }
    assert links_of(span) == [ids(published.get_span_context()) for published in spans.all("publish orders")]
    assert [dict(link.attributes or {}) for link in span.links] == [{"messaging.message.id": str(id)} for id in event_ids]
    assert span.start_time is not None and span.end_time is not None and span.end_time > span.start_time


def test_read_that_finds_nothing_leaves_no_span(kit: Kit, spans: Spans) -> None:
    """Whoever polls an idle topic would send a span with every look."""
    publish(kit.conn, "orders", "placed")
    drain(kit.conn)
    assert len(list(follow_log(kit.conn, "orders", after=0, wait_s=0.01))) == 1
    assert read_log(kit.conn, "orders", after=1) == []
    assert len(spans.all("receive orders")) == 1


def test_failed_read_marks_its_span(kit: Kit, spans: Spans) -> None:
    with pytest.raises(UnknownTopic):
        read_log(kit.conn, "nowhere")
    span = spans.one("receive nowhere")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "headrace.core.errors.UnknownTopic"
