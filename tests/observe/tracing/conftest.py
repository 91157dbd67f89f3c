"""Tracing that is on for one test, and its spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id, get_tracer

from headrace.db import Target
from headrace.log.topics import create_topic
from headrace.observe.tracing import TracingMode, set_tracing
from headrace.testing import Kit
from tests.telemetry import span_exporter


def traceparent(span: ReadableSpan) -> str:
    """A span as the header names it."""
    context = span.get_span_context()
    return f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-{context.trace_flags:02x}"


def ids(context: SpanContext | None) -> tuple[int, int] | None:
    return (context.trace_id, context.span_id) if context else None


@dataclass(frozen=True)
class Spans:
    """The spans of one test."""

    exporter: InMemorySpanExporter

    def all(self, name: str) -> Sequence[ReadableSpan]:
        """Those that have ended and have this name, in the order they ended."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        names = [span.name for span in self.exporter.get_finished_spans()]
        assert names.count(name) == 1, f"{name} is not once in {names}"
        return self.all(name)[0]

    def request(self) -> object:
        """A span as a web framework opens it, as a context manager."""
        return get_tracer("test").start_as_current_span("GET /")


def links_of(span: ReadableSpan) -> list[tuple[int, int] | None]:
    return [ids(link.context) for link in span.links]


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    return ids(child.parent) == ids(parent.get_span_context())


def is_root(span: ReadableSpan) -> bool:
    return span.parent is None


@pytest.fixture
def mode() -> TracingMode:
    return "on"


@pytest.fixture
def spans(mode: TracingMode) -> Iterator[Spans]:
    exporter = span_exporter()
    exporter.clear()
    set_tracing(mode)
    yield Spans(exporter)
    set_tracing("off")


@pytest.fixture
def kit(database: Target) -> Iterator[Kit]:
    with Kit(database) as own:
        create_topic(own.conn, "orders")
        yield own
