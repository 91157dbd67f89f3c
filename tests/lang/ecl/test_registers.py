"""Captures, labels, counts, chains and instances per start: one meaning on every engine of this room."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import pytest
from tests.lang.ecl.oracles import facts_of
from tests.lang.ecl.register_patterns import SECOND, make_case

from headrace.lang.condition import Sample
from headrace.lang.ecl import (
    Event,
    Output,
    Pattern,
    PatternError,
    StateLimitExceeded,
    TableState,
    compare,
    compile,
    describe_relation,
    equivalent_states,
    from_json,
    make_batch,
    parse,
    print_pattern,
    register_stepping,
    run_events,
    table_engine,
    to_json,
    vacuity,
)
from headrace.lang.ecl.corpus import parse_events
from headrace.lang.ecl.engine import Engine
from headrace.lang.ecl.interpreter import interpreter_of
from headrace.lang.ecl.table import TableEngine

SILENCE = 20 * SECOND
AMOUNT = "capture amount = (object -> 'amount')::numeric; "


def run(engine: Engine[object], events: Sequence[Event]) -> list[tuple[Output, ...]]:
    state, outputs = engine.start(events[0].time), []
    for event in events:
        state, pushed = engine.step(state, event)
        outputs.append(pushed)
    return [*outputs, engine.advance(state, events[-1].time + SILENCE)[1]]


def run_stored(pattern: Pattern, events: Sequence[Event]) -> list[tuple[Output, ...]]:
    """Every event in a batch of its own, with the instance stored and loaded in between."""
    table = from_json(to_json(compile(pattern)))
    assert table.program is not None
    stored, outputs = None, []
    for position, event in enumerate([*events, None]):
        batch = make_batch(table, 100)
        if stored is not None:
            batch.load([stored])
        if event is None:
            assert batch.tick("k", events[-1].time + SILENCE)
        else:
            assert batch.step("k", position, (), event.time, facts_of(table.program, event))
        places = [(output.position, output.time, output.place) for output in batch.outputs]
        assert len(set(places)) == len(places)
        stored = batch.pop("k")
        outputs.append(tuple(Output(output.token, output.time) for output in batch.outputs))
    return outputs


def check_seeds(seeds: range) -> tuple[int, int]:
    """The three ways of running a pattern give the same outputs; returns how many patterns have registers, and all outputs."""
    patterns = outputs = 0
    for seed in seeds:
        pattern, events = make_case(seed)
        assert parse(print_pattern(pattern)) == pattern
        try:
            table = compile(pattern)
        except StateLimitExceeded:
            continue
        expected = run(interpreter_of(pattern), events)
        assert run(table_engine(table), events) == expected, f"seed {seed}: {print_pattern(pattern)}"
        if table.registers is not None:
            assert run_stored(pattern, events) == expected, f"seed {seed}: {print_pattern(pattern)}"
            patterns += 1
        outputs += sum(map(len, expected))
    return patterns, outputs


def test_random_patterns_have_one_meaning() -> None:
    patterns, outputs = check_seeds(range(80))
    assert patterns >= 70 and outputs > 150


@pytest.mark.parametrize("pair", ["<amount > t.amount> or not <amount > t.amount>", "<t.amount > 1> or <t.amount <= 1>"])
def test_condition_over_registers_that_is_unknown_is_not_taken_for_true_or_false(pair: str) -> None:
    """Whichever it were, the pair would hold; and in most states neither matters."""
    pattern = parse(f"{AMOUNT}repeat {{push(x) {{do {{sequential {{a as t, b and ({pair}), c}}}} unless {{d}}}}}}")
    unknown, known = (
        '["b", 0], ["a", 1], ["b", 2], ["c", 3], ["d", 4]',
        '["a", 5, {"amount": 1}], ["b", 6, {"amount": 7}], ["c", 7]',
    )
    events = parse_events(f"[{unknown}, {known}]")
    expected = run(interpreter_of(pattern), events)
    assert [len(outputs) for outputs in expected] == [0, 0, 0, 0, 0, 0, 0, 1, 0]
    assert run(table_engine(compile(pattern)), events) == expected
    assert run_stored(pattern, events) == expected


def test_short_batches_do_not_find_out_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is room a node steps one event per batch."""
    table = compile(parse(f"{AMOUNT}repeat {{push(x) {{sequential {{a as t, b and <amount > t.amount>}}}}}}"))
    assert table.program is not None
    calls: list[object] = []
    classify = register_stepping.classify
    monkeypatch.setattr(register_stepping, "classify", lambda *given: calls.append(given) or classify(*given))
    counts = []
    for position in range(20):
        batch = make_batch(table, 100)
        event = Event("abc"[position % 3], position, Sample({"amount": 1}, "abc"[position % 3]))
        assert batch.step("k", position, (), position, facts_of(table.program, event))
        counts.append(len(calls))
    assert counts[3] == counts[-1] > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_random_patterns_have_one_meaning() -> None:
    patterns, outputs = check_seeds(range(1_000, 11_600))
    assert patterns >= 10_000 and outputs > 25_000


