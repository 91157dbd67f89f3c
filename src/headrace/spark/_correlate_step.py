"""Stepping classified rows by whatever way their table allows: the piece that batch, streaming and engines share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lang.ecl import Table
from headrace.spark._correlate_general import GeneralRun
from headrace.spark._correlate_rows import OUTPUT, OUTPUT_SCHEMA, STATE, STATE_ROW, STATE_SCHEMA, Rows, joined, tagged
from headrace.spark._correlate_simple import SimpleRun


@dataclass(frozen=True)
class Stepped:
    """The outputs of a batch, and the states of the keys that changed: the rows to be written back."""

    outputs: pa.Table
    states: pa.Table


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
    """A partition that is sorted by key and offset → its outputs and, if asked for, states, as rows of one schema."""
    run = Run(table, evidence_max=evidence_max, until=until, forgets=forgets)
    for batch in batches:
        yield from _told(run.feed(Rows.of(batch)), with_states)
    yield from _told(run.finish(), with_states)


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
