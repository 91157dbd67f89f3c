"""Tracing: the trace context of events and actions, and spans and messaging metrics by OpenTelemetry's conventions.

Owns: the setting HEADRACE_TRACING, and the headers `traceparent`, `tracestate` and `tracelinks`. Promises: while it is off,
opentelemetry is not imported, and whoever publishes or handles pays one look at `switch.tracer`; a trace context that is malformed,
too long or of the wrong type is dropped and never raises."""

from headrace.observe.tracing.context import TraceContext, TracedEvents, is_untraced, read_trace_context
from headrace.observe.tracing.setting import TracingMode, set_tracing, switch, trace_sending, without_ambient_span

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
