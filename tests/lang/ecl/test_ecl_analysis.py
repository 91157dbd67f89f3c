"""Analyses: known answers, witnesses that engines confirm, and agreement with brute force on random patterns."""

from __future__ import annotations

from itertools import product

import pytest
from ecl_strategies import US, P, Q, evaluate, event_lists, patterns
from hypothesis import HealthCheck, assume, given, settings

from headrace.lang.ecl import (
    Event,
    Interpreter,
    Pattern,
    Relation,
    StateLimitExceeded,
    StateMapping,
    Status,
    TableState,
    Trace,
    compare,
    compile,
    dependencies,
    equivalent_states,
    liveness,
    overlapping_guards,
    parse,
    print_pattern,
    shortest_to_output,
    start_state,
    triviality,
    vacuity,
    waits_for,
)
from headrace.lang.ecl.space import Space
from headrace.lang.ecl.table import TableEngine, classify, run_step

NORMAL = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def last_outputs(pattern: Pattern, trace: Trace) -> tuple[str, ...]:
    """What the interpreter pushes on the last step of a trace."""
    engine = Interpreter(pattern, evaluator=evaluate)
    state = engine.start(trace.steps[0].time)
    outputs = ()
    for step in trace.steps:
        if step.type is None:
            state, outputs = engine.advance(state, step.time)
        else:
            state, fired = engine.advance(state, step.time)
            assert fired == (), "a timer came before the event; the witness should have said so"
            state, outputs = engine.step(state, Event(step.type, step.time, dict(step.truths)))
    return tuple(output.token for output in outputs)


def test_vacuous_pattern_is_found() -> None:
    assert vacuity(compile(parse("push(x){a and b}"))).vacuous
    assert vacuity(compile(parse("push(x){within 5 s{after 6 s}}"))).vacuous
    assert not vacuity(compile(parse("push(x){within 5 s{after 5 s}}"))).vacuous


def test_time_that_passes_between_events_is_counted() -> None:
    """a must come before the timer of 5 s, and so late that the 3 s it starts are not over sooner."""
    body = "accumulate{do{a}unless{after 5 s},after 5 s}"
    text = f"push(x){{sequential{{b,do{{{body}}}unless{{sequential{{a,after 3 s}}}}}}}}"
    vacuous = vacuity(compile(parse(text)))
    assert vacuous.witness is not None
    b, a, timer = vacuous.witness.steps
    assert (b.type, a.type, timer.type) == ("b", "a", None)
    assert 2 * US <= a.time - b.time < 5 * US
    assert timer.time - b.time == 5 * US
    assert last_outputs(parse(text), vacuous.witness) == ("x",)


def test_vacuity_comes_with_the_shortest_way_to_an_output() -> None:
    witness = vacuity(compile(parse("push(x){select{sequential{a,b,c},sequential{d,d}}}"))).witness
    assert str(witness) == "d, d → x"


def test_trivial_pattern_is_found() -> None:
    assert triviality(compile(parse("repeat{push(x){true}}"))).trivial
    assert triviality(compile(parse("parallel{repeat{push(x){a}},repeat{push(y){not a}}}"))).trivial
    trivial = triviality(compile(parse("repeat{push(x){not a}}")))
    assert not trivial.trivial
    assert str(trivial.witness) == "a"


@pytest.mark.parametrize(
    ("text", "trap", "status"),
    [
        ("push(x){do{sequential{a,a}}unless{b}}", "b", Status.FAILURE),
        ("push(x){a}", "a → x", Status.SUCCESS),
        ("sequential{a,do{repeat{push(x){b}}}unless{c},d}", "a, c", Status.FAILURE),
        ("parallel{push(x){a}}", "a → x", Status.WAITING),
        ("push(x){accumulate{a,parallel{b}}}", "(from the start)", Status.WAITING),
        ("push(x){select{a,parallel{b}}}", "a → x", Status.SUCCESS),
        ("push(x){within 5 s{a}}", "a → x", Status.SUCCESS),
        ("push(x){fail{within 5 s{a}}}", "a", Status.FAILURE),
    ],
)
def test_trap_is_named_with_the_way_into_it(text: str, trap: str, status: Status) -> None:
    live = liveness(compile(parse(text)))
    assert not live.live
    assert (str(live.trap), live.status) == (trap, status)