def changed_pattern(pattern: Pattern, random: Random) -> Pattern | None:
    """The same pattern with another event type or number in one place; None if that is no pattern."""
    text = print_pattern(pattern)
    start = text.rindex(";") + 1
    places = [match for match in re.finditer(r"\b[abc]\b|\b[0-5]\b", text) if match.start() >= start]
    place = random.choice(places)
    letter = random.choice("abc" if place.group() in "abc" else "12345")
    try:
        return parse(text[: place.start()] + letter + text[place.end() :])
    except PatternError:
        return None


def check_carried(seeds: range) -> tuple[int, int]:
    """A mapped state with its registers answers as the old one would; returns how many were mapped, and how many not."""
    mapped = restarted = 0
    for seed in seeds:
        pattern, events = make_case(seed)
        new = changed_pattern(pattern, Random(seed))
        if new is None or pattern.each:
            continue
        try:
            tables = compile(pattern), compile(new)
            mapping = equivalent_states(*tables, limit=300)
        except StateLimitExceeded:
            continue
        engines = TableEngine(tables[0]), TableEngine(tables[1])
        state = engines[0].start(events[0].time)
        for event in events[:12]:
            state, _ = engines[0].step(state, event)
        units = mapping.units.get(state.units)
        if units is None:
            restarted += 1
            continue
        mapped += 1
        deadlines = tuple(None if timer is None else state.deadlines[timer] for timer in mapping.timers)
        other = TableState(units, deadlines, state.memory)
        for event in events[12:]:
            state, expected = engines[0].step(state, event)
            other, outputs = engines[1].step(other, event)
            assert (outputs, other.memory) == (expected, state.memory), (
                f"seed {seed}: {print_pattern(pattern)} → {print_pattern(new)}"
            )
    return mapped, restarted


def test_mapped_state_with_registers_answers_as_the_old_one_would() -> None:
    mapped, restarted = check_carried(range(150))
    assert mapped > 20 and restarted > 20


BEFORE = AMOUNT + "repeat {push(x) {sequential {a as t, b and <amount > t.amount>, c}}}"


@pytest.mark.parametrize(
    ("after", "carried"),
    [
        (AMOUNT + "repeat {push(x) {sequential {a as t, sequential {b and <amount > t.amount>, c}}}}", 3),
        (AMOUNT + "define more = b and <amount > t.amount>; repeat {push(x) {sequential {a as t, more, c}}}", 3),
        # One step that differs makes every state of a `repeat` another one.
        (AMOUNT + "repeat {push(x) {sequential {a as t, b and <amount > t.amount>, d}}}", 0),
        (AMOUNT + "repeat {push(x) {sequential {a as t, b and <amount >= t.amount>, c}}}", 0),
        (AMOUNT + "repeat {push(x) {sequential {a, b as t, c and <amount > t.amount>}}}", 0),
        (BEFORE.replace("numeric", "bigint"), 0),
        (BEFORE.replace("'amount'", "'price'"), 0),
        (BEFORE.replace("amount =", "sum =").replace("<amount > t.amount>", "<sum > t.sum>"), 0),
        (BEFORE.replace("as t", "as u").replace("t.amount", "u.amount"), 0),
        ("capture n = (object -> 'n')::int; " + BEFORE, 0),
        (BEFORE.replace("repeat {push", "each {push"), 0),
    ],
)
def test_only_what_is_provably_equal_is_carried_over(after: str, carried: int) -> None:
    old, new = compile(parse(BEFORE)), compile(parse(after))
    assert len(equivalent_states(old, new).units) == carried


