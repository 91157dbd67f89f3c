"""Timers that no event sets off: fired by the same stepping as in the database, in one transaction with what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.correlators import Batch, deliver_correlations, instance_of, to_us, write_instances
from headrace.db import Connection, query
from headrace.spark import CorrelatorSpec

KEYS_MAX = 1_000
"""Keys whose timers fire in one transaction."""


@dataclass(frozen=True)
class Fired:
    """Of how many keys timers fired, and how many tokens they pushed."""

    keys: int
    outputs: int


def fire_timers(conn: Connection, correlator_id: int, version_id: int, spec: CorrelatorSpec, settled: datetime) -> Fired | None:
    """Fires the timers due by a time that no event to come is before, in the caller's transaction. None: not here, not now."""
    given = {"correlator_id": correlator_id, "settled": settled, "max": KEYS_MAX}
    claim = conn.execute(query("spark/pipeline/claim_timers"), given).fetchone()
    if claim is None or claim[0] != version_id:
        return None
    batch = Batch(spec.table, spec.evidence_max, spec.forgets)
    due = [instance_of(row) for row in conn.execute(query("correlators/due_instances"), given).fetchall()]
    batch.know(due)
    for one in due:
        if not batch.tick(one.key, to_us(settled)):
            break
    write_instances(conn, correlator_id, batch.changed)
    outputs = deliver_correlations(conn, version_id, batch.outputs)
    return Fired(len(due), outputs) if due else None
