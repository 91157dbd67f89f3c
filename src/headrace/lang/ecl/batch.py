"""Chooses how the instances of a table are stepped."""

from __future__ import annotations

from headrace.lang.ecl.register_stepping import RegisterBatch
from headrace.lang.ecl.stepping import TICKS_MAX, Batch
from headrace.lang.ecl.table import Table

AnyBatch = Batch | RegisterBatch


def make_batch(table: Table, evidence_max: int, forgets: bool = False, *, ticks_left: int = TICKS_MAX) -> AnyBatch:
    """The events of one batch and the instances of their keys.

    `forgets`: the correlator forgets keys without events, so the time of a key's last event is always written."""
    kind = Batch if table.registers is None else RegisterBatch
    return kind(table, evidence_max, forgets, ticks_left=ticks_left)
