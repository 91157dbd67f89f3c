"""Interpreter = machine = table, on random patterns and random timed events."""

from __future__ import annotations

import pytest
from ecl_strategies import US, evaluate, event_lists, observed, patterns
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import structs
from tests.examples import examples

from headrace.lang.ecl import (
    Event,
    Interpreter,
    Pattern,
    build_machine,
    compile,
    compiler as compile_module,
    from_json,
    network as network_module,
    parse,
    print_pattern,
    to_json,
)
from headrace.lang.ecl.machine import MachineEngine
from headrace.lang.ecl.network import Kind
from headrace.lang.ecl.table import TableEngine

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
NORMAL = settings(max_examples=examples(200, 500), deadline=None, suppress_health_check=QUIET)
LONG = settings(max_examples=10_000, deadline=None, suppress_health_check=QUIET)
runs = st.lists(event_lists(), min_size=1, max_size=3)


def check_engines_agree(pattern: Pattern, sequences: list[list[Event]]) -> None:
    interpreter = Interpreter(pattern, evaluator=evaluate)
    machine = MachineEngine(build_machine(pattern), evaluator=evaluate)
    table = TableEngine(compile(pattern), evaluator=evaluate)
    for events in sequences:
        until = (events[-1].time if events else 0) + 20 * US
        expected = observed(interpreter, events, until=until)
        assert observed(machine, events, until=until) == expected, print_pattern(pattern)
        assert observed(table, events, until=until) == expected, print_pattern(pattern)


@given(patterns(), runs)
@NORMAL
def test_interpreter_machine_and_table_agree(pattern: Pattern, sequences: list[list[Event]]) -> None:
    check_engines_agree(pattern, sequences)


@pytest.mark.slow
@given(patterns(max_leaves=9), runs)
@LONG
def test_interpreter_machine_and_table_agree_on_ten_thousand_patterns(pattern: Pattern, sequences: list[list[Event]]) -> None:
    check_engines_agree(pattern, sequences)


def test_seeded_bug_in_a_node_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker can fail: with `fail` taken out of the nodes, tables no longer agree."""
    pattern = parse("push(x){fail{do{a}unless{b}}}")
    events = [Event("b", 0)]
    check_engines_agree(pattern, [events])
    together = network_module._Step._together

    def without_fail(self: network_module._Step, index: int, unit: network_module.Node) -> None:
        kind = Kind.UNLESS if unit.kind is Kind.FAIL else unit.kind
        together(self, index, structs.replace(unit, kind=kind, children=(*unit.children, *unit.children)))

    monkeypatch.setattr(network_module._Step, "_together", without_fail)
    with pytest.raises(AssertionError):
        check_engines_agree(pattern, [events])


@given(patterns(), runs)
@settings(NORMAL, max_examples=examples(60, 150))
def test_table_without_flat_units_agrees_with_interpreter(pattern: Pattern, sequences: list[list[Event]]) -> None:
    """The nodes that large patterns need, exercised on small ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_module, "FLAT_CELLS_MAX", 0)
        table = compile(pattern)
    for events in sequences:
        until = (events[-1].time if events else 0) + 20 * US
        expected = observed(Interpreter(pattern, evaluator=evaluate), events, until=until)
        assert observed(TableEngine(table, evaluator=evaluate), events, until=until) == expected


@given(patterns(), runs)
@settings(NORMAL, max_examples=examples(40, 100))
def test_minimised_table_behaves_as_the_unminimised(pattern: Pattern, sequences: list[list[Event]]) -> None:
    small, large = compile(pattern), compile(pattern, minimised=False)
    assert small.states <= large.states or len(small.units) < len(large.units)
    for events in sequences:
        until = (events[-1].time if events else 0) + 20 * US
        pair = [TableEngine(table, evaluator=evaluate) for table in (small, large)]
        assert observed(pair[0], events, until=until) == observed(pair[1], events, until=until)


@given(patterns())
@settings(NORMAL, max_examples=examples(40, 100))
def test_table_survives_json_exactly_and_its_bytes_are_stable(pattern: Pattern) -> None:
    table = compile(pattern)
    data = to_json(table)
    assert from_json(data) == table
    assert to_json(from_json(data)) == data
    assert to_json(compile(parse(print_pattern(pattern)))) == data


@given(patterns(max_leaves=12))
@settings(NORMAL, max_examples=examples(60, 150))
def test_printed_pattern_parses_to_the_same_tree(pattern: Pattern) -> None:
    assert parse(print_pattern(pattern)) == pattern
