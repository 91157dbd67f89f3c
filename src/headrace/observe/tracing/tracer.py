"""Tracer: opens spans for publishers, handlers and readers of the log, and records the four messaging metrics. Imported only while
tracing is on.

Names, kinds, attributes and links follow OpenTelemetry's conventions for messaging: a publisher's span is the creation context of
its events; the span of a handler or reader links to the creation context of each of its messages. One span covers a whole
`publish_many`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Literal, Protocol, TypeAlias
from uuid import UUID

import msgspec
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import Counter, Histogram, get_meter
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    get_tracer,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headrace.core import HEADERS_BYTES_MAX, JSON, Discard, Event, Invalid, LoggedEvent, encode, error_text, redact
from headrace.observe.tracing.context import (
    LINKS_MAX,
    TRACEPARENT,
    TRACESTATE,
    TraceContext,
    TracedEvents,
    TracedHeaders,
    read_trace_context,
)

OperationType: TypeAlias = Literal["send", "receive", "process"]
OPERATION_TYPE = "messaging.operation.type"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The conventions advise these."""


class MessagingInstruments:
    """Records what publishers and handlers do."""

    def __init__(self) -> None:
        meter = get_meter("headrace")
        operation_duration = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Time that publishing events, sending an action or reading the log took.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        sent = meter.create_counter(
            "messaging.client.sent.messages", unit="{message}", description="Events published and actions sent."
        )
        consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Events and actions delivered to handlers, and events read from the log.",
        )
        process_duration = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Time that a handler took for an event, a batch or an action.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )

        self._by_operation: Mapping[OperationType, tuple[Histogram, Counter]] = {
            "send": (operation_duration, sent),
            "receive": (operation_duration, consumed),
            "process": (process_duration, consumed),
        }

    def record(self, operation: OperationType, duration_s: float, messages: int, attributes: Mapping[str, str]) -> None:
        histogram, counter = self._by_operation[operation]
        # Only the first histogram has the type among its attributes.
        typed = attributes if operation == "process" else {**attributes, OPERATION_TYPE: operation}
        histogram.record(duration_s, typed)
        counter.add(messages, attributes)


@cache
def messaging_instruments() -> MessagingInstruments:
    """Those of the process: OpenTelemetry cannot remove an instrument."""
    return MessagingInstruments()


CONTEXT_BYTES_MAX = 700
"""What a trace context may add to the headers; they stay as they are if that would be too much."""
STATUS_CHARS_MAX = 500

Attributes = dict[str, str | int]


class Message(Protocol):
    """What a handler gets: an event or an action."""

    @property
    def id(self) -> UUID: ...
    @property
    def headers(self) -> object: ...


