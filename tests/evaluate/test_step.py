"""Stepping Arrow rows gives what the table's own function gives: outputs, evidence, states, however the rows are cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from headrace.evaluate import automaton_run, kernel
from headrace.evaluate.automaton_run import ProductRun
from headrace.evaluate.rows import STATE_SCHEMA, Rows
from headrace.evaluate.stepping import make_run, step
from headrace.evaluate.table_run import TableRun
from headrace.lang.ecl import (
    Event,
    Pattern,
    ProductAutomaton,
    Table,
    TableState,
    TimerFlood,
    compile,
    compiler as compile_module,
    next_deadline,
    parse,
    start_state,
)
from headrace.lang.ecl.table import advance_state, classify, run_step
from tests.examples import examples
from tests.lang.ecl.ecl_strategies import US, evaluate, event_lists, patterns
from tests.lang.ecl.oracles import changes

Keyed = list[tuple[str, Event]]
OutputRows = list[tuple[object, ...]]
EVIDENCE_MAX = 3
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
keyed_events = st.lists(event_lists(max_size=8), min_size=1, max_size=4)


def interleaved(sequences: Sequence[Sequence[Event]]) -> Keyed:
    """The events of several keys in the order of time."""
    rows = [(str(key), event) for key, events in enumerate(sequences) for event in events]
    return sorted(rows, key=lambda row: row[1].time)


def rows_of(table: Table, events: Keyed, first: int = 0) -> pa.Table:
    symbols = [classify(table, event, evaluate) for _, event in events]
    columns = {
        "key": pa.array([key for key, _ in events], pa.string()),
        "offset": pa.array(range(first, first + len(events)), pa.int64()),
        "time": pa.array([event.time for _, event in events], pa.int64()),
        "event_id": pa.array([f"e{n}" for n in range(first, first + len(events))], pa.string()),
    }
    for number in range(len(table.alphabets)):
        columns["symbol" + (str(number) if number else "")] = pa.array([row[number] for row in symbols], pa.int32())
    return pa.table(columns)


class Reference:
    """The database's own way of keeping evidence, over the table's pure function."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.states: dict[str, TableState] = {}
        self.evidence: dict[str, list[int]] = {}
        self.outputs: OutputRows = []

    def take(self, key: str, offset: int, event: Event) -> None:
        self.states.setdefault(key, start_state(self.table, event.time))
        self.evidence.setdefault(key, [])
        self.advance(key, event.time)
        symbols = classify(self.table, event, evaluate)
        if changes(self.table, self.states[key], symbols):
            self.evidence[key].append(offset)
            self.states[key], outputs = run_step(self.table, self.states[key], symbols, event.time)
            self.put(key, offset, outputs)

    def advance(self, key: str, upto: int) -> None:
        while (deadline := next_deadline(self.states[key])) is not None and deadline <= upto:
            self.states[key], outputs = advance_state(self.table, self.states[key], deadline)
            self.put(key, None, outputs)

    def put(self, key: str, offset: int | None, outputs: Sequence[object]) -> None:
        kept = self.evidence[key]
        for place, output in enumerate(outputs, 1):
            event_id = None if offset is None else f"e{offset}"
            self.outputs.append((key, output.token, offset, output.time, place, kept[-EVIDENCE_MAX:], len(kept), event_id))
        if self.states[key].units == self.table.start_units:
            self.evidence[key] = []


def referred(table: Table, events: Keyed, until: int | None) -> Reference:
    reference = Reference(table)
    for offset, (key, event) in enumerate(events):
        reference.take(key, offset, event)
    for key in reference.states:
        if until is not None:
            reference.advance(key, until)
    return reference


def output_rows(outputs: pa.Table) -> OutputRows:
    """Without what registers held: these patterns have none."""
    return sorted((tuple(row.values()) for row in outputs.drop_columns(["captured"]).to_pylist()), key=_order)


def _order(row: tuple[object, ...]) -> tuple[object, ...]:
    return row[0], row[3], row[2] is not None, row[2] or 0, row[4]


def check(table: Table, events: Keyed, cut: int, until: int | None) -> None:
    """In two micro-batches, with the states handed over, and as one sorted run in pieces of three rows."""
    expected = referred(table, events, until)
    wanted = sorted(expected.outputs, key=_order)
    early = step(rows_of(table, events[:cut]), STATE_SCHEMA.empty_table(), table, evidence_max=EVIDENCE_MAX)
    late = step(rows_of(table, events[cut:], cut), early.states, table, evidence_max=EVIDENCE_MAX, until=until)
    assert output_rows(pa.concat_tables([early.outputs, late.outputs])) == wanted
    states = {row["key"]: row for row in [*early.states.to_pylist(), *late.states.to_pylist()]}
    for key, state in expected.states.items():
        if key not in states:
            assert table.simple and state.units == table.start_units, "a key that is not written down stands at the start"
            continue
        assert (tuple(states[key]["units"]), tuple(states[key]["deadlines"])) == (state.units, state.deadlines)
        kept = expected.evidence[key]
        assert (states[key]["evidence"], states[key]["evidence_total"]) == (kept[-EVIDENCE_MAX:], len(kept))
    run, outputs = make_run(table, evidence_max=EVIDENCE_MAX, until=until), []
    whole = rows_of(table, events).sort_by([("key", "ascending"), ("offset", "ascending")])
    for start in range(0, whole.num_rows, 3):
        outputs.append(run.feed(Rows.from_table(whole.slice(start, 3))).outputs)
    assert output_rows(pa.concat_tables([*outputs, run.finish().outputs])) == wanted


