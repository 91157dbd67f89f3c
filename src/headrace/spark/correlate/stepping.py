"""Stepping classified rows by whatever way their table allows: the piece that batch, streaming and engines share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lang.ecl import Table
from headrace.spark.correlate.general import GeneralRun
from headrace.spark.correlate.layers import Layers
from headrace.spark.correlate.order import in_order
from headrace.spark.correlate.rows import OUTPUT, OUTPUT_SCHEMA, STATE, STATE_ROW, STATE_SCHEMA, Rows, Stepped, joined, tagged
from headrace.spark.correlate.simple import SimpleRun


class Run:
    """One sorted run of classified rows through one table."""

    def __init__(self, table: Table, *, evidence_max: int, until: int | None = None, forgets: bool = False) -> None:
        # Timers need no event to fire, so a table with timers is never simple; `until` means nothing to one without.
        self._simple = SimpleRun(table, evidence_max=evidence_max, forgets=forgets) if table.simple else None
        self._general = GeneralRun(table, evidence_max=evidence_max, until=until, forgets=forgets)

    def feed(self, rows: Rows) -> Stepped:
        return Stepped(*(self._simple or self._general).feed(rows))

    def finish(self) -> Stepped:
        if self._simple is not None:
            return Stepped(OUTPUT_SCHEMA.empty_table(), self._simple.finish())
        return Stepped(*self._general.finish())


def stepped_batches(
    batches: Iterable[pa.RecordBatch],
    table: Table,
    *,
    evidence_max: int,
    until: int | None,
    with_states: bool,
    forgets: bool = False,
) -> Iterator[pa.RecordBatch]:
    """A partition, sorted by bucket and offset → its outputs and, if asked for, states, as rows of one schema."""
    layers = Layers(lambda: Run(table, evidence_max=evidence_max, until=until, forgets=forgets))
    for piece in in_order(batches):
        for stepped in layers.feed(piece):
            yield from _told(stepped, with_states)
    for stepped in layers.finish():
        yield from _told(stepped, with_states)


def _told(stepped: Stepped, with_states: bool) -> Iterator[pa.RecordBatch]:
    yield from tagged(OUTPUT, stepped.outputs).to_batches()
    if with_states:
        yield from tagged(STATE, stepped.states).to_batches()


def step(
    events: pa.Table, states: pa.Table, table: Table, *, evidence_max: int, until: int | None = None, forgets: bool = False
) -> Stepped:
    """One micro-batch: events (key, symbol, offset, time, event_id) in any order, and the states of their keys from before.

    Gives the outputs, and the states that changed; where keys are forgotten, of all with events.
    A key of `states` without events is stepped too: its timers up to `until`."""
    run = Run(table, evidence_max=evidence_max, until=until, forgets=forgets)
    pieces = [run.feed(Rows.of(_sorted(events, states))), run.finish()]
    return Stepped(
        joined([piece.outputs for piece in pieces], OUTPUT_SCHEMA), joined([piece.states for piece in pieces], STATE_SCHEMA)
    )


def _sorted(events: pa.Table, states: pa.Table) -> pa.Table:
    """Events and state rows by key and offset. Keys become numbers first: those sort much faster than texts."""
    if states.num_rows:
        events = pa.concat_tables([as_rows(states, events.schema), events], promote_options="default")
    coded = pc.dictionary_encode(events["key"].combine_chunks())
    order = np.lexsort((events["offset"].to_numpy(), coded.indices.to_numpy()))
    return events.take(pa.array(order))


def as_rows(states: pa.Table, schema: pa.Schema) -> pa.Table:
    """States as rows that stand before the events of their keys."""
    none = np.full(states.num_rows, -1, np.int64)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {name: states[name] for name in STATE_SCHEMA.names}
    columns["time"] = states["started_at"]
    for name in schema.names:
        if name.startswith("symbol"):
            columns[name] = pa.array(np.full(states.num_rows, STATE_ROW), schema.field(name).type)
    columns["offset"] = pa.array(none)
    columns["event_id"] = pa.nulls(states.num_rows, pa.string())
    return pa.table(columns)
