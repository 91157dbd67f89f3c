"""Steps classified rows in the fastest way that their table allows; batches, streams and the corpus share this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.evaluate.automaton_run import ProductRun, SimpleRun
from headrace.evaluate.kernel import is_compiled
from headrace.evaluate.rows import OUTPUT_SCHEMA, STATE_ROW, STATE_SCHEMA, Rows, Stepped, sort_rows
from headrace.evaluate.table_run import RegisterRun, TableRun
from headrace.lang.ecl import ProductAutomaton, Table

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
    if (multiplied := ProductAutomaton.from_table(table)) is not None:
        run = ProductRun(table, multiplied, evidence_max=evidence_max, forgets=forgets)
        if states is None or run.knows(states):
            return run
    return TableRun(table, evidence_max=evidence_max, until=until, forgets=forgets)


def step(
    events: pa.Table, states: pa.Table, table: Table, *, evidence_max: int, until: int | None = None, forgets: bool = False
) -> Stepped:
    """One micro-batch: events (key, symbol, offset, time, event_id) in any order, and the stored states of their keys.

    Returns the outputs, and the states that changed; where keys are forgotten, those of all keys with events.
    Timers of a key without events fire too, up to `until`."""
    run = make_run(table, evidence_max=evidence_max, until=until, forgets=forgets, states=states)
    pieces = [run.feed(Rows.from_table(_merge_states(events, states))), run.finish()]
    return Stepped(pa.concat_tables([piece.outputs for piece in pieces]), pa.concat_tables([piece.states for piece in pieces]))


def _merge_states(events: pa.Table, states: pa.Table) -> pa.Table:
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


KEYS_MAX = 2_000_000
"""More keys than this are not kept: about a gigabyte."""


class WarmStates:
    """The states of one correlator's keys; keys without a state are known too."""

    def __init__(self) -> None:
        self._clear(None)

    def _clear(self, stamp: object) -> None:
        self._stamp = stamp
        self._known = pa.array([], pa.string())
        self._states = STATE_SCHEMA.empty_table()

    def read(self, stamp: object, keys: pa.StringArray, load: Callable[[pa.StringArray], pa.Table]) -> pa.Table:
        """The states of those keys that have one; those of keys that are not known are loaded."""
        if stamp != self._stamp or len(self._known) > KEYS_MAX:
            self._clear(stamp)
        missing = keys.filter(pc.invert(pc.is_in(keys, value_set=self._known)))
        if len(missing):
            self._known = pa.concat_arrays([self._known, missing])
            self._states = pa.concat_tables([self._states, load(missing)])
        return self._states.filter(pc.is_in(self._states["key"], value_set=keys))

    def write(self, stamp: object, changed: pa.Table) -> None:
        """Takes over the changed states, which are of a new stamp."""
        self._stamp = stamp
        others = self._states.filter(pc.invert(pc.is_in(self._states["key"], value_set=changed["key"].combine_chunks())))
        self._states = pa.concat_tables([others, changed]).combine_chunks()