@given(patterns(), keyed_events, st.integers(0, 20), st.booleans())
@settings(max_examples=examples(40, 100), deadline=None, suppress_health_check=QUIET)
def test_any_table_steps_as_its_own_function(pattern: Pattern, sequences: list[list[Event]], cut: int, late: bool) -> None:
    events = interleaved(sequences)
    check(compile(pattern), events, cut, events[-1][1].time + 20 * US if late and events else None)


@given(patterns(timers=False), keyed_events, st.integers(0, 20))
@settings(max_examples=examples(40, 100), deadline=None, suppress_health_check=QUIET)
def test_table_without_timers_steps_as_its_own_function(pattern: Pattern, sequences: list[list[Event]], cut: int) -> None:
    check(compile(pattern), interleaved(sequences), cut, None)


@given(patterns(timers=False), keyed_events, st.integers(0, 20))
@settings(max_examples=examples(40, 200), deadline=None, suppress_health_check=QUIET)
def test_table_of_several_units_steps_as_its_own_function(pattern: Pattern, sequences: list[list[Event]], cut: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Nothing is multiplied out by the compiler, so Spark has to do it.
        patch.setattr(compile_module, "FLAT_CELLS_MAX", 0)
        table = compile(pattern)
    check(table, interleaved(sequences), cut, None)


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("repeat{push(x){loop(100){a}}}", ProductRun),
        ("repeat{push(x){do{loop(100){a}} unless {after 1 s}}}", TableRun),
        ("repeat{push(x){accumulate{loop(30){a},loop(30){b},loop(20){c}}}}", TableRun),
    ],
)
def test_table_is_multiplied_out_if_it_is_small_and_has_no_timers(text: str, run: type) -> None:
    table = compile(parse(text))
    assert not table.simple
    assert type(make_run(table, evidence_max=EVIDENCE_MAX)) is run


def test_state_that_the_automaton_does_not_have_is_stepped_unit_by_unit() -> None:
    """A version that carried its states over may have states that no event leads to."""
    table = compile(parse("repeat{push(x){sequential{loop(100){a},loop(2){b}}}}"))
    multiplied = ProductAutomaton.from_table(table)
    assert multiplied is not None
    early = step(rows_of(table, [("0", Event("a", 0))]), STATE_SCHEMA.empty_table(), table, evidence_max=EVIDENCE_MAX)
    units = list(early.states["units"][0].as_py())
    counter = next(at for at, value in enumerate(units) if value != multiplied.states[0][at])
    stranger = [*units[:counter], -7, *units[counter + 1 :]]
    states = early.states.set_column(1, STATE_SCHEMA.field(1), pa.array([stranger], pa.list_(pa.int32())))
    assert type(make_run(table, evidence_max=EVIDENCE_MAX, states=early.states)) is ProductRun
    assert type(make_run(table, evidence_max=EVIDENCE_MAX, states=states)) is TableRun


def test_seeded_bug_in_the_evidence_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker can fail: where the way back to the start is not noticed, evidence goes on for ever."""
    events = interleaved([[Event(letter, time) for time, letter in enumerate("abab")]])
    table = compile(parse("repeat{push(x){sequential{a,b}}}"))
    check(table, events, 2, None)
    monkeypatch.setattr(automaton_run, "TO_START", 0)
    with pytest.raises(AssertionError):
        check(table, events, 2, None)


def test_compiled_loop_gives_what_the_plain_loop_gives() -> None:
    random = np.random.default_rng(7)
    states, width, rows = 5, 3, 2_000
    following = random.integers(0, states, states * width)
    symbols = random.integers(0, width, rows)
    first = random.random(rows) < 0.1
    first[0] = True
    symbols[first & (random.random(rows) < 0.5)] = -1
    given_states = random.integers(0, states, rows)
    arguments = (first, symbols, given_states, following, width)
    assert (kernel.step_rows(*arguments) == kernel.step_rows.__wrapped__(*arguments)).all()  # type: ignore[attr-defined]


def test_timers_that_tick_without_end_raise_an_error() -> None:
    table = compile(parse("repeat{push(x){after 1 ms}}"))
    with pytest.raises(TimerFlood, match="key '0'"):
        step(rows_of(table, [("0", Event("a", 0))]), STATE_SCHEMA.empty_table(), table, evidence_max=3, until=1_000 * US)
