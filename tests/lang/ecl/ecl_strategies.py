"""Random patterns and timed events for the differential tests, and the evaluator for their conditions."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from headrace.lang.ecl import Engine, Event, Output, Pattern, Status
from headrace.lang.ecl import _tree as t

US = 1_000_000
TYPES = ("a", "b", "c", "d")
CONDITIONS = ("p > 1", "q = 2")
TOKENS = ("x", "y", "z")
SECONDS = (1, 2, 3, 5)


def evaluate(condition: str, subject: object) -> bool | None:
    """Events of these tests carry the truth of each condition; what is missing is false."""
    return subject.get(condition, False) if isinstance(subject, dict) else False


def predicates() -> st.SearchStrategy[t.Predicate]:
    leaves: st.SearchStrategy[t.Predicate] = st.one_of(
        st.sampled_from([t.EventType(name) for name in TYPES]),
        st.sampled_from([t.EventType(name) for name in TYPES]),
        st.sampled_from([t.Condition(text) for text in CONDITIONS]),
        st.sampled_from([t.Literal(True), t.Literal(False)]),
    )

    def larger(inner: st.SearchStrategy[t.Predicate]) -> st.SearchStrategy[t.Predicate]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(st.builds(t.Not, inner), st.builds(t.And, several), st.builds(t.Or, several))

    return st.one_of(leaves, leaves, st.recursive(leaves, larger, max_leaves=3))


def expressions(*, max_leaves: int = 8, timers: bool = True) -> st.SearchStrategy[t.Expr]:
    matches = st.builds(t.Match, predicates())
    afters = st.sampled_from([t.After(seconds * US) for seconds in SECONDS])
    leaves: st.SearchStrategy[t.Expr] = st.one_of(matches, matches, matches, afters) if timers else matches

    def larger(inner: st.SearchStrategy[t.Expr]) -> st.SearchStrategy[t.Expr]:
        several = st.lists(inner, min_size=1, max_size=3).map(tuple)
        times = st.one_of(st.none(), st.integers(1, 3))
        modes = st.lists(st.builds(t.Mode, predicates(), inner), min_size=1, max_size=3).map(tuple)
        pushes = st.builds(t.Push, st.sampled_from(TOKENS), inner)
        options: list[st.SearchStrategy[t.Expr]] = [
            *(st.builds(kind, several) for kind in (t.Accumulate, t.Select, t.SelectStar, t.Sequential, t.Parallel)),
            st.builds(t.Unless, inner, inner),
            st.builds(t.Fail, inner),
            *(st.builds(kind, inner, times) for kind in (t.Repeat, t.Persist, t.Loop)),
            st.builds(t.Modes, modes),
            *(pushes,) * 4,
        ]
        if timers:
            options.append(st.builds(t.Within, st.sampled_from([s * US for s in SECONDS]), inner))
        return st.one_of(options)

    return st.recursive(leaves, larger, max_leaves=max_leaves)


def patterns(*, max_leaves: int = 8, timers: bool = True) -> st.SearchStrategy[Pattern]:
    """Nearly all of them push something, else there would be little to see."""
    pushed = st.builds(t.Push, st.sampled_from(TOKENS), expressions(max_leaves=max_leaves, timers=timers))
    return st.one_of(pushed, st.builds(t.Repeat, pushed), expressions(max_leaves=max_leaves, timers=timers)).map(
        Pattern
    )


def event_lists(*, max_size: int = 12) -> st.SearchStrategy[list[Event]]:
    """Gaps in half seconds, so that deadlines are met exactly, missed and passed several at a time."""
    truths = st.dictionaries(st.sampled_from(CONDITIONS), st.sampled_from([True, False, None]), max_size=2)
    steps = st.lists(
        st.tuples(st.sampled_from((*TYPES, "other")), st.sampled_from((0, 1, 1, 2, 2, 4, 7, 14)), truths),
        max_size=max_size,
    )

    def timed(drawn: list[tuple[str, int, dict[str, bool | None]]]) -> list[Event]:
        events: list[Event] = []
        now = 0
        for type_, gap, subject in drawn:
            now += gap * US // 2
            events.append(Event(type_, now, subject))
        return events

    return steps.map(timed)


def observed(
    engine: Engine, events: Sequence[Event], *, until: int | None = None
) -> list[tuple[tuple[Output, ...], Status, int | None]]:
    """What can be seen of an engine: after each event its outputs, status and next deadline; then a long silence."""
    state = engine.start(events[0].time if events else 0)
    seen: list[tuple[tuple[Output, ...], Status, int | None]] = [
        ((), engine.status(state), engine.next_deadline(state))
    ]
    for event in events:
        state, outputs = engine.step(state, event)
        seen.append((outputs, engine.status(state), engine.next_deadline(state)))
    if until is not None:
        state, outputs = engine.advance(state, until)
        seen.append((outputs, engine.status(state), engine.next_deadline(state)))
    return seen
