"""Captures, labels, counts, chains and instances per start: one meaning on every engine of this room."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.lang.ecl.register_patterns import SECOND, make_case

from headrace.lang.ecl import (
    Event,
    Output,
    Pattern,
    PatternError,
    StateLimitExceeded,
    compare,
    compile,
    from_json,
    make_batch,
    parse,
    print_pattern,
    run_events,
    table_engine,
    to_json,
    vacuity,
)
from headrace.lang.ecl.each import interpreter_of
from headrace.lang.ecl.events import Engine
from headrace.lang.ecl.register_stepping import facts_of
from headrace.lang.ecl.running import parse_events

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


def check_seeds(seeds: range) -> int:
    """The three ways of running a pattern give the same outputs; returns how many there were."""
    outputs = 0
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
        outputs += sum(map(len, expected))
    return outputs


def test_random_patterns_have_one_meaning() -> None:
    assert check_seeds(range(80)) > 200


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_random_patterns_have_one_meaning() -> None:
    assert check_seeds(range(80, 10_080)) > 30_000


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
    with pytest.raises(PatternError, match="compared only if they compile to the same table"):
        compare(a, other)


def test_analysis_treats_conditions_over_registers_as_free() -> None:
    assert vacuity(compile(parse(AMOUNT + "push(x) {sequential {a as t, b and <amount > t.amount>}}"))) is not None


def test_pattern_without_registers_has_none() -> None:
    assert compile(parse("push(x) {sequential {a, next b}}")).registers is None
    assert compile(parse("push(x) {sequential {a, next b}}")).simple
