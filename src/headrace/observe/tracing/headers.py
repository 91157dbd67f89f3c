"""Headers that have been through the tracer, so that a publisher knows that its span is open."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core import JSON, Event


class TracedHeaders(dict[str, JSON]):
    """Headers with the trace context of the span that is open."""


class TracedEvents(list[Event]):
    """Events whose headers have the trace context of the span that is open."""


def is_untraced(headers: object) -> bool:
    """Must a span be opened for these headers? Not for what is no mapping: validation rejects it."""
    return headers is None or (isinstance(headers, Mapping) and not isinstance(headers, TracedHeaders))
