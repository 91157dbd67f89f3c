"""Trace context: what the headers of an event or action say about its trace, as W3C defines it. Needs no package.

Headers and events that have been through the tracer have types of their own, so that a publisher knows that its span is open."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from headrace.core import JSON, Event

TRACEPARENT, TRACESTATE, TRACELINKS = "traceparent", "tracestate", "tracelinks"
TRACESTATE_CHARS_MAX: Final = 512
"""W3C's own limit; a longer one is dropped."""
LINKS_MAX: Final = 100
"""Links of one message, beside the one to its creation; also those of a batch."""

# The same as in headrace_internal.trace_headers. Version ff is invalid, as are ids of zeros.
_traceparent = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
TRACEPARENT_CHARS: Final = 55


@dataclass(frozen=True)
class TraceContext:
    """Where a message was created: the span of its publisher. `links`: other spans that led to it, each as a traceparent."""

    traceparent: str
    tracestate: str | None = None
    links: Sequence[str] = ()

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        return self.traceparent[3:35]

    @property
    def span_id(self) -> str:
        """16 hexadecimal digits."""
        return self.traceparent[36:52]


def read_trace_context(headers: object) -> TraceContext | None:
    """The trace context in headers, which may be JSON text; None if there is none or it is malformed."""
    if isinstance(headers, msgspec.Raw):
        if b"traceparent" not in bytes(headers):
            return None
        try:
            headers = msgspec.json.decode(headers)
        except (ValueError, RecursionError):
            return None
    if not isinstance(headers, Mapping):
        return None
    traceparent = parse_traceparent(headers.get(TRACEPARENT))
    if traceparent is None:
        return None
    state, links = headers.get(TRACESTATE), headers.get(TRACELINKS)
    texts = links[:LINKS_MAX] if isinstance(links, list | tuple) else ()
    return TraceContext(
        traceparent,
        state if isinstance(state, str) and 0 < len(state) <= TRACESTATE_CHARS_MAX else None,
        tuple(link for text in texts if (link := parse_traceparent(text))),
    )


def parse_traceparent(value: object) -> str | None:
    """The traceparent without what versions after 00 may add; None for what is not one."""
    if not isinstance(value, str) or not _traceparent.match(value):
        return None
    text, rest = value[:TRACEPARENT_CHARS], value[TRACEPARENT_CHARS:]
    return None if rest and (text.startswith("00") or not rest.startswith("-")) else text


class TracedHeaders(dict[str, JSON]):
    """Headers with the trace context of the span that is open."""


class TracedEvents(list[Event]):
    """Events whose headers have the trace context of the span that is open."""


def is_untraced(headers: object) -> bool:
    """Must a span be opened for these headers? Not for what is no mapping: validation rejects it."""
    return headers is None or (isinstance(headers, Mapping) and not isinstance(headers, TracedHeaders))
