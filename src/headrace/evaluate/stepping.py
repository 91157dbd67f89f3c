"""Steps classified rows in the fastest way that their table allows; batches, streams and the corpus share this."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.evaluate.general import GeneralRun
from headrace.evaluate.kernel import is_compiled
from headrace.evaluate.multiplied import MultipliedRun
from headrace.evaluate.registered import RegisterRun
from headrace.evaluate.rows import OUTPUT_SCHEMA, STATE_ROW, STATE_SCHEMA, Rows, Stepped
from headrace.evaluate.simple import SimpleRun
from headrace.evaluate.sorting import sort_rows
from headrace.lang.ecl import MultipliedTable, Table

NUMBERED_SCHEMA = pa.schema([("number", pa.int32()), *OUTPUT_SCHEMA])
"""Outputs, with the number of their correlator among those that share a pass."""


class Run(Protocol):
    """Steps rows in which the rows of a key are adjacent."""

    def feed(self, rows: Rows) -> Stepped: ...
    def finish(self) -> Stepped: ...


def make_run(
    table: Table, *, evidence_max: int, until: int | None = None, forgets: bool = False, states: pa.Table | None = None
) -> Run:
    """A run of sorted, classified rows through one table. Only tables with timers need `until`. `states` are all state rows
    among them."""
    if table.simple:
        return SimpleRun(table, evidence_max=evidence_max, forgets=forgets)
    if table.registers is not None and not table.registers.each and not table.timers and is_compiled():
        return RegisterRun(table, evidence_max=evidence_max, forgets=forgets)
    if (multiplied := MultipliedTable.of(table)) is not None:
        run = MultipliedRun(table, multiplied, evidence_max=evidence_max, forgets=forgets)
        if states is None or run.knows(states):
            return run
    return GeneralRun(table, evidence_max=evidence_max, until=until, forgets=forgets)


def step(
    events: pa.Table, states: pa.Table, table: Table, *, evidence_max: int, until: int | None = None, forgets: bool = False
) -> Stepped:
    """One micro-batch: events (key, symbol, offset, time, event_id) in any order, and the stored states of their keys.

    Returns the outputs, and the states that changed; where keys are forgotten, those of all keys with events.
    Timers of a key without events fire too, up to `until`."""
    run = make_run(table, evidence_max=evidence_max, until=until, forgets=forgets, states=states)
    pieces = [run.feed(Rows.from_table(_sorted(events, states))), run.finish()]
    return Stepped(pa.concat_tables([piece.outputs for piece in pieces]), pa.concat_tables([piece.states for piece in pieces]))


def _sorted(events: pa.Table, states: pa.Table) -> pa.Table:
    """Events and state rows by key and offset."""
    if states.num_rows:
        events = pa.concat_tables([as_rows(states, events.schema), events], promote_options="default")
    return sort_rows(events)


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
