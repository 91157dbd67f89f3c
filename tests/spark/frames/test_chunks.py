"""A stream without key in chunks gives what one machine gives that reads it all: on random patterns, cut anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from headrace.evaluate import CorrelatorSpec, stream_chunks as worker
from headrace.evaluate.kernel import step_states
from headrace.evaluate.rows import OUTPUT_SCHEMA
from headrace.evaluate.stream_chunks import CHUNK, CHUNK_SCHEMA, OUTPUT, run_chunks, run_heads
from headrace.lang.ecl import Event, Pattern, Table, compile, condition_fields, parse
from headrace.spark.frames.correlation_tasks import ChunkSummary, classify_stream, compose, start_states
from tests.evaluate.test_step import EVIDENCE_MAX, QUIET, OutputRows, _order, output_rows, referred, rows_of
from tests.examples import examples
from tests.lang.ecl.ecl_strategies import event_lists, patterns

events = event_lists(max_size=24)
Partition = Callable[[], Iterable[pa.RecordBatch]]


def one_stream(table: Table, found: Sequence[Event]) -> pa.Table:
    return rows_of(table, [("", event) for event in found])


def cut_rows(rows: pa.Table, cuts: Sequence[int]) -> list[pa.Table]:
    bounds = sorted({0, rows.num_rows, *(cut for cut in cuts if cut < rows.num_rows)})
    return [rows.slice(low, high - low) for low, high in pairwise(bounds)]


def run_partitions(table: Table, partitions: Sequence[Partition]) -> tuple[OutputRows, int]:
    """What the driver does, with a list of partitions in place of Spark; and how many passes it took."""

    def run_pass(begins: dict[int, int] | None) -> pa.Table:
        states, is_first = start_states(table, begins), begins is None
        results = [run_chunks(rows(), table, states, evidence_max=EVIDENCE_MAX, is_first_pass=is_first) for rows in partitions]
        return pa.Table.from_batches([batch for result in results for batch in result], CHUNK_SCHEMA)

    result, passes = run_pass(None), 1
    rows = result.filter(pa.array(result["kind"].to_numpy() == CHUNK)).sort_by("first").to_pylist()
    chunks = [ChunkSummary(row["first"], row["last"], tuple(row["map"]), row["whole"]) for row in rows]
    if not all(chunk.whole for chunk in chunks):
        result, passes = run_pass(compose(chunks)), 2
    heads = result.filter(pa.array(result["kind"].to_numpy() != OUTPUT))
    heads = heads.sort_by([("first", "ascending"), ("kind", "ascending"), ("offset", "ascending")])
    late = pa.Table.from_batches(run_heads(heads.to_batches(), table, evidence_max=EVIDENCE_MAX), CHUNK_SCHEMA)
    outputs = result.filter(pa.array(result["kind"].to_numpy() == OUTPUT))
    return output_rows(pa.concat_tables([outputs, late]).select(OUTPUT_SCHEMA.names)), passes


def in_chunks(table: Table, found: Sequence[Event], cuts: Sequence[int]) -> tuple[OutputRows, int]:
    """Classified rows as Spark sends them. Several batches to a partition: a chunk continues over them."""
    parts = cut_rows(one_stream(table, found), cuts)
    return run_partitions(table, [partial(part.to_batches, max_chunksize=4) for part in parts])


def by_tasks(table: Table, found: Sequence[Event], cuts: Sequence[int]) -> tuple[OutputRows, int]:
    """The same rows as tasks classify them. The pattern must use nothing but event types."""
    classified = one_stream(table, found)
    rows = pa.table(
        {
            "offset": classified["offset"],
            "event_id": classified["event_id"],
            "type": pa.array([event.type for event in found], pa.string()).dictionary_encode(),
            "appended_at": classified["time"].cast(pa.timestamp("us", "UTC")),
        }
    )
    spec = CorrelatorSpec(name="c", pattern="", compiled=table)
    parts = [part.to_batches(max_chunksize=4) for part in cut_rows(rows, cuts)]
    return run_partitions(table, [partial(classify_stream, part, spec) for part in parts])


def expected(table: Table, found: Sequence[Event]) -> OutputRows:
    return sorted(referred(table, [("", event) for event in found], None).outputs, key=_order)


@given(patterns(timers=False), events, st.lists(st.integers(1, 23), max_size=4), st.sampled_from([0, 3, 1000]))
@settings(max_examples=examples(50, 120), deadline=None, suppress_health_check=[*QUIET, HealthCheck.function_scoped_fixture])
def test_chunks_give_what_one_machine_gives(
    monkeypatch: pytest.MonkeyPatch, pattern: Pattern, found: list[Event], cuts: list[int], most: int
) -> None:
    table = compile(pattern)
    if not table.simple or not found:
        return
    monkeypatch.setattr(worker, "HEAD_ROWS_MAX", most)
    outputs, _ = in_chunks(table, found, cuts)
    assert outputs == expected(table, found)
    if not condition_fields(table):
        assert by_tasks(table, found, cuts)[0] == outputs


def letters(text: str) -> list[Event]:
    return [Event(letter, number) for number, letter in enumerate(text)]


def test_pattern_that_forgets_needs_one_pass_and_one_that_counts_in_twos_needs_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "HEAD_ROWS_MAX", 5)
    stream = letters("abcaabbcabacbbacab" * 5)
    for pattern, passes in (("repeat{push(x){do{accumulate{a,b}}unless{c}}}", 1), ("repeat{push(x){sequential{a,a}}}", 2)):
        table = compile(parse(pattern))
        assert in_chunks(table, stream, [30, 50, 77]) == (expected(table, stream), passes)
        assert by_tasks(table, stream, [30, 50, 77]) == (expected(table, stream), passes)
    assert len(expected(table, stream)) == 17


def test_states_that_become_equal_are_merged() -> None:
    # Three states; symbol 0 leads everything but 2 to 1, symbol 1 everything to 0.
    following = np.array([1, 0, 1, 0, 2, 0])
    row, states, index = step_states(np.array([0, 1, 2]), np.array([0, 0]), following, 2)
    assert (row, states.tolist(), index.tolist()) == (-1, [1, 2], [0, 0, 1])
    assert step_states(states, np.array([0, 1, 0]), following, 2)[0] == 1


def test_evidence_stays_open_over_chunks_that_never_reach_the_start() -> None:
    """In a chunk without any a nothing changes; the a before it is still the evidence of the one after it."""
    table, stream = compile(parse("repeat{push(x){sequential{a,a}}}")), letters("aaabbbbbbbba")
    for run in (in_chunks, by_tasks):
        outputs, _ = run(table, stream, [4, 7, 10])
        assert outputs == expected(table, stream)
        assert outputs[-1][5:7] == ([2, 11], 2)


def test_open_evidence_is_right_when_a_second_pass_starts_from_known_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "HEAD_ROWS_MAX", 2)
    table, stream = compile(parse("repeat{push(x){sequential{a,a}}}")), letters("aaabbbbbbbba")
    for run in (in_chunks, by_tasks):
        assert run(table, stream, [4, 7, 10]) == (expected(table, stream), 2)
