"""A budget of steps: the same pattern gets the same answer on every machine."""

from __future__ import annotations

import pytest
from ecl_strategies import patterns
from hypothesis import given, settings

from headrace.lang.ecl import Budget, StateLimitExceeded, compile, dependencies, equivalent_states, parse, types_read
from headrace.lang.ecl.analysis import every_type_read
from headrace.lang.ecl.tree import Pattern

TIMERS = ",".join(f"sequential{{a{n},after {n + 1} s}}" for n in range(8))
MANY_TIMERS = f"repeat{{push(x){{accumulate{{{TIMERS}}}}}}}"


def test_compiling_beyond_the_budget_says_what_was_exceeded_and_what_to_do() -> None:
    with pytest.raises(StateLimitExceeded, match=r"at least \d+ steps, allowed are 100; split the pattern"):
        compile(parse("push(x){accumulate{a,b,c,d,e}}"), budget=Budget(100))


def test_same_pattern_takes_the_same_steps() -> None:
    table = compile(parse(MANY_TIMERS))
    budgets = [Budget(50_000), Budget(50_000)]
    for budget in budgets:
        with pytest.raises(StateLimitExceeded):
            dependencies(table, budget=budget)
    assert budgets[0].spent == budgets[1].spent


@pytest.mark.parametrize("count", [20, 40])
def test_timers_that_run_side_by_side_are_analysed_in_few_steps(count: int) -> None:
    # All of them start together, so that only one of the 2 ** count sets of timers can be due next.
    timers = ",".join(f"after {n + 1} s" for n in range(count))
    budget = Budget(1_000_000)
    (dependency,) = dependencies(compile(parse(f"repeat{{push(x){{accumulate{{{timers}}}}}}}")), budget=budget)
    assert (dependency.timers, dependency.types) == (True, ())


def test_comparing_states_has_a_budget() -> None:
    old, new = compile(parse(MANY_TIMERS)), compile(parse(MANY_TIMERS.replace("a0", "b0")))
    with pytest.raises(StateLimitExceeded, match="steps, allowed are 50000"):
        equivalent_states(old, new, budget=Budget(50_000))


def test_answer_beyond_the_budget_names_the_types_of_the_same_component_only() -> None:
    table = compile(parse(f"parallel{{repeat{{push(y){{c}}}},{MANY_TIMERS}}}"))
    read = types_read(table, budget=Budget(10_000))
    assert (read["y"].types, read["y"].any_type) == (("c",), False)
    assert (set(read["x"].types), read["x"].any_type) == ({f"a{n}" for n in range(8)}, False)


@settings(max_examples=40, deadline=None)
@given(patterns(max_leaves=4))
def test_answer_beyond_the_budget_misses_no_type(pattern: Pattern) -> None:
    table = compile(pattern)
    try:
        exact = dependencies(table, limit=300, budget=Budget(20_000))
    except StateLimitExceeded:
        return
    every = every_type_read(table)
    for dependency in exact:
        if dependency.types or dependency.any_type:
            read = every[dependency.token]
            assert read.any_type or (set(dependency.types) <= set(read.types) and not dependency.any_type)
