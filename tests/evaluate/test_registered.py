"""Stepping with the compiled loop gives what stepping event by event gives: outputs with what they carry, evidence and states."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import cast

import pyarrow as pa
import pytest

from headrace.evaluate import stepping, table_run
from headrace.evaluate.classification import Classifier, make_groups
from headrace.evaluate.rows import STATE_SCHEMA, Rows, sort_rows
from headrace.evaluate.stepping import as_rows, make_run
from headrace.evaluate.table_run import RegisterRun, TableRun
from headrace.lang.condition import Sample
from headrace.lang.ecl import Table, compile, parse
from headrace.spark import CorrelatorSpec
from tests.lang.ecl.register_patterns import make_case
from tests.spark.backtest.test_comparison import as_batch

EVIDENCE_MAX = 3
KEPT = (
    "capture n = (object -> 'n')::int; repeat{push(x){do{sequential{a, a as last, b and <n + last.n > 3>}} unless {c}}}",
    "capture n = (object -> 'n')::int; repeat{push(x){sequential{loop(2) as l {a}, b and <n > l.sum(n)>}}}",
    "repeat{push(x){count(2, 3 s){a and <(object -> 'n')::int > 2>}}}",
)
TIMED = "capture n = (object -> 'n')::int; push(x){do{sequential{a as t, b and <n > t.n>}} unless {after 1 s}}"


def by_loop(table: Table, *, forgets: bool = False) -> TableRun:
    return RegisterRun(table, evidence_max=EVIDENCE_MAX, forgets=forgets)


def by_event(table: Table, *, forgets: bool = False) -> TableRun:
    return TableRun(table, evidence_max=EVIDENCE_MAX, forgets=forgets)


def classified(pattern: str, samples: list[Sample], times: list[int], seed: int) -> pa.Table:
    """The events of three keys, as tasks classify them."""
    (group,) = make_groups([CorrelatorSpec(name="case", pattern=pattern)])
    batch = as_batch(samples, times)
    ((_, rows),) = Classifier((), [group]).classify(batch).group_rows()
    chance = random.Random(seed)
    keys = pa.array([chance.choice("abc") for _ in range(rows.num_rows)], pa.string())
    rows = rows.set_column(rows.schema.get_field_index("key"), "key", keys)
    rows = rows.append_column("event_id", pa.array([f"e{offset}" for offset in rows["offset"].to_pylist()]))
    ((_, events),) = group.events(rows)
    return events


def run_in_two(
    run: Callable[..., TableRun], table: Table, events: pa.Table, cut: int, *, forgets: bool
) -> tuple[list[object], list[object]]:
    """Two micro-batches that hand the states over, each fed in pieces of four rows: all outputs, and the states at the end."""
    states: dict[str, dict[str, object]] = {}
    outputs: list[object] = []
    for part in (events.slice(0, cut), events.slice(cut)):
        if states:
            stored = as_rows(pa.Table.from_pylist(list(states.values()), STATE_SCHEMA), part.schema)
            part = pa.concat_tables([stored, part], promote_options="default")
        rows, own = sort_rows(part), run(table, forgets=forgets)
        steps = [own.feed(Rows.from_table(rows.slice(begin, 4))) for begin in range(0, rows.num_rows, 4)]
        for stepped in (*steps, own.finish()):
            outputs += stepped.outputs.to_pylist()
            states |= {row["key"]: row for row in stepped.states.to_pylist()}
    return outputs, [states[key] for key in sorted(states)]


def check(pattern: str, samples: list[Sample], times: list[int], seed: int, *, forgets: bool = False) -> int:
    table = compile(parse(pattern))
    events = classified(pattern, samples, times, seed)
    expected = run_in_two(by_event, table, events, len(samples) // 2, forgets=forgets)
    assert run_in_two(by_loop, table, events, len(samples) // 2, forgets=forgets) == expected, pattern
    return len(expected[0])


def own_case(seed: int) -> tuple[list[Sample], list[int]]:
    chance = random.Random(seed)
    samples = [Sample({"n": chance.choice([0, 1, 2, 3, None, "x"])}, chance.choice("aaabbcd"), None) for _ in range(60)]
    return samples, [1_000_000 * at for at in range(60)]


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("pattern", KEPT)
def test_pattern_that_keeps_values_gives_the_same_by_both_ways(pattern: str, forgets: bool) -> None:
    assert sum(check(pattern, *own_case(seed), seed, forgets=forgets) for seed in range(10)) > 0


def test_random_patterns_give_the_same_by_both_ways() -> None:
    checked = 0
    for seed in range(150):
        pattern, events = make_case(seed)
        table = compile(pattern)
        if table.registers is None or table.registers.each or table.timers:
            continue
        check(table.pattern, [cast(Sample, event.subject) for event in events], [event.time for event in events], seed)
        checked += 1
    assert checked > 20


def test_more_states_and_facts_than_are_remembered_are_stepped_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_run, "NUMBERS_MAX", 2)
    assert check(KEPT[0], *own_case(3), 3) > 0


def test_events_without_a_part_in_registers_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the loop would be there for nothing."""
    table = compile(parse(KEPT[0]))
    events = sort_rows(classified(KEPT[0], *own_case(1), 1))
    run = by_loop(table)
    stepped: list[int] = []
    step = run._batch.step
    monkeypatch.setattr(run._batch, "step", lambda key, position, *rest: stepped.append(position) or step(key, position, *rest))
    run.feed(Rows.from_table(events))
    assert 0 < len(stepped) < events.num_rows / 2


def test_seeded_bug_in_the_loop_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = table_run.pass_rows

    def forgetful(*arguments: object) -> tuple[int, int, int, bool]:
        row, state, count, is_anew = loop(*arguments)  # type: ignore[arg-type]
        return row, state, max(0, count - 1), is_anew

    monkeypatch.setattr(table_run, "pass_rows", forgetful)
    with pytest.raises(AssertionError):
        check(KEPT[0], *own_case(3), 3)


@pytest.mark.parametrize(
    ("text", "way"),
    [*((text, RegisterRun) for text in KEPT), ("each(3) {push(x){sequential{a, b}}}", TableRun), (TIMED, TableRun)],
)
def test_way_is_chosen_by_the_table(text: str, way: type, monkeypatch: pytest.MonkeyPatch) -> None:
    table = compile(parse(text))
    assert table.registers is not None
    assert type(make_run(table, evidence_max=1)) is way
    monkeypatch.setattr(stepping, "is_compiled", lambda: False)
    assert type(make_run(table, evidence_max=1)) is TableRun