@pytest.mark.parametrize(
    "text",
    [
        "repeat{push(x){do{sequential{a,a}}unless{b}}}",
        "in(a)do{repeat{push(x){b}}} in(c)do{repeat{d}}",
        "repeat{push(x){fail{within 5 s{a}}}}",
    ],
)
def test_live_pattern_has_no_trap(text: str) -> None:
    assert liveness(compile(parse(text))).live


def test_one_live_branch_keeps_a_parallel_alive() -> None:
    assert liveness(compile(parse("parallel{push(x){a},repeat{push(y){b}}}"))).live
    assert not liveness(compile(parse("parallel{push(x){a},push(y){b}}"))).live


def test_dependencies_per_token() -> None:
    table = compile(parse("parallel{repeat{push(x){sequential{a,b}}},repeat{push(y){c}}}"))
    by_token = {dependency.token: dependency for dependency in dependencies(table)}
    assert by_token["x"].types == ("a", "b")
    assert by_token["y"].predicates == ("c",)
    assert not by_token["y"].any_type


def test_dependency_leaves_out_what_cannot_matter() -> None:
    (found,) = dependencies(compile(parse("repeat{push(x){do{a}unless{do{b}unless{b}}}}")))
    # b stops the body, but the round that begins then is the same again.
    assert found.types == ("a",)
    (found,) = dependencies(compile(parse("repeat{push(x){select{a,a and b}}}")))
    assert found.types == ("a",)
    (found,) = dependencies(compile(parse("repeat{push(x){sequential{a,fail{within 5 s{b}}}}}")))
    assert found.timers


def test_overlapping_guards_are_shown_by_an_event() -> None:
    overlaps = overlapping_guards(parse(f"in(a)do{{a}} in(b or c)do{{a}} in(c and <{P}>)do{{a}}"))
    assert [(overlap.first, overlap.second, overlap.decides) for overlap in overlaps] == [("b or c", f"c and <{P}>", True)]
    assert str(overlaps[0].witness) == f"c and <{P}>"
    assert overlapping_guards(parse("in(a)do{a} in(b)do{a} in(not (a or b))do{a}")) == ()


def test_state_says_what_it_waits_for() -> None:
    table = compile(parse("repeat{push(x){within 10 s{sequential{a,b}}}}"))
    state = start_state(table, 0)
    assert waits_for(table, state).types == ("a",)
    state, _ = run_step(table, state, classify(table, Event("a", 0)), 0)
    waits = waits_for(table, state)
    assert (waits.types, waits.any_type, waits.deadlines) == (("b",), False, (10 * US,))
    assert str(shortest_to_output(table, state, now=0)) == "b → x"


def test_shortest_way_knows_the_time_left() -> None:
    table = compile(parse("parallel{repeat{push(x){after 10 s}},repeat{push(y){sequential{a,a,a}}}}"))
    state = start_state(table, 0)
    assert str(shortest_to_output(table, state, now=0)) == "(timer at 10 s) → x"
    assert str(shortest_to_output(table, state, now=4 * US)) == "(timer at 6 s) → x"
    assert shortest_to_output(table, state, now=0, token="y") is not None
    assert shortest_to_output(table, state, now=0, token="nothing") is None


def test_analysis_has_a_limit() -> None:
    with pytest.raises(StateLimitExceeded, match="allowed are 100"):
        vacuity(compile(parse("push(x){loop(1000){a}}")), limit=100)


def test_analysis_has_a_limit_of_steps() -> None:
    # Nineteen configurations, each with a class of events for every branch.
    branches = ",".join(f"repeat{{push(x){{a{n}}}}}" for n in range(60))
    table = compile(parse(f"parallel{{{branches},loop(18){{b}}}}"))
    with pytest.raises(StateLimitExceeded, match="at least 1001 steps, allowed are 1000"):
        list(Space([table], limit=20).walk())


