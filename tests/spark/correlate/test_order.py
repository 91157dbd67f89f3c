"""Keyed rows come by bucket and offset, whatever the offsets are, and keys that share a bucket are taken apart."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.spark.correlate import order as order
from headrace.spark.correlate.order import EXACT_BELOW, FINE_BELOW, OFFSET_BITS, Layers, by_key, in_order, steps_of
from headrace.spark.correlate.rows import OUTPUT_SCHEMA, STATE_SCHEMA, Rows, Stepped

EDGES = [-1, 0, 1, EXACT_BELOW - 1, EXACT_BELOW, EXACT_BELOW + 1, FINE_BELOW - 1, FINE_BELOW, (1 << 63) - 1]
LARGE = st.one_of(st.integers(EXACT_BELOW, EXACT_BELOW + 60_000), st.integers(0, (1 << 63) - 1))
offsets = st.one_of(st.sampled_from(EDGES), st.integers(-1, 40), LARGE)
Row = tuple[int, str, int]


def rows_of(found: Sequence[Row]) -> pa.Table:
    columns = {"bucket": pa.int32(), "key": pa.string(), "offset": pa.int64()}
    return pa.table({name: pa.array([row[n] for row in found], kind) for n, (name, kind) in enumerate(columns.items())})


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("kl"), offsets), unique=True), st.integers(1, 9), st.randoms())
@settings(max_examples=150, deadline=None)
def test_rows_sorted_by_steps_come_out_in_order(found: list[Row], size: int, chance: random.Random) -> None:
    chance.shuffle(found)
    steps = dict(zip([row[2] for row in found], steps_of(np.array([row[2] for row in found], np.int64)).tolist(), strict=True))
    assert all(0 <= step < 1 << OFFSET_BITS for step in steps.values())
    sent = rows_of(sorted(found, key=lambda row: (row[0], steps[row[2]])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "PIECE_ROWS", size)
        pieces = list(in_order(sent.to_batches(max_chunksize=3)))
    assert [(row["bucket"], row["offset"]) for piece in pieces for row in piece.to_pylist()] == sorted(
        (bucket, offset) for bucket, _, offset in found
    )


class Together:
    """A run that insists on what a run is promised: the rows of a key stand together, in the order of offsets."""

    def __init__(self, seen: dict[str, list[int]]) -> None:
        self._seen, self._key = seen, ""

    def feed(self, rows: Rows) -> Stepped:
        for key, offset in zip(rows.key.to_pylist(), rows.offset.tolist(), strict=True):
            if key != self._key:
                assert key not in self._seen, f"{key} comes again after {self._key}"
                self._seen[key], self._key = [], key
            self._seen[key].append(offset)
        return self.finish()

    def finish(self) -> Stepped:
        return Stepped(OUTPUT_SCHEMA.empty_table(), STATE_SCHEMA.empty_table())


def pieces_of(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    numbers = pa.array(np.zeros(rows.num_rows, np.int64))
    whole = pa.table({**{name: rows[name] for name in rows.column_names}, "symbol": numbers, "time": numbers,
        "event_id": rows["key"]})  # fmt: skip
    return (whole.slice(start, size) for start in range(0, rows.num_rows, size))


@given(st.lists(st.integers(0, 7), max_size=40), st.integers(1, 3), st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_keys_of_one_bucket_are_taken_apart_wherever_pieces_end(keys: list[int], buckets: int, size: int) -> None:
    rows = [(key % buckets, f"k{key}", offset) for offset, key in enumerate(keys)]
    seen: dict[str, list[int]] = {}
    layers = Layers(lambda: Together(seen))
    for piece in pieces_of(rows_of(sorted(rows, key=lambda row: (row[0], row[2]))), size):
        list(layers.feed(piece))
    assert seen == {f"k{key}": [n for n, one in enumerate(keys) if one == key] for key in keys}


def test_spark_sorts_by_the_same_steps(spark: Any) -> None:
    chance = random.Random(3)
    given_rows = [(f"k{chance.randrange(5)}", offset) for offset in [*EDGES, *(chance.randrange(1 << 55) for _ in range(50))]]
    frame = by_key(spark.createDataFrame(given_rows, "key string, `offset` bigint")).coalesce(1)
    rows = frame.collect()
    assert len(rows) == len(given_rows)
    runs: dict[int, list[int]] = {}
    for row in rows:
        runs.setdefault(row["bucket"], []).append(row["offset"])
    for run in runs.values():
        steps = steps_of(np.array(run, np.int64)).tolist()
        assert steps == sorted(steps)
    assert len(runs) == 5
