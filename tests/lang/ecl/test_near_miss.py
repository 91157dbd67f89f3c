"""Near misses: the change that is named was run, and leads to the output that is promised."""

from __future__ import annotations

import pytest

from headrace.lang.ecl import Change, NearMiss, compile, find_near_misses, parse, parse_events

SECOND = 1_000_000


def first_miss(pattern: str, events: str, until: int | None = None) -> NearMiss | None:
    return next(iter(find_near_misses(compile(parse(pattern)), parse_events(events), until=until)), None)


@pytest.mark.parametrize(
    ("pattern", "events", "change", "number"),
    [
        ("push(x) {within 10 s {sequential {a, b}}}", '[["a", 0], ["b", 12]]', Change.LATE, 1),
        ("push(x) {sequential {a, b and <(object -> 'v')::int > 100>}}", '[["a", 0], ["b", 1, {"v": 50}]]', Change.CONDITION, 1),
        ("push(x) {sequential {a, b}}", "a c", Change.MISSING, 2),
        ("push(x) {do {sequential {a, b}} unless {c}}", '[["a", 0], ["c", 0], ["b", 0]]', Change.MISSING, 1),
        ("repeat {push(x) {sequential {a, next b}}}", "a c b", Change.MISSING, 2),
        ("repeat {push(x) {sequential {d, fail {within 3 s {r}}}}}", '[["d", 0], ["r", 2]]', Change.EXTRA, 1),
        (
            "capture v = (object -> 'v')::int; push(x) {sequential {a as t, b and <v > t.v>}}",
            '[["a", 0, {"v": 60}], ["b", 1, {"v": 50}]]',
            Change.CONDITION,
            1,
        ),
        ("each {push(x) {sequential {a, b}}}", "a a", Change.MISSING, 2),
    ],
)
def test_likeliest_change_is_named(pattern: str, events: str, change: Change, number: int) -> None:
    miss = first_miss(pattern, events, until=30 * SECOND)
    assert miss is not None
    assert (miss.change, miss.number, miss.output.token) == (change, number, "x")


def test_lateness_is_measured_to_the_deadline() -> None:
    miss = first_miss("push(x) {within 10 s {sequential {a, b}}}", '[["a", 0], ["b", 12]]')
    # An event at the deadline is too late already.
    assert miss is not None and miss.late_us == 2 * SECOND + 1


def test_events_that_do_lead_to_an_output_miss_nothing() -> None:
    assert first_miss("push(x) {sequential {a, b}}", "a b") is None


def test_two_missing_events_are_no_near_miss() -> None:
    assert first_miss("push(x) {sequential {a, b, c}}", "a") is None


def test_token_is_asked_for_by_name() -> None:
    table = compile(parse("parallel {repeat {push(x) {a}}, repeat {push(y) {sequential {a, b}}}}"))
    (miss, *_) = find_near_misses(table, parse_events("a"), token="y")
    assert (miss.change, miss.text, miss.output.token) == (Change.MISSING, "b", "y")


def test_only_the_newest_events_are_changed_and_counted_from_the_first() -> None:
    events = " ".join(["c"] * 300 + ["a", "b"])
    miss = first_miss("push(x) {sequential {a, b and <(object -> 'v')::int > 1>}}", events)
    assert miss is not None and miss.number == 301