@pytest.mark.parametrize(
    ("a", "b", "relation"),
    [
        ("push(x){a or b}", "push(x){select{a,b}}", Relation.EQUIVALENT),
        ("push(x){within 5 s{a}}", "push(x){do{a}unless{after 5 s}}", Relation.EQUIVALENT),
        ("push(x){sequential{after 5 s,after 5 s}}", "push(x){after 10 s}", Relation.EQUIVALENT),
        ("push(x){a}", "parallel{push(x){a}}", Relation.EQUIVALENT),
        ("push(x){loop(2){loop(3){a}}}", "push(x){loop(6){a}}", Relation.EQUIVALENT),
        ("push(x){select{after 5 s,after 7 s}}", "push(x){after 5 s}", Relation.EQUIVALENT),
        ("repeat{push(x){a or b}}", "repeat{push(x){a}}", Relation.A_CONTAINS_B),
        ("push(x){within 5 s{a}}", "push(x){within 7 s{a}}", Relation.B_CONTAINS_A),
        ("repeat{push(x){a}}", "repeat{push(x){b}}", Relation.DIFFERENT),
        ("push(y){push(x){a}}", "push(x){push(y){a}}", Relation.DIFFERENT),
        (f"repeat{{push(x){{<{P}>}}}}", f"repeat{{push(x){{not not <{P}>}}}}", Relation.EQUIVALENT),
        ("repeat{push(x){true}}", f"repeat{{push(x){{<{P}> or not <{P}>}}}}", Relation.A_CONTAINS_B),
    ],
)
def test_comparison(a: str, b: str, relation: Relation) -> None:
    assert compare(parse(a), parse(b)).relation is relation


def brute_force(a: Pattern, b: Pattern) -> tuple[bool, bool]:
    """Whether a, or b, pushes something the other does not, on any of many short timed sequences."""
    only_a = only_b = False
    truths = [{}, {P: True, Q: None}, {P: None, Q: True}]
    letters = [(type_, {}) for type_ in "abcd"] + [("other", truth) for truth in truths]
    for gaps in ((0, 0, 0), (1, 1, 1), (0, 2, 5)):
        for word in product(letters, repeat=3):
            engines = [Interpreter(pattern, evaluator=evaluate) for pattern in (a, b)]
            states = [engine.start(0) for engine in engines]
            now = 0
            for (type_, truth), gap in zip(word, gaps, strict=True):
                now += gap * US
                results = [engine.step(s, Event(type_, now, truth)) for engine, s in zip(engines, states, strict=True)]
                states = [state for state, _ in results]
                left, right = (sorted((o.time, o.token) for o in outputs) for _, outputs in results)
                only_a |= any(left.count(output) > right.count(output) for output in left)
                only_b |= any(right.count(output) > left.count(output) for output in right)
    return only_a, only_b


@given(patterns(max_leaves=3), patterns(max_leaves=3))
@settings(NORMAL, max_examples=15)
def test_comparison_agrees_with_brute_force(a: Pattern, b: Pattern) -> None:
    comparison = compare(a, b)
    only_a, only_b = brute_force(a, b)
    texts = print_pattern(a), print_pattern(b)
    assert not (only_a and comparison.only_a is None), texts
    assert not (only_b and comparison.only_b is None), texts
    for trace in (comparison.difference, comparison.only_a, comparison.only_b):
        if trace is not None:
            assert last_outputs(a, trace) != last_outputs(b, trace), texts
    if comparison.difference is not None:
        assert last_outputs(a, comparison.difference) == comparison.outputs_a
        assert last_outputs(b, comparison.difference) == comparison.outputs_b


@given(patterns(max_leaves=4))
@settings(NORMAL, max_examples=40)
def test_pattern_is_equivalent_to_itself_unminimised(pattern: Pattern) -> None:
    try:
        comparison = compare(compile(pattern), compile(pattern, minimised=False), limit=60)
    except StateLimitExceeded:
        assume(False)
    assert comparison.relation is Relation.EQUIVALENT
    assert comparison.status_difference is None


@given(patterns(max_leaves=4), event_lists())
@NORMAL
def test_vacuity_and_triviality_agree_with_the_interpreter(pattern: Pattern, events: list[Event]) -> None:
    table = compile(pattern)
    try:
        vacuous, trivial = vacuity(table, limit=300), triviality(table, limit=300)
    except StateLimitExceeded:
        assume(False)
    if vacuous.witness is not None:
        assert last_outputs(pattern, vacuous.witness)
    if trivial.witness is not None:
        assert not last_outputs(pattern, trivial.witness)
    engine = Interpreter(pattern, evaluator=evaluate)
    state = engine.start(events[0].time if events else 0)
    for event in events:
        state, fired = engine.advance(state, event.time)
        state, outputs = engine.step(state, event)
        assert not (vacuous.vacuous and (fired or outputs))
        assert outputs or not trivial.trivial