class MessageTracer:
    """Opens the spans of one process. With `creation_is_parent` the span of a handler of one message is a child of its publisher's
    span."""

    def __init__(self, *, creation_is_parent: bool) -> None:
        self._creation_is_parent = creation_is_parent
        self._tracer = get_tracer("headrace")
        self._instruments = messaging_instruments()
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def publish(self, topic: str, headers: Mapping[str, JSON] | None, *, event_id: UUID | None = None) -> Iterator[TracedHeaders]:
        """A span around the publishing of one event; yields the headers to publish it with."""
        own = read_trace_context(headers)
        attributes: Attributes = {} if event_id is None else {"messaging.message.id": str(event_id)}
        with self._sending("publish", topic, attributes, own=[own] if own else [], messages=1, is_created=own is None):
            yield self._with_context(headers or {}, own)

    @contextmanager
    def publish_many(self, events: Iterable[Event]) -> Iterator[TracedEvents]:
        """A span around the publishing of several events; yields them with the headers to publish them with."""
        batch = list(events)
        contexts = [read_trace_context(event.headers) for event in batch]
        topics = {event.topic for event in batch}
        topic = topics.pop() if len(topics) == 1 else None
        own = [context for context in contexts if context]
        attributes: Attributes = {"messaging.batch.message_count": len(batch)}
        is_created = len(own) < len(batch)
        with self._sending("publish", topic, attributes, own=own, messages=len(batch), is_created=is_created):
            yield TracedEvents(
                msgspec.structs.replace(event, headers=self._with_context(event.headers, None))
                if context is None and isinstance(event.headers, Mapping)
                else event
                for event, context in zip(batch, contexts, strict=True)
            )

    @contextmanager
    def send_action(self, action: str) -> Iterator[str | None]:
        """A span around the sending of an action; yields its headers as JSON text, None without a valid span."""
        with self._sending("send", action, {}, own=[], messages=1, is_created=True):
            headers = self._with_context({}, None)
            yield encode(headers) if headers else None

    def start_process(self, destination: str, consumer: str | None, argument: Message | Sequence[Message]) -> ProcessSpan:
        """Opens the span of a handler that gets a message, or a batch of them, and makes it current; `ProcessSpan.end` ends it."""
        is_batch = isinstance(argument, Sequence)
        messages: Sequence[Message] = argument if isinstance(argument, Sequence) else (argument,)
        names = {"messaging.system": "headrace", "messaging.operation.name": "process", "messaging.destination.name": destination}
        if consumer is not None:
            names["messaging.consumer.group.name"] = consumer
        attributes: Attributes = {**names, OPERATION_TYPE: "process"}
        attributes |= {"messaging.batch.message_count": len(messages)} if is_batch else _message_attributes(messages[0])
        links = self._links(messages, is_batch=is_batch)
        parent: Context | None = None
        if self._creation_is_parent and not is_batch and (context := read_trace_context(messages[0].headers)):
            ambient = get_current_span().get_span_context()
            links += [Link(ambient)] if ambient.is_valid else []
            parent = self._extract(context)
        span = self._tracer.start_span(
            f"process {destination}", context=parent, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        )
        return ProcessSpan(span, self._instruments, names, len(messages))

    def receive(self, topic: str, read: Callable[[], list[LoggedEvent]]) -> list[LoggedEvent]:
        """Reads events, and leaves a span of it with a link to the creation of each event; none if there was nothing to read."""
        started, started_ns = time.perf_counter(), time.time_ns()
        names = {"messaging.system": "headrace", "messaging.operation.name": "receive", "messaging.destination.name": topic}
        attributes: Attributes = {**names, OPERATION_TYPE: "receive"}
        events: list[LoggedEvent] = []
        failure: Exception | None = None
        try:
            events = read()
            return events
        except Exception as error:
            failure = error
            raise
        finally:
            # The span starts afterwards: only then it is known whether there is one, and links to what.
            if events or failure:
                attributes |= {"messaging.batch.message_count": len(events)} if events else {}
                links = self._links(events, is_batch=True)
                span = self._tracer.start_span(
                    f"receive {topic}", kind=SpanKind.CLIENT, attributes=attributes, links=links, start_time=started_ns
                )
                if failure:
                    names["error.type"] = mark_error(span, failure)
                span.end()
                self._instruments.record("receive", time.perf_counter() - started, len(events), names)

    def _links(self, messages: Sequence[Message], *, is_batch: bool) -> list[Link]:
        """Links to the creation of the first messages, and to what led to it."""
        links = []
        for message in messages[:LINKS_MAX]:
            if context := read_trace_context(message.headers):
                attributes = {"messaging.message.id": str(message.id)} if is_batch else None
                others = [TraceContext(link) for link in context.links if link != context.traceparent]
                links += [Link(self._span_context(origin), attributes) for origin in (context, *others)]
        return links

    @contextmanager
    def _sending(
        self,
        operation: Literal["publish", "send"],
        destination: str | None,
        attributes: Attributes,
        *,
        own: Sequence[TraceContext],
        messages: int,
        is_created: bool,
    ) -> Iterator[None]:
        """A span around the sending of messages, some of which have a context of their own; with its metrics."""
        names = {"messaging.system": "headrace", "messaging.operation.name": operation}
        if destination is not None:
            names["messaging.destination.name"] = destination
        started = time.perf_counter()
        with self._tracer.start_as_current_span(
            operation if destination is None else f"{operation} {destination}",
            # Without a message that it creates, the span is not the one that consumers link to.
            kind=SpanKind.PRODUCER if is_created else SpanKind.CLIENT,
            attributes={**names, OPERATION_TYPE: "send", **attributes},
            links=[Link(self._span_context(context)) for context in own[:LINKS_MAX]],
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                names["error.type"] = mark_error(span, error)
                raise
            finally:
                self._instruments.record("send", time.perf_counter() - started, messages, names)

    def _with_context(self, headers: Mapping[str, JSON], own: TraceContext | None) -> TracedHeaders:
        """The headers with the context of the current span, unless they have one of their own; a malformed one is dropped."""
        if own is not None:
            return TracedHeaders(headers)
        traced = TracedHeaders(headers)
        if headers:
            traced.pop(TRACEPARENT, None)
            traced.pop(TRACESTATE, None)
            if not _has_room(traced):
                return traced
        self._propagator.inject(traced)
        return traced

    def _extract(self, context: TraceContext) -> Context:
        carrier = {TRACEPARENT: context.traceparent}
        if context.tracestate is not None:
            carrier[TRACESTATE] = context.tracestate
        return self._propagator.extract(carrier, Context())

    def _span_context(self, context: TraceContext) -> SpanContext:
        return get_current_span(self._extract(context)).get_span_context()


class ProcessSpan:
    """The open span of a handler; it is current until `end`."""

    __slots__ = ("_instruments", "_messages", "_names", "_span", "_started", "_token")

    def __init__(self, span: Span, instruments: MessagingInstruments, names: dict[str, str], messages: int) -> None:
        self._span = span
        self._instruments = instruments
        self._names = names
        self._messages = messages
        self._started = time.perf_counter()
        self._token = attach(set_span_in_context(span))

    def end(self, error: BaseException | None = None) -> None:
        """Ends the span, with the error that the handler raised. To discard a message is a decision and no error."""
        detach(self._token)
        if error is not None and not isinstance(error, Discard):
            self._names["error.type"] = mark_error(self._span, error)
        self._span.end()
        self._instruments.record("process", time.perf_counter() - self._started, self._messages, self._names)


def mark_error(span: Span, error: BaseException) -> str:
    """Marks a span as failed and returns the type of the error."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    line = redact(error_text(error)).split("\n", 1)[0][:STATUS_CHARS_MAX]
    span.set_status(Status(StatusCode.ERROR, line.encode("utf-8", "replace").decode()))
    span.set_attribute("error.type", name)
    return name


def _message_attributes(message: Message) -> Attributes:
    attributes: Attributes = {"messaging.message.id": str(message.id)}
    if (partition := getattr(message, "partition", None)) is not None:
        attributes["messaging.destination.partition.id"] = str(partition)
    if (attempt := getattr(message, "attempt", None)) is not None:
        attributes["messaging.headrace.attempt"] = attempt
    return attributes


def _has_room(headers: Mapping[str, JSON]) -> bool:
    """Can the headers take a trace context? Not if they are near the limit, or invalid: then the publisher gets the usual error."""
    try:
        return len(encode(headers, "headers").encode()) <= HEADERS_BYTES_MAX - CONTEXT_BYTES_MAX
    except Invalid:
        return False
