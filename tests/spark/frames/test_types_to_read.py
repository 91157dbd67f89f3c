"""What a frame sends to Python."""

from __future__ import annotations

import pytest

from headrace.spark import CorrelatorSpec
from headrace.spark.frames.correlation_tasks import types_that_push, types_to_read


@pytest.mark.parametrize(
    ("pattern", "types"),
    [
        ("repeat {push(x) {do {loop(3) {a}} unless {c}}}", ["a", "c"]),
        ("repeat {push(x) {sequential {a, b and <key = 'k'>}}}", ["a", "b"]),
        ("repeat {push(x) {<key = 'k'>}}", None),  # of any type
        ("repeat {push(x) {sequential {a, not b}}}", None),
        ("repeat {push(x) {sequential {a, next b}}}", None),  # an event between them matters
        ("repeat {push(x) {do {sequential {a, after 2 s}} unless {b}}}", None),  # an instance starts with its first event
        ("capture v = key; repeat {push(x) {sequential {a as p, b and <key > p.v>}}}", ["a", "b"]),
        ("repeat {push(x) {count(3, 1 h) {a}}}", ["a"]),
        ("each(3) {push(x) {sequential {a, b}}}", None),
        ("repeat {push(x) {loop(100) {a}}}", ["a"]),
        ("repeat {push(x) {accumulate {loop(30) {a}, loop(30) {b}, loop(20) {c}}}}", ["a", "b", "c"]),
    ],
)
def test_events_of_types_that_change_no_state_stay_in_java(pattern: str, types: list[str] | None) -> None:
    assert types_to_read([CorrelatorSpec(name="c", pattern=pattern, key="key")]) == types


def test_types_of_all_correlators_are_sent() -> None:
    specs = [CorrelatorSpec(name=name, pattern=f"repeat {{push(x) {{loop(2) {{{name}}}}}}}", key="key") for name in "ab"]
    assert types_to_read(specs) == ["a", "b"]
    assert types_to_read([specs[0], CorrelatorSpec(name="c", pattern=specs[0].pattern, key="key", forgets=True)]) is None


@pytest.mark.parametrize(
    ("pattern", "types"),
    [
        ("repeat {push(x) {sequential {a, b}}}", ["b"]),
        ("repeat {push(x) {sequential {a, next b}}}", ["b"]),
        ("repeat {push(x) {sequential {a, not b}}}", None),
        ("repeat {sequential {push(x) {b}, a, push(y) {c}}}", ["b", "c"]),
    ],
)
def test_ids_are_sent_of_events_that_may_push(pattern: str, types: list[str] | None) -> None:
    assert types_that_push([CorrelatorSpec(name="c", pattern=pattern, key="key")]) == types
