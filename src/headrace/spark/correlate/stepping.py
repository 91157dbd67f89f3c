"""Steps classified rows in the fastest way that their table allows; batches, streams and the corpus share this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lang.ecl import Table
from headrace.spark.correlate.general import GeneralRun
from headrace.spark.correlate.order import Layers, Run, in_order
from headrace.spark.correlate.rows import OUTPUT_SCHEMA, STATE_ROW, STATE_SCHEMA, Rows, Stepped
from headrace.spark.correlate.simple import SimpleRun

NUMBERED_SCHEMA = pa.schema([("number", pa.int32()), *OUTPUT_SCHEMA])
"""Outputs, with the number of their correlator among those that share a pass."""
_ROW_COLUMNS = ("key", "offset", "time", "event_id", "bucket")


def make_run(table: Table, *, evidence_max: int, until: int | None = None, forgets: bool = False) -> Run:
    """A run of sorted, classified rows through one table. Only tables with timers, which are never simple, need `until`."""
    if table.simple:
        return SimpleRun(table, evidence_max=evidence_max, forgets=forgets)
    return GeneralRun(table, evidence_max=evidence_max, until=until, forgets=forgets)


@dataclass(frozen=True)
class Member:
    """A correlator among those that share a pass, with the columns of its symbols."""

    number: int
    table: Table
    columns: tuple[str, ...]
    facts: str | None
    """The column with what its registers are set from."""
    idle: tuple[int, ...]
    """Rows with these symbols are not its own."""
    since_offset: int
    evidence_max: int
    forgets: bool
    until: int | None

    def layers(self) -> Layers:
        return Layers(lambda: make_run(self.table, evidence_max=self.evidence_max, until=self.until, forgets=self.forgets))

    def rows(self, piece: pa.Table) -> pa.Table:
        """The rows of a piece that the correlator steps, with its symbols as `symbol`, `symbol1`, …"""
        columns = {name: piece[name] for name in _ROW_COLUMNS if name in piece.column_names}
        for number, name in enumerate(self.columns):
            columns[f"symbol{number or ''}"] = piece[name]
        if self.facts is not None:
            columns["facts"] = piece[self.facts]
        rows = pa.table(columns)
        if self.idle:
            rows = rows.filter(pc.invert(pc.is_in(rows["symbol"], pa.array(self.idle, rows["symbol"].type))))
        if self.since_offset:
            rows = rows.filter(pc.greater_equal(rows["offset"], self.since_offset))
        return rows.combine_chunks()

    def outputs(self, stepped: Stepped) -> Iterator[pa.RecordBatch]:
        outputs = stepped.outputs
        number = pa.array(np.full(outputs.num_rows, self.number, np.int32))
        yield from pa.Table.from_arrays([number, *outputs.columns], schema=NUMBERED_SCHEMA).to_batches()


def step_members(batches: Iterable[pa.RecordBatch], groups: Sequence[Sequence[Member]]) -> Iterator[pa.RecordBatch]:
    """A partition, sorted by bucket and offset → the outputs of every correlator of every group."""
    layers = [[(member, member.layers()) for member in group] for group in groups]
    for piece in in_order(batches):
        for group, rows in _by_group(piece, layers):
            for member, run in group:
                own = member.rows(rows)
                for stepped in run.feed(own) if own.num_rows else ():
                    yield from member.outputs(stepped)
    for member, run in chain.from_iterable(layers):
        for stepped in run.finish():
            yield from member.outputs(stepped)


T = TypeVar("T")


def _by_group(piece: pa.Table, groups: Sequence[T]) -> Iterator[tuple[T, pa.Table]]:
    if len(groups) == 1:
        yield groups[0], piece
        return
    numbers = piece["group_number"]
    for number, group in enumerate(groups):
        yield group, piece.filter(pc.equal(numbers, number))


def step(
    events: pa.Table, states: pa.Table, table: Table, *, evidence_max: int, until: int | None = None, forgets: bool = False
) -> Stepped:
    """One micro-batch: events (key, symbol, offset, time, event_id) in any order, and the stored states of their keys.

    Returns the outputs, and the states that changed; where keys are forgotten, those of all keys with events.
    Timers of a key without events fire too, up to `until`."""
    run = make_run(table, evidence_max=evidence_max, until=until, forgets=forgets)
    pieces = [run.feed(Rows.of(_sorted(events, states))), run.finish()]
    return Stepped(pa.concat_tables([piece.outputs for piece in pieces]), pa.concat_tables([piece.states for piece in pieces]))


def _sorted(events: pa.Table, states: pa.Table) -> pa.Table:
    """Events and state rows by key and offset. Keys become numbers first, which sort much faster than texts."""
    if states.num_rows:
        events = pa.concat_tables([as_rows(states, events.schema), events], promote_options="default")
    codes = pc.dictionary_encode(events["key"].combine_chunks()).indices.to_numpy()
    order = np.lexsort((events["offset"].to_numpy(), codes))
    return events.take(pa.array(order))


def as_rows(states: pa.Table, schema: pa.Schema) -> pa.Table:
    """States as rows that sort before the events of their keys."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {name: states[name] for name in STATE_SCHEMA.names}
    columns["time"] = states["started_at"]
    for name in schema.names:
        if name.startswith("symbol"):
            columns[name] = pa.array(np.full(states.num_rows, STATE_ROW), schema.field(name).type)
    columns["offset"] = pa.array(np.full(states.num_rows, -1, np.int64))
    columns["event_id"] = pa.nulls(states.num_rows, pa.string())
    return pa.table(columns)