@given(patterns(max_leaves=4), event_lists())
@NORMAL
def test_trap_never_outputs_again(pattern: Pattern, events: list[Event]) -> None:
    try:
        live = liveness(compile(pattern), limit=300)
    except StateLimitExceeded:
        assume(False)
    assume(live.trap is not None and live.trap.steps)
    assert live.trap is not None
    engine = Interpreter(pattern, evaluator=evaluate)
    state = engine.start(live.trap.steps[0].time)
    for event in live.trap.events:
        state, _ = engine.step(state, event)
    state, _ = engine.advance(state, live.trap.end)
    assert engine.status(state) is live.status
    for event in events:
        state, outputs = engine.step(state, Event(event.type, event.time + live.trap.end, event.subject))
        assert outputs == ()


@given(patterns(), event_lists(max_size=8))
@NORMAL
def test_what_is_not_waited_for_changes_nothing(pattern: Pattern, events: list[Event]) -> None:
    table = compile(pattern)
    engine = TableEngine(table, evaluator=evaluate)
    state = engine.start(events[0].time if events else 0)
    for event in events:
        state, _ = engine.advance(state, event.time)
        waits = waits_for(table, state)
        after, outputs = engine.step(state, event)
        named = {type_ for alphabet in table.alphabets for type_ in alphabet.types}
        if event.type not in waits.types and not (waits.any_type and event.type not in named):
            assert (after, outputs) == (state, ())
        state = after


def map_state(mapping: StateMapping, state: TableState) -> TableState | None:
    """The state in the new table, or None where no equivalent is proved and the key starts afresh."""
    units = mapping.units.get(state.units)
    if units is None:
        return None
    return TableState(units, tuple(None if timer is None else state.deadlines[timer] for timer in mapping.timers))


def related(pattern: Pattern, other: Pattern) -> list[tuple[Pattern, Pattern]]:
    return [(pattern, pattern), (pattern, Pattern(parse(f"repeat{{{print_pattern(pattern)}}}").expr)), (pattern, other)]


@given(patterns(max_leaves=3), patterns(max_leaves=3), event_lists(max_size=6), event_lists(max_size=8))
@settings(NORMAL, max_examples=60)
def test_mapped_state_answers_as_the_old_one_would(
    pattern: Pattern, other: Pattern, before: list[Event], after: list[Event]
) -> None:
    for old, new in related(pattern, other):
        old_table, new_table = compile(old), compile(new)
        try:
            mapping = equivalent_states(old_table, new_table, limit=300)
        except StateLimitExceeded:
            continue
        engines = TableEngine(old_table, evaluator=evaluate), TableEngine(new_table, evaluator=evaluate)
        state = engines[0].start(0)
        for event in before:
            state, _ = engines[0].step(state, event)
        mapped = map_state(mapping, state)
        if old is new:
            assert mapped == state
        if mapped is None:
            continue
        now = before[-1].time if before else 0
        for event in after:
            later = Event(event.type, event.time + now, event.subject)
            state, expected = engines[0].step(state, later)
            mapped, outputs = engines[1].step(mapped, later)
            assert outputs == expected
            assert engines[0].status(state) is engines[1].status(mapped)


def test_timer_of_another_duration_is_not_mapped() -> None:
    old, new = compile(parse("repeat{push(x){after 5 s}}")), compile(parse("repeat{push(x){after 7 s}}"))
    assert equivalent_states(old, new).units == {}
    swapped = compile(parse("parallel{repeat{push(y){sequential{a,after 7 s}}},repeat{push(x){after 5 s}}}"))
    mapping = equivalent_states(compile(parse("parallel{repeat{push(x){after 5 s}}}")), swapped)
    assert mapping.timers == (None, 0)


def test_states_of_an_unchanged_branch_are_mapped() -> None:
    old = compile(parse("repeat{push(x){sequential{a,b,c}}}"))
    new = compile(parse("repeat{push(x){sequential{a,sequential{b,c}}}}"))
    assert equivalent_states(old, new).units == {(0,): (0,), (1,): (1,), (2,): (2,)}
    changed = compile(parse("repeat{push(x){sequential{a,b,d}}}"))
    assert equivalent_states(old, changed).units == {}
