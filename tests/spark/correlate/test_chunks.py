"""A stream without key in chunks gives what one machine gives that reads it all: on random patterns, cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.lang.ecl import Event, Pattern, Table, compile, parse
from headrace.spark.correlate.chunks import run as _chunk_run
from headrace.spark.correlate.chunks.composing import CHUNK, Chunk, composed, starts_of
from headrace.spark.correlate.chunks.files import Seen, begins_of
from headrace.spark.correlate.chunks.look import look_at_piece, push_piece
from headrace.spark.correlate.chunks.run import CHUNK_SCHEMA, follow, run_chunks, run_heads
from headrace.spark.correlate.chunks.stream import Stream, symbols_of
from headrace.spark.correlate.rows import OUTPUT, OUTPUT_SCHEMA
from tests.lang.ecl.ecl_strategies import event_lists, patterns

from .test_step import EVIDENCE_MAX, QUIET, Told, referred, rows_of, told

events = event_lists(max_size=24)


def one_stream(table: Table, found: Sequence[Event]) -> pa.Table:
    return rows_of(table, [("", event) for event in found])


def in_chunks(table: Table, rows: pa.Table, cuts: Sequence[int]) -> tuple[Told, int]:
    """What the driver does, with a list of partitions in place of Spark; and how many passes it took."""
    bounds = sorted({0, rows.num_rows, *(cut for cut in cuts if cut < rows.num_rows)})
    partitions = [rows.slice(low, high - low) for low, high in pairwise(bounds)]

    def passed(begins: dict[int, int] | None) -> pa.Table:
        possible = starts_of(table, begins)
        # Two batches to a partition: a chunk goes on over them.
        found = [run_chunks(part.to_batches(max_chunksize=4), table, possible, evidence_max=EVIDENCE_MAX) for part in partitions]
        return pa.Table.from_batches([batch for one in found for batch in one], CHUNK_SCHEMA)

    done, passes = passed(None), 1
    about = done.filter(pa.array(done["kind"].to_numpy() == CHUNK)).sort_by("first").to_pylist()
    chunks = [Chunk(row["first"], row["last"], tuple(row["map"]), row["whole"]) for row in about]
    if not all(chunk.whole for chunk in chunks):
        done, passes = passed(composed(chunks)), 2
    heads = done.filter(pa.array(done["kind"].to_numpy() != OUTPUT))
    heads = heads.sort_by([("first", "ascending"), ("kind", "ascending"), ("offset", "ascending")])
    late = pa.Table.from_batches(run_heads(heads.to_batches(), table, evidence_max=EVIDENCE_MAX), CHUNK_SCHEMA)
    outputs = done.filter(pa.array(done["kind"].to_numpy() == OUTPUT))
    return told(pa.concat_tables([outputs, late]).select(OUTPUT_SCHEMA.names)), passes


@dataclass(frozen=True)
class Part:
    """A piece of a stream, in batches of four rows."""

    rows: pa.Table

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(self.rows.select(list(columns)).to_batches(max_chunksize=4))


def by_tasks(table: Table, found: Sequence[Event], cuts: Sequence[int]) -> tuple[Told, int]:
    """What the driver does where tasks read by themselves, and how often they look before they push."""
    symbols = one_stream(table, found)
    rows = pa.table({**{name: symbols[name] for name in ("offset", "event_id")}, "type": [event.type for event in found],
        "appended_at": symbols["time"].cast(pa.timestamp("us", "UTC"))})  # fmt: skip
    bounds = sorted({0, rows.num_rows, *(cut for cut in cuts if cut < rows.num_rows)})
    pieces = tuple(Part(rows.slice(low, high - low)) for low, high in pairwise(bounds))
    known = symbols_of(table)
    assert known is not None
    stream = Stream(pieces, "appended_at", *known)
    looks = []

    def look(numbers: Sequence[int], begins: Mapping[int, int] | None) -> list[Seen]:
        looks.append(begins)
        found = [one for n in numbers for one in look_at_piece(stream, n, table, begins, evidence_max=EVIDENCE_MAX)]
        return [one for one in found if isinstance(one, Seen)]

    begins = begins_of(len(pieces), look, evidence_max=EVIDENCE_MAX)
    assert begins is not None
    pushed = [batch for n in range(len(pieces)) for batch in push_piece(stream, n, table, begins, evidence_max=EVIDENCE_MAX)]
    return told(pa.Table.from_batches(pushed, OUTPUT_SCHEMA)), len(looks)


def expected(table: Table, found: Sequence[Event]) -> Told:
    return told(pa.table([list(column) for column in zip(*referred(table, [("", e) for e in found], None).outputs, strict=True)]
        or [[] for _ in OUTPUT_SCHEMA.names], schema=OUTPUT_SCHEMA))  # fmt: skip


@given(patterns(timers=False), events, st.lists(st.integers(1, 23), max_size=4), st.sampled_from([0, 3, 1000]))
@settings(max_examples=120, deadline=None, suppress_health_check=[*QUIET, HealthCheck.function_scoped_fixture])
def test_chunks_give_what_one_machine_gives(
    monkeypatch: pytest.MonkeyPatch, pattern: Pattern, found: list[Event], cuts: list[int], most: int
) -> None:
    table = compile(pattern)
    if not table.simple or not found:
        return
    monkeypatch.setattr(_chunk_run, "HEAD_ROWS_MAX", most)
    given_outputs, _ = in_chunks(table, one_stream(table, found), cuts)
    assert given_outputs == expected(table, found)
    if symbols_of(table) is not None:
        assert by_tasks(table, found, cuts)[0] == given_outputs


def letters(text: str) -> list[Event]:
    return [Event(letter, number) for number, letter in enumerate(text)]


def test_pattern_that_forgets_needs_one_pass_and_one_that_counts_in_twos_needs_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chunk_run, "HEAD_ROWS_MAX", 5)
    stream = letters("abcaabbcabacbbacab" * 5)
    for pattern, passes in (("repeat{push(x){do{accumulate{a,b}}unless{c}}}", 1), ("repeat{push(x){sequential{a,a}}}", 2)):
        table = compile(parse(pattern))
        assert in_chunks(table, one_stream(table, stream), [30, 50, 77]) == (expected(table, stream), passes)
        assert by_tasks(table, stream, [30, 50, 77]) == (expected(table, stream), passes)
    assert len(expected(table, stream)) == 17


def test_following_all_states_joins_those_that_meet() -> None:
    # Three states; symbol 0 leads everything but 2 to 1, symbol 1 everything to 0.
    following = np.array([1, 0, 1, 0, 2, 0])
    row, ways, became = follow(np.array([0, 1, 2]), np.array([0, 0]), following, 2)
    assert (row, ways.tolist(), became.tolist()) == (-1, [1, 2], [0, 0, 1])
    assert follow(ways, np.array([0, 1, 0]), following, 2)[0] == 1


EVER_OPEN = "repeat{push(x){sequential{a,a}}}"


def test_evidence_stays_open_over_chunks_that_never_come_to_the_start() -> None:
    """In a chunk without any a nothing moves; the a before it is still the evidence of the one behind it."""
    table, stream = compile(parse(EVER_OPEN)), letters("aaabbbbbbbba")
    found, looks = by_tasks(table, stream, [4, 7, 10])
    assert (found, looks) == (expected(table, stream), 2)
    assert found[-1][5:7] == ([2, 11], 2)
