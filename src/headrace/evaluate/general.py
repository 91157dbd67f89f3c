"""Steps Arrow rows by any table (nodes, several alphabets, timers), with the stepping that the database engine uses.

Promises the same as SimpleRun, and timers: those due by an event's time fire before it, and at the end those due by `until`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import pyarrow as pa

from headrace.evaluate.rows import OUTPUT_SCHEMA, STATE_ROW, STATE_SCHEMA, Rows, Stepped
from headrace.lang.ecl import Correlation, Instance, Table, TimerFlood, make_batch

FIRINGS_MAX = 100_000
"""Timer firings of one key between two events; more means a pattern that ticks through a long silence."""


class GeneralRun:
    """Steps pieces of rows, key by key; a key may continue in the next piece."""

    def __init__(self, table: Table, *, evidence_max: int, until: int | None = None, forgets: bool = False) -> None:
        self._batch = make_batch(table, evidence_max, forgets)
        self._until = until
        self._key: str | None = None
        self._event_ids: list[str | None] = []
        """Of each output."""
        self._changed: list[Instance] = []

    def feed(self, rows: Rows) -> Stepped:
        """The outputs of these rows, and the changed states of the keys that are complete."""
        batch, outputs = self._batch, self._batch.outputs
        states = read_instances(rows.states)
        symbols = zip(rows.symbol.tolist(), *(other.tolist() for other in rows.others), strict=True)
        facts = repeat(None, len(rows.key)) if rows.facts is None else rows.facts.to_pylist()
        columns = (rows.key.to_pylist(), symbols, rows.offset.tolist(), rows.time.tolist(), rows.event_id.to_pylist(), facts)
        for key, symbol, offset, time, event_id, fact in zip(*columns, strict=True):
            if key != self._key:
                self._end_key()
                self._key = key
            if symbol[0] == STATE_ROW:
                batch.load([next(states)])
                continue
            before = len(outputs)
            batch.ticks_left = FIRINGS_MAX
            if not batch.step(key, offset, symbol, time, fact):
                raise _flood(key, time)
            if len(outputs) > before:
                self._event_ids += [None if output.position is None else event_id for output in outputs[before:]]
        return self._results()

    def finish(self) -> Stepped:
        """What is left: the timers of the last key, and its state."""
        self._end_key()
        return self._results()

    def _end_key(self) -> None:
        """The last key is complete: fire its timers until the end, and keep its state."""
        if self._key is None:
            return
        self._batch.ticks_left = FIRINGS_MAX
        if self._until is not None and not self._batch.tick(self._key, self._until):
            raise _flood(self._key, self._until)
        self._event_ids += [None] * (len(self._batch.outputs) - len(self._event_ids))
        instance = self._batch.pop(self._key)
        if instance.is_changed:
            self._changed.append(instance)
        self._key = None

    def _results(self) -> Stepped:
        outputs = _output_table(self._batch.outputs, self._event_ids)
        states = _state_table(self._changed)
        self._batch.outputs.clear()
        self._event_ids, self._changed = [], []
        return Stepped(outputs, states)


def _flood(key: str, time: int) -> TimerFlood:
    return TimerFlood(f"key {key!r}: more than {FIRINGS_MAX} timer firings up to {time} us; use longer timers")


def _output_table(outputs: list[Correlation], event_ids: list[str | None]) -> pa.Table:
    if not outputs:
        return OUTPUT_SCHEMA.empty_table()
    keys, positions, times, tokens, places, evidence, totals, captured = zip(*outputs, strict=True)
    return pa.table([keys, tokens, positions, times, places, evidence, totals, event_ids, captured], schema=OUTPUT_SCHEMA)


def _state_table(instances: list[Instance]) -> pa.Table:
    if not instances:
        return STATE_SCHEMA.empty_table()
    rows = [(i.key, i.units, i.deadlines, i.evidence, i.evidence_total, i.started_at, i.seen_at, i.memory) for i in instances]
    return pa.table(list(zip(*rows, strict=True)), schema=STATE_SCHEMA)


def read_instances(states: pa.Table | None) -> Iterator[Instance]:
    """The instances of state rows."""
    if states is None:
        return
    names = ("key", "units", "deadlines", "memory", "started_at", "seen_at", "evidence", "evidence_total")
    for key, units, deadlines, memory, *rest in zip(*(states[name].to_pylist() for name in names), strict=True):
        instance = Instance(key, tuple(units), tuple(deadlines), *rest)
        instance.memory = memory
        yield instance
