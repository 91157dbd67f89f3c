"""Steps Arrow rows by a table of several units that is multiplied out to one automaton.

Promises the same as GeneralRun. A loop of a hundred is a counter beside an automaton, and stepping the two by Python takes ten times
as long as one automaton with a hundred times the states."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from headrace.evaluate.rows import STATE_ROW, STATE_SCHEMA, Rows, Stepped
from headrace.evaluate.simple import CellArrays, SimpleRun
from headrace.lang.ecl import MultipliedTable, Table


class MultipliedRun:
    """Steps pieces of rows; a key may continue in the next piece."""

    def __init__(self, table: Table, multiplied: MultipliedTable, *, evidence_max: int, forgets: bool = False) -> None:
        self._radices = [alphabet.size for alphabet in table.alphabets]
        self._units = pa.array(multiplied.states, pa.list_(pa.int32()))
        self._numbers = {units: number for number, units in enumerate(multiplied.states)}
        arrays = CellArrays.from_table(multiplied.simple)
        self._run = SimpleRun(arrays, evidence_max=evidence_max, forgets=forgets, stores_new=True)

    def knows(self, states: pa.Table) -> bool:
        """Whether the automaton has these states. A state that was carried over from another version may not be reachable."""
        return all(tuple(units) in self._numbers for units in states["units"].to_pylist())

    def feed(self, rows: Rows) -> Stepped:
        """The outputs of these rows, and the changed states of the keys that are complete."""
        symbol, radix = rows.symbol.copy(), 1
        for other, size in zip(rows.others, self._radices, strict=False):
            radix *= size
            symbol += other * radix
        symbol[rows.symbol == STATE_ROW] = STATE_ROW
        states = rows.states
        if states is not None:
            numbers = [[self._numbers[tuple(units)]] for units in states["units"].to_pylist()]
            states = _with_units(states, pa.array(numbers, pa.list_(pa.int32())))
        return self._unnumbered(self._run.feed(replace(rows, symbol=symbol, others=(), states=states)))

    def finish(self) -> Stepped:
        """The state of the last key, if it changed."""
        return self._unnumbered(self._run.finish())

    def _unnumbered(self, stepped: Stepped) -> Stepped:
        numbers = stepped.states["units"].combine_chunks().flatten()
        return Stepped(stepped.outputs, _with_units(stepped.states, self._units.take(numbers)))


def _with_units(states: pa.Table, units: pa.ListArray) -> pa.Table:
    return states.set_column(STATE_SCHEMA.names.index("units"), STATE_SCHEMA.field("units"), units)
