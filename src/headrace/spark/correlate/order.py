"""The order of keyed rows: by bucket, which is a part of the key's hash, and offset.

Sorting by key and offset compares row with row. Spark sorts bucket and offset as one number digit by digit, which takes a third of
the time. That leaves 39 bits for the offset: exact up to 2^37, in steps of 2^14 up to 2^51, then of 2^26. Rows of one step come in
any order and are sorted here; a log of less than 137 billion events has no such rows.

A bucket nearly always has one key. Where it has more, their rows are interleaved, and `Layers` separates them: the first key of
every bucket, then the second, and so on. Each layer is a run of its own with one key per bucket, so nothing is sorted there, and
only one state per layer is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, functions

from headrace.spark.correlate.rows import Rows, Stepped

OFFSET_BITS = 39
EXACT_BELOW = 1 << 37
FINE_BELOW, FINE_BITS = 1 << 51, 14
COARSE_BITS = 26
PIECE_ROWS = 65_536
"""Spark sends 10 000 rows at a time; with six times as many, the fixed cost per row is a third."""
_BUCKET = f"int(shiftrightunsigned(xxhash64({{names}}), {OFFSET_BITS + 1}))"
# A state row has offset -1 and comes first.
_STEP = f"""(case when `offset` < 0 then 0L when `offset` < {EXACT_BELOW}L then `offset` + 1L
    when `offset` < {FINE_BELOW}L then {EXACT_BELOW}L + 1L + shiftright(`offset`, {FINE_BITS})
    else {2 * EXACT_BELOW}L + 1L + shiftright(`offset`, {COARSE_BITS}) end)"""


def by_key(rows: DataFrame) -> DataFrame:
    """The rows of a key (and group, where the rows have several) in one task, with a column `bucket`, sorted by bucket and step."""
    names = "key, group_number" if "group_number" in rows.columns else "key"
    # Computed together with the other columns: after the shuffle it would copy every row once more.
    hashed = rows.selectExpr("*", f"{_BUCKET.format(names=names)} as bucket").repartition("bucket")
    return hashed.sortWithinPartitions(functions.expr(f"shiftleft(bigint(bucket), {OFFSET_BITS}) | {_STEP}"))


def in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in larger pieces, by bucket and offset exactly. Rows without bucket are in order already."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        if count >= PIECE_ROWS:
            piece, pending = _sort_steps(pa.Table.from_batches(pending).combine_chunks())
            count = sum(rows.num_rows for rows in pending)
            if piece.num_rows:
                yield piece
    if count:
        piece, last = _sort_steps(pa.Table.from_batches(pending).combine_chunks())
        yield pa.concat_tables([piece, *map(pa.Table.from_batches, [last] if last else [])])


def _sort_steps(piece: pa.Table) -> tuple[pa.Table, list[pa.RecordBatch]]:
    """The piece in order, and its last step, which may continue in the next piece."""
    offsets = piece["offset"].to_numpy()
    if "bucket" not in piece.column_names or offsets.max() < EXACT_BELOW:
        return piece, []
    buckets, steps = piece["bucket"].to_numpy(), steps_of(offsets)
    last = (buckets == buckets[-1]) & (steps == steps[-1])
    piece = piece.take(pa.array(np.lexsort((offsets, buckets)))).combine_chunks()
    whole = piece.num_rows - int(last.sum())
    return piece.slice(0, whole), piece.slice(whole).to_batches()


def steps_of(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of an offset that the sort compares."""
    fine = EXACT_BELOW + 1 + (offsets >> FINE_BITS)
    coarse = 2 * EXACT_BELOW + 1 + (offsets >> COARSE_BITS)
    return np.where(offsets < 0, 0, np.where(offsets < EXACT_BELOW, offsets + 1, np.where(offsets < FINE_BELOW, fine, coarse)))


class Run(Protocol):
    """Steps rows in which the rows of a key are adjacent."""

    def feed(self, rows: Rows) -> Stepped: ...
    def finish(self) -> Stepped: ...


class Layers:
    """Feeds each layer its rows. In a piece without a column `bucket` the rows of a key are adjacent already."""

    def __init__(self, make: Callable[[], Run]) -> None:
        self._make = make
        self._runs = [make()]
        self._bucket = -1
        self._layer_of: dict[str, int] = {}
        """The keys of the last bucket, which may continue in the next piece."""

    def feed(self, piece: pa.Table) -> Iterator[Stepped]:
        layers = self._layers(piece) if "bucket" in piece.column_names else None
        if layers is None:
            yield self._runs[0].feed(Rows.of(piece))
            return
        for layer in range(int(layers.max()) + 1):
            while layer >= len(self._runs):
                self._runs.append(self._make())
            yield self._runs[layer].feed(Rows.of(piece.filter(pa.array(layers == layer)).combine_chunks()))

    def finish(self) -> Iterator[Stepped]:
        for run in self._runs:
            yield run.finish()

    def _layers(self, piece: pa.Table) -> NDArray[np.int64] | None:
        """The layer of each row; None where all are in the first."""
        buckets, keys = piece["bucket"].to_numpy(), piece["key"].combine_chunks()
        mixed = (buckets[1:] == buckets[:-1]) & pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        shared = set(buckets[1:][mixed].tolist())
        known = self._layer_of if buckets[0] == self._bucket else {}
        if known and list(known) != [keys[0].as_py()]:
            shared.add(int(buckets[0]))
        self._bucket = int(buckets[-1])
        if not shared:
            self._layer_of = {keys[-1].as_py(): 0}
            return None
        layers = np.zeros(buckets.size, np.int64)
        bucket = int(buckets[0])
        for row in np.flatnonzero(np.isin(buckets, list(shared))).tolist():
            if buckets[row] != bucket:
                bucket, known = int(buckets[row]), {}
            layers[row] = known.setdefault(keys[row].as_py(), len(known))
        self._layer_of = known if bucket == self._bucket else {keys[-1].as_py(): 0}
        return layers
