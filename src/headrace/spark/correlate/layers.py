"""Separates rows sorted by bucket and offset by key: the first key of every bucket, then the second, and so on.

A bucket is a part of a key's hash, so it nearly always has one key. Where it has more, their rows are interleaved. Each layer is a
run of its own with one key per bucket, so nothing is sorted here, and only one state per layer is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.spark.correlate.rows import Rows, Stepped


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
