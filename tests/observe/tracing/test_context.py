"""The trace context in headers: read where it is right, dropped where it is not, in Python and in SQL alike."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st

from headrace.core import JSON, encode
from headrace.db import Connection
from headrace.observe.tracing import TraceContext, read_trace_context
from headrace.observe.tracing.context import LINKS_MAX

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
MALFORMED: list[JSON] = [
    None, 5, True, [], [PARENT], {"traceparent": PARENT}, "", "x", PARENT[:-1], PARENT + "0", PARENT + "-extra", f" {PARENT}",
    f"{PARENT}\n", PARENT.upper(), PARENT.replace("b7", "g7"), f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01", "00-" * 5000, "’" * 55, f"01-{TRACE}-{SPAN}-01x",
]  # fmt: skip


def test_context_names_its_trace_and_span() -> None:
    context = read_trace_context({"traceparent": PARENT, "tracestate": "a=1,b=2", "other": 1})
    assert context == TraceContext(PARENT, "a=1,b=2")
    assert (context.trace_id, context.span_id) == (TRACE, SPAN)


def test_later_versions_are_read_as_far_as_they_are_known() -> None:
    assert read_trace_context({"traceparent": f"01-{TRACE}-{SPAN}-01-what-comes-later"}) == TraceContext(f"01-{TRACE}-{SPAN}-01")


def test_headers_may_be_json_text() -> None:
    assert read_trace_context(msgspec.Raw(encode({"traceparent": PARENT}).encode())) == TraceContext(PARENT)
    assert read_trace_context(msgspec.Raw(b"{}")) is None
    assert read_trace_context(msgspec.Raw(b'{"traceparent": ')) is None


@pytest.mark.parametrize("value", MALFORMED)
def test_malformed_traceparent_is_dropped(value: JSON) -> None:
    assert read_trace_context({"traceparent": value, "tracestate": "a=1"}) is None


@pytest.mark.parametrize("value", [5, ["a=1"], {}, "", "a" * 513])
def test_malformed_tracestate_is_dropped_alone(value: JSON) -> None:
    assert read_trace_context({"traceparent": PARENT, "tracestate": value}) == TraceContext(PARENT)


def test_links_are_bounded_and_malformed_ones_dropped() -> None:
    links: list[JSON] = [5, "x", PARENT, *[PARENT] * 500]
    context = read_trace_context({"traceparent": PARENT, "tracelinks": links})
    assert context is not None and context.links == (PARENT,) * (LINKS_MAX - 2)
    assert read_trace_context({"traceparent": PARENT, "tracelinks": "x"}) == TraceContext(PARENT)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(PARENT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["traceparent", "tracestate", "tracelinks", "x"]), JSON_VALUES) | JSON_VALUES)
def test_no_headers_raise(headers: object) -> None:
    read_trace_context(headers)


@pytest.mark.lane("pg18")
def test_sql_carries_what_python_reads(conn: Connection) -> None:
    """SQL may carry what Python drops later (ids of zeros), but nothing that is not text of the right form."""
    values: list[JSON] = [PARENT, f"01-{TRACE}-{SPAN}-01-later", *MALFORMED]
    statement = "select headrace_internal.trace_headers(%s::jsonb)"
    for value in values:
        headers: dict[str, JSON] = {"traceparent": value, "tracestate": "a=1", "tracelinks": [PARENT], "other": 1}
        [(carried,)] = conn.execute(statement, (encode(headers),)).fetchall()
        if read_trace_context(headers) is not None:
            assert carried == {name: headers[name] for name in ("traceparent", "tracestate", "tracelinks")}
        else:
            assert carried is None or (isinstance(value, str) and len(carried["traceparent"]) <= 256)
    hostile = {"traceparent": PARENT, "tracestate": "a" * 5000, "tracelinks": ["x" * 16000]}
    assert conn.execute(statement, (encode(hostile),)).fetchall() == [({"traceparent": PARENT},)]
    assert conn.execute("select headrace_internal.trace_headers(null), headrace_internal.trace_headers('{}')").fetchall() == [
        (None, None)
    ]