def test_last_steps_are_carried_over_when_an_earlier_one_changes() -> None:
    """A pattern that completes: whoever has passed the changed step goes on, with what was kept before it."""
    old, new = (compile(parse(BEFORE.replace("repeat {", "").replace("a as t", f"{first} as t")[:-1])) for first in ("a", "d"))
    mapping = equivalent_states(old, new)
    assert mapping.units.keys() == {(1,), (2,), (3,)}
    loops = "capture v = (object -> 'v')::int; push(x) {sequential {loop(%s) as l {a}, b and <v > l.%s(v)>, c}}"
    two, three, other = (compile(parse(loops % what)) for what in (("2", "sum"), ("3", "sum"), ("2", "max")))
    # Whoever has two rounds to go under the old pattern has two to go under the new one.
    assert equivalent_states(two, three).units == {(n,): (n + 1,) for n in range(5)}
    # What remains after the changed condition: waiting for c, and success.
    assert equivalent_states(two, other).units == {(3,): (3,), (4,): (4,)}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("push(x) {sequential {a as t, <t.amount > 3>}}", "unknown capture amount; the captures of this pattern are: none"),
        (AMOUNT + "sequential {a as t, <t.amunt > 3>}", "unknown capture amunt; the captures of this pattern are: amount"),
        (AMOUNT + "sequential {a as t, <u.amount > 3>}", "unknown label u; the labels of this pattern are: t"),
        (AMOUNT + "sequential {a as t, <t.sum(amount) > 3>}", "t is the label of one event: write t.amount"),
        (AMOUNT + "sequential {loop(2) as l {a}, <l.amount > 3>}", "l is the label of a loop: write l.count, or l.last(capture)"),
        ("capture n = object ->> 'n'; sequential {loop(2) as l {a}, <l.sum(n) > 3>}", "l.sum(n) needs a number; n is text"),
        ("sequential {a as t, b as t}", "the label t is used twice"),
        ("capture a = 5 + 1; b", "the capture reads nothing of the event"),
        ("capture key = object ->> 'k'; b", "key has a meaning of its own"),
        ("capture a = object -> 'k'; b", "a JSON value cannot be used as it is"),
        ("sequential {next b}", "`next` needs a predicate before it"),
        ("sequential {repeat {a}, next b}", "`next` needs a predicate before it"),
        (AMOUNT + "sequential {a as t, next b, next <t.amount > 3>}", "only the step right after `as t` can read t"),
        ("count(1001, 5 s) {a}", "count(1001, …) keeps 1001 times per key, allowed are 1000"),
        ("each(5000) {a}", "each(5000) runs up to 5000 instances per key, allowed are 1000"),
        ("sequential {a, next b, next c, next d, next e, next f, next g, next h, next i}", "more than 8 events in a row"),
    ],
)
def test_mistake_is_named_with_what_to_write(text: str, problem: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse(text)
    assert problem in str(caught.value)


def test_output_carries_what_was_captured() -> None:
    pattern = parse(AMOUNT + "push(x) {sequential {loop(2) as l {t}, t and <amount > l.max(amount)> as big}}")
    table = compile(pattern)
    assert table.program is not None
    batch = make_batch(table, 100)
    for position, event in enumerate(
        parse_events('[["t", 0, {"amount": 5.50}], ["t", 1, {"amount": 7}], ["t", 2, {"amount": 8}]]')
    ):
        assert batch.step("k", position, (), event.time, facts_of(table.program, event))
    (output,) = batch.outputs
    assert output.values is not None
    assert output.values.startswith('{"big.amount":8,"l.count":2,"l.first(amount)":5.5,"l.last(amount)":7,"l.sum(amount)":12.5')


def test_output_shows_moments_as_texts() -> None:
    table = compile(parse("capture at = (object ->> 'at')::timestamptz; push(x) {loop(1) as l {a as t}}"))
    assert table.program is not None
    batch = make_batch(table, 100)
    (event,) = parse_events('[["a", 0, {"at": "2026-01-01T01:00:00.25+01:00"}]]')
    assert batch.step("k", 1, (), event.time, facts_of(table.program, event))
    assert '"t.at":"2026-01-01T00:00:00.250000Z"' in str(batch.outputs[0].values)


def test_long_text_is_kept_as_null_so_that_an_instance_stays_small() -> None:
    pattern = parse("capture s = object ->> 's'; sequential {a as t, push(x) {b and <t.s is null>}}")
    events = parse_events(f'[["a", 0, {{"s": "{"x" * 1001}"}}], ["b", 1]]')
    assert [step.outputs for step in run_events(pattern, events)][1][0].token == "x"


def test_run_shows_the_registers_of_every_instance() -> None:
    steps = run_events(
        parse(AMOUNT + "each {sequential {a as t, b}}"), parse_events('[["a", 0, {"amount": 1}], ["a", 1, {"amount": 2}]]')
    )
    assert steps[-1].captured == ({"t.amount": 1}, {"t.amount": 2})


def test_only_the_same_table_is_called_equivalent() -> None:
    a, same, other = (parse(f"repeat {{push(x) {{count({n}, 5 s) {{a}}}}}}") for n in (3, 3, 4))
    assert compare(a, same).relation == "equivalent"
    with pytest.raises(PatternError, match="not decided for patterns that keep values: their captures, labels or counts differ"):
        compare(a, other)


TWICE = "push(x) {sequential {a as t, b and <amount > 2 * t.amount>%s}}"
PREVIOUS = "parallel {repeat {a as last}, repeat {push(x) {a and <amount > 2 * last.amount>%s}}}"


@pytest.mark.parametrize(
    ("before", "after", "meaning"),
    [
        (PREVIOUS % "", PREVIOUS % " and a", "equivalent"),
        (PREVIOUS % "", PREVIOUS % " and <amount > 100>", "nothing new, perhaps stricter: perhaps no longer on a and "),
        (PREVIOUS % " or b", PREVIOUS % "", "nothing new, perhaps stricter: perhaps no longer on b → x"),
        (PREVIOUS % "", PREVIOUS % " or b", "nothing is lost, perhaps looser: perhaps also on b"),
    ],
)
def test_patterns_that_keep_the_same_values_are_compared(before: str, after: str, meaning: str) -> None:
    assert describe_relation(compare(parse(AMOUNT + before), parse(AMOUNT + after))).startswith(meaning)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (TWICE % "", (TWICE % "").replace("2 *", "3 *"), "the first possible difference is on a, b and "),
        (TWICE % "", (TWICE % "").replace("a as", "c as"), "they keep different values, first on a"),
        (f"repeat {{{TWICE % ''}}}", f"repeat {{{TWICE % ' or c'}}}", "they keep different values, first on a, c, a"),
        (
            "each {sequential {push(x) {a as t}, b}}",
            "each {sequential {push(x) {a as t}, c}}",
            "only one of them ends an instance on a",
        ),
    ],
)
def test_comparison_that_is_not_decided_says_why(before: str, after: str, reason: str) -> None:
    with pytest.raises(PatternError, match=f"not decided for patterns that keep values: {reason}"):
        compare(parse(AMOUNT + before), parse(AMOUNT + after))


def test_analysis_treats_conditions_over_registers_as_free() -> None:
    assert vacuity(compile(parse(AMOUNT + "push(x) {sequential {a as t, b and <amount > t.amount>}}"))) is not None


def test_pattern_without_registers_has_none() -> None:
    assert compile(parse("push(x) {sequential {a, next b}}")).registers is None
    assert compile(parse("push(x) {sequential {a, next b}}")).simple
