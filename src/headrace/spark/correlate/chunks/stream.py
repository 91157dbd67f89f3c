"""A stream that tasks read by themselves, where its pattern uses nothing but event types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headrace.evaluate import CorrelatorSpec
from headrace.lang.ecl import Table
from headrace.spark.source import Piece, find_pieces


@dataclass(frozen=True)
class Stream:
    """The events of a frame, in pieces, and the symbol of each event type."""

    pieces: tuple[Piece, ...]
    symbols: Mapping[str, int]
    other: int
    topic: str | None = None
    since_offset: int = 0

    def rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a piece that the correlator reads: symbol, offset, time in microseconds, event_id."""
        columns = ["type", "offset", "appended_at", "event_id", *(["topic"] if self.topic is not None else [])]
        for batch in self.pieces[number].batches(columns):
            if self.topic is not None:
                batch = batch.filter(pc.equal(batch["topic"], self.topic))
            if self.since_offset:
                batch = batch.filter(pc.greater_equal(batch["offset"], self.since_offset))
            if batch.num_rows:
                time = batch["appended_at"].cast(pa.timestamp("us")).cast(pa.int64())
                arrays = [self._symbols_of(batch["type"]), batch["offset"], time, batch["event_id"]]
                yield pa.RecordBatch.from_arrays(arrays, ["symbol", "offset", "time", "event_id"])

    def _symbols_of(self, types: pa.Array) -> pa.Array:
        """The symbols of a column of types; an event without a type has that of any other."""
        coded = types if isinstance(types, pa.DictionaryArray) else types.dictionary_encode()
        symbols = [self.symbols.get(name, self.other) for name in coded.dictionary.to_pylist()]
        places = coded.indices.fill_null(len(symbols)).to_numpy(zero_copy_only=False)
        return pa.array(np.array([*symbols, self.other], np.int64)[places])


def symbols_of(table: Table) -> tuple[Mapping[str, int], int] | None:
    """The symbol of every type in the pattern, and that of any other type; None where the pattern uses more than types."""
    alphabet, *others = table.alphabets
    if others or not isinstance(alphabet.other, int):
        return None
    symbols = {name: decision for name, decision in alphabet.types.items() if isinstance(decision, int)}
    return (symbols, alphabet.other) if len(symbols) == len(alphabet.types) else None


def stream_of(df: DataFrame, spec: CorrelatorSpec) -> Stream | None:
    """The frame as a stream that tasks can read; None where only Spark can."""
    symbols = symbols_of(spec.table)
    pieces = find_pieces(df) if symbols is not None else ()
    return Stream(pieces, *symbols, spec.topic, spec.since_offset) if symbols is not None and pieces else None
