"""Tracing: the trace context of events and actions, and spans and messaging metrics by OpenTelemetry's conventions.

Owns: the setting HEADRACE_TRACING, and the headers `traceparent`, `tracestate` and `tracelinks`. Promises: while it is off,
opentelemetry is not imported, and whoever publishes or handles pays one look at `switch.tracer`; a trace context that is malformed,
too long or of the wrong type is dropped and never raises.

The setting, HEADRACE_TRACING in the environment or `set_tracing` in a program, holds for the whole process, because a publisher has
nothing but a connection. The variable is read once, when this package is imported. A wrong value, or a missing package, costs a warning
and no more: what observes a program must not keep it from starting. `set_tracing` raises."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from headrace.core import HeadraceError, Invalid, NotFound
from headrace.observe.tracing.context import TraceContext, TracedEvents, is_untraced, read_trace_context

if TYPE_CHECKING:
    from headrace.observe.tracing.tracer import MessageTracer

__all__ = [
    "TraceContext",
    "TracedEvents",
    "TracingMode",
    "is_untraced",
    "read_trace_context",
    "set_tracing",
    "switch",
    "trace_sending",
    "without_ambient_span",
]

logger = logging.getLogger(__name__)

TracingMode: TypeAlias = Literal["off", "on", "parent"]
"""`on`: the span of a handler links to the span of the publisher, as OpenTelemetry's conventions say. `parent`: for a single event
or action it is also its child, so that both are in one trace."""
ENVIRONMENT = "HEADRACE_TRACING"


class Switch:
    """Holds the tracer of the process; None while tracing is off."""

    __slots__ = ("tracer",)

    def __init__(self) -> None:
        self.tracer: MessageTracer | None = None


switch = Switch()
_NO_SPAN: AbstractContextManager[None] = nullcontext()


def set_tracing(mode: TracingMode) -> None:
    """Switches tracing on or off for this process. Raises Invalid, or NotFound if opentelemetry-api is not installed."""
    if mode not in get_args(TracingMode):
        raise Invalid(f"tracing cannot be {mode!r}; give one of {', '.join(get_args(TracingMode))}")
    if mode == "off":
        switch.tracer = None
        return
    try:
        from headrace.observe.tracing.tracer import MessageTracer
    except ImportError:
        raise NotFound("tracing needs opentelemetry-api 1.30 or newer; run: pip install 'headrace[otel]'") from None
    switch.tracer = MessageTracer(creation_is_parent=mode == "parent")


def trace_sending(action: str) -> AbstractContextManager[str | None]:
    """A span around the sending of an action, if tracing is on; yields the action's headers as JSON text, or None."""
    return _NO_SPAN if switch.tracer is None else switch.tracer.send_action(action)


@contextmanager
def without_ambient_span() -> Iterator[None]:
    """Runs the block without the current span: the loops of a node do not belong to the span that happened to start them."""
    if switch.tracer is None:
        yield
        return
    from opentelemetry.context import Context, attach, detach

    token = attach(Context())
    try:
        yield
    finally:
        detach(token)


def _read_environment() -> None:
    mode = os.environ.get(ENVIRONMENT) or "off"
    try:
        set_tracing(mode)  # type: ignore[arg-type]
    except HeadraceError as error:
        logger.warning("%s=%s has no effect: %s", ENVIRONMENT, mode, error)


_read_environment()
