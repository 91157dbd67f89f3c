"""The table: size, symbols, layout, limits, evidence."""

from __future__ import annotations

import time

import pytest
from ecl_strategies import P, Q, evaluate
from tests.lang.ecl.oracles import changes

from headrace.lang.ecl import (
    Event,
    StateLimitExceeded,
    Table,
    TableState,
    TimerFlood,
    compile,
    from_json,
    next_deadline,
    parse,
    start_state,
    to_json,
)
from headrace.lang.ecl.errors import TableError
from headrace.lang.ecl.network import Flat
from headrace.lang.ecl.table import advance_state, classify, run_step

S = 1_000_000
TWELVE = "repeat{push(x){do{accumulate{a,b,c,d,e,f,g,h,i,j,k,l}}unless{z}}}"
TWELVE_CONDITIONS = TWELVE.replace("a,b,c,d,e,f,g,h,i,j,k,l", ",".join(f"<(object -> 'n')::int = {n}>" for n in range(12)))
THOUSAND = "repeat{push(x){do{loop(1000){sequential{a,b}}}unless{z}}}"
EIGHT = "parallel{{{}}}".format(",".join(f"repeat{{push(x{n}){{sequential{{a{n},b{n},c{n}}}}}}}" for n in range(8)))
EIGHT_CONDITIONS = "parallel{{{}}}".format(
    ",".join(
        "repeat{{push(x{}){{sequential{{{}}}}}}}".format(n, ",".join(f"<(object -> '{m}')::int = {n}>" for m in "abc"))
        for n in range(8)
    )
)


def table_of(text: str) -> Table:
    return compile(parse(text))


def symbols(table: Table, *types: str) -> list[tuple[int, ...]]:
    return [classify(table, Event(type_, 0)) for type_ in types]


@pytest.mark.parametrize("text", [TWELVE, TWELVE_CONDITIONS, THOUSAND, EIGHT, EIGHT_CONDITIONS])
def test_large_pattern_compiles_fast_to_a_small_table(text: str) -> None:
    pattern = parse(text)
    begin = time.process_time()
    table = compile(pattern)
    assert time.process_time() - begin < 1
    assert table.states <= 64
    assert len(to_json(table)) < 40_000


def test_small_pattern_is_one_integer_and_one_look_up() -> None:
    table = table_of("repeat{push(x){do{accumulate{a,b}}unless{c}}}")
    assert table.simple
    (flat,) = table.units
    assert isinstance(flat, Flat)
    assert (flat.states, flat.symbols) == (3, 4)
    state = 0
    for type_ in "ab":
        (symbol,) = classify(table, Event(type_, 0))
        cell = state * flat.symbols + symbol
        state, action = flat.next[cell], flat.action[cell]
    assert state == 0
    assert table.actions[action] == ((0,), 0)


def test_many_types_that_mean_the_same_are_one_symbol() -> None:
    table = table_of("repeat{{push(x){{select{{{}}}}}}}".format(",".join(f"t{n}" for n in range(50))))
    assert table.alphabets[0].size == 2
    assert len(table.alphabets[0].types) == 50


def test_types_exclude_each_other_and_conditions_do_not() -> None:
    assert table_of("accumulate{a,b,c}").alphabets[0].size == 4
    assert table_of(f"accumulate{{<{P}>,<{Q}>}}").alphabets[0].size == 4
    assert table_of(f"accumulate{{a and <{P}>,b and <{Q}>}}").alphabets[0].size == 3


def test_unknown_makes_a_symbol_of_its_own_where_it_matters() -> None:
    table = table_of(f"parallel{{repeat{{push(x){{<{P}>}}}},repeat{{push(y){{not <{P}>}}}}}}")
    symbols = {classify(table, Event("a", 0, {P: truth}), evaluate) for truth in (True, False, None)}
    assert len(symbols) == 3


def test_predicates_are_evaluated_only_where_they_matter() -> None:
    table = table_of(f"repeat{{push(x){{a and <{P}>}}}}")
    asked: list[str] = []

    def evaluator(text: str, subject: object) -> bool:
        asked.append(text)
        return True

    classify(table, Event("b", 0), evaluator)
    assert asked == []
    classify(table, Event("a", 0), evaluator)
    assert asked == [P]


def test_same_pattern_in_another_layout_has_the_same_hash() -> None:
    texts = ("push(x){a or b}", "push( x )\n{ a   or b } -- or c")
    assert len({to_json(table_of(text)) for text in texts}) == 1
    assert to_json(table_of("push(x){b or a}")) != to_json(table_of(texts[0]))


def test_state_limit_names_needed_and_allowed() -> None:
    with pytest.raises(StateLimitExceeded) as caught:
        compile(parse("sequential{{{}}}".format(",".join("abcdefgh"))), state_limit=5)
    assert caught.value.allowed == 5
    assert caught.value.needed > 5
    assert f"needs at least {caught.value.needed} states, allowed are 5" in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"format":"headrace.ecl.table","version":2}', b"[1]", b"\xff"])
def test_foreign_json_is_refused(data: bytes) -> None:
    with pytest.raises(TableError):
        from_json(data)


def test_parallel_branches_stay_side_by_side() -> None:
    table = table_of("parallel{repeat{push(x){sequential{a,b}}},repeat{push(y){sequential{b,a}}}}")
    assert table.components == (0, 1)
    assert table.states == 4


def test_state_of_a_counter_is_a_number() -> None:
    table = table_of("push(x){loop(1000){a}}")
    state = start_state(table, 0)
    for _ in range(700):
        state, _outputs = run_step(table, state, symbols(table, "a")[0], 0)
    assert state == TableState((0, 700, 0))


def test_timer_rows_hold_deadlines() -> None:
    table = table_of("repeat{push(late){sequential{dep,fail{within 10 s{arr}}}}}")
    dep, arr = symbols(table, "dep", "arr")
    state = start_state(table, 0)
    assert next_deadline(state) is None
    state, _ = run_step(table, state, dep, 5 * S)
    assert next_deadline(state) == 15 * S
    cleared, _ = run_step(table, state, arr, 7 * S)
    assert next_deadline(cleared) is None
    state, outputs = advance_state(table, state, 60 * S)
    assert [(output.token, output.time) for output in outputs] == [("late", 15 * S)]
    assert state.units == table.start_units


def test_flood_of_timers_is_refused_and_can_be_sliced() -> None:
    table = table_of("repeat{push(x){after 1 ms}}")
    state = start_state(table, 0)
    with pytest.raises(TimerFlood, match="100000"):
        advance_state(table, state, 1_000 * S)
    state, outputs = advance_state(table, state, 50 * S)
    assert len(outputs) == 50_000


def test_evidence_is_what_changed_the_state_since_the_start() -> None:
    table = table_of("repeat{push(x){sequential{a,b,c}}}")
    state = start_state(table, 0)
    evidence: list[int] = []
    firings: list[list[int]] = []
    for position, (type_, symbol) in enumerate(zip("aabdcca", symbols(table, *"aabdcca"), strict=True)):
        assert type_
        if changes(table, state, symbol):
            evidence.append(position)
        state, outputs = run_step(table, state, symbol, position)
        if outputs:
            firings.append(list(evidence))
        if state.units == table.start_units:
            evidence.clear()
    assert firings == [[0, 2, 4]]
    assert evidence == [6]
