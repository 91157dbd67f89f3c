"""Random patterns and timed events for the differential tests, and two evaluators for their conditions: one that is
handed the truths, and payloads that make the language itself find them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from headrace.lang.condition import Json
from headrace.lang.ecl import Event, Output, Pattern, Status, tree as t
from headrace.lang.ecl.engine import Engine

US = 1_000_000
TYPES = ("a", "b", "c")
P, Q = "(object -> 'p')::int > 1", "(object -> 'q')::int = 2"
CONDITIONS = (P, Q)
TOKENS = ("x", "y", "z")
SECONDS = (1, 2, 3, 5)


def evaluate(condition: str, subject: object) -> bool | None:
    """Events of these tests carry the truth of each condition; what is missing is false."""
    return subject.get(condition, False) if isinstance(subject, dict) else False


def payload_of(truths: Mapping[str, bool | None]) -> dict[str, Json]:
    """A payload on which the conditions have these truths; what is missing is false, as for `evaluate`."""
    values: dict[str, dict[bool | None, Json]] = {"p": {True: 2, False: 1, None: "2"}, "q": {True: 2, False: 3, None: None}}
    return {name: values[name][truths.get(text, False)] for name, text in (("p", P), ("q", Q))}


@st.composite
def predicates(draw: st.DrawFn) -> t.Predicate:
    """Mostly event types, so that events meet; now and then conditions, literals and connectives."""
    kind = draw(st.sampled_from(("type",) * 8 + ("condition",) * 2 + ("refused", "not", "and", "or", "literal")))
    match kind:
        case "type":
            return t.EventType(draw(st.sampled_from(TYPES)))
        case "condition":
            return t.Condition(draw(st.sampled_from(CONDITIONS)))
        case "refused":
            return t.Not(t.Condition(draw(st.sampled_from(CONDITIONS))))
        case "not":
            return t.Not(draw(predicates()))
        case "literal":
            return t.Literal(draw(st.booleans()))
        case _:
            parts = (draw(predicates()), draw(predicates()))
            return t.And(parts) if kind == "and" else t.Or(parts)


_SEVERAL = (t.Accumulate, t.Select, t.SelectStar, t.Sequential, t.Sequential, t.Parallel)
_BOUNDED = (t.Repeat, t.Persist, t.Loop)


@st.composite
def expressions(draw: st.DrawFn, *, leaves: int = 6, timers: bool = True) -> t.Expr:
    """An expression of about this many leaves: the number is spent, not merely allowed."""
    token = draw(st.sampled_from((None,) * 4 + TOKENS))
    if token is not None:
        return t.Push(token, draw(_unpushed(leaves=leaves, timers=timers)))
    return draw(_unpushed(leaves=leaves, timers=timers))


@st.composite
def _unpushed(draw: st.DrawFn, *, leaves: int, timers: bool) -> t.Expr:
    def inner(count: int) -> t.Expr:
        return draw(expressions(leaves=count, timers=timers))

    unary = draw(st.sampled_from(("no",) * 12 + ("fail", "bounded", "bounded", "within")))
    if unary == "fail":
        return t.Fail(inner(leaves))
    if unary == "bounded":
        return draw(st.sampled_from(_BOUNDED))(inner(leaves), draw(st.sampled_from((None, 1, 2, 3))))
    if unary == "within" and timers:
        return t.Within(draw(st.sampled_from(SECONDS)) * US, inner(leaves))
    if leaves <= 1:
        if timers and draw(st.integers(0, 3)) == 0:
            return t.After(draw(st.sampled_from(SECONDS)) * US)
        return t.Match(draw(predicates()))
    first = draw(st.integers(1, leaves - 1))
    second = draw(st.integers(0, leaves - first - 1)) if leaves - first > 1 else 0
    counts = [count for count in (first, second, leaves - first - second) if count]
    kind = draw(st.sampled_from(("several",) * 4 + ("unless",) * 2 + ("modes",)))
    if kind == "unless":
        return t.Unless(inner(first), inner(leaves - first))
    if kind == "modes":
        return t.Modes(tuple(t.Mode(draw(predicates()), inner(count)) for count in counts))
    return draw(st.sampled_from(_SEVERAL))(tuple(inner(count) for count in counts))


@st.composite
def patterns(draw: st.DrawFn, *, max_leaves: int = 6, timers: bool = True) -> Pattern:
    """Nearly all of them push something, else there would be little to see."""
    expr = draw(expressions(leaves=draw(st.integers(1, max_leaves)), timers=timers))
    around = draw(st.sampled_from(("no", "push", "repeat")))
    if around != "no":
        expr = t.Push(draw(st.sampled_from(TOKENS)), expr)
    return Pattern(t.Repeat(expr) if around == "repeat" else expr)


def event_lists(*, max_size: int = 12) -> st.SearchStrategy[list[Event]]:
    """Gaps in half seconds, so that deadlines are met exactly, missed and passed several at a time."""
    truths = st.dictionaries(st.sampled_from(CONDITIONS), st.sampled_from([True, False, None]), max_size=2)
    steps = st.lists(
        st.tuples(st.sampled_from((*TYPES, *TYPES, "other")), st.sampled_from((0, 1, 1, 2, 2, 4, 7, 14)), truths),
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
    seen: list[tuple[tuple[Output, ...], Status, int | None]] = [((), engine.status(state), engine.next_deadline(state))]
    for event in events:
        state, outputs = engine.step(state, event)
        seen.append((outputs, engine.status(state), engine.next_deadline(state)))
    if until is not None:
        state, outputs = engine.advance(state, until)
        seen.append((outputs, engine.status(state), engine.next_deadline(state)))
    return seen
