"""Explain: where the machine of a key stands, what it waits for, and what would make it fire."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.correlators.correlator import get_correlator
from headrace.correlators.instances import Instance, from_us, read_instances, to_us
from headrace.db import Connection, map_database_errors, query
from headrace.lang.ecl import (
    StateLimitExceeded,
    Status,
    Trace,
    Waits,
    from_json,
    shortest_to_output,
    start_state,
    status_of,
    waits_for,
)


@dataclass(frozen=True)
class KeyState:
    """Where a key stands. `known`: it has begun and left a trace; else it is as one that has seen nothing."""

    correlator: str
    version: int
    key: str
    known: bool
    status: Status
    units: tuple[int, ...]
    started_at: datetime | None
    seen_at: datetime | None
    evidence: tuple[int, ...]
    evidence_total: int
    waits_for: Waits
    """What can move it: classes of events, and deadlines in microseconds since 1970."""
    deadlines: tuple[datetime, ...]
    shortest: Trace | None
    """The shortest sequence of events, with times from now, that makes it push something. None: there is none."""
    pushed: int
    """How many tokens it has pushed so far."""


def key_state(conn: Connection, name: str, key: str = "", *, namespace: str | None = None) -> KeyState | None:
    """Where a key of a correlator stands ('' for one without a key); None while no version runs. Raises UnknownCorrelator."""
    found = get_correlator(conn, name, namespace=namespace)
    given = {"correlator": name, "namespace": namespace, "correlator_id": found.correlator_id, "key": key}
    with map_database_errors(), conn.transaction():
        row = conn.execute(query("correlators/running_table"), given).fetchone()
        instances = read_instances(conn, found.correlator_id, [key])
        moment, pushed = conn.execute(query("correlators/key_pushed"), given).fetchone() or (None, 0)
    if row is None or moment is None:
        return None
    table, now = from_json(row[0]), to_us(moment)
    instance = instances[0] if instances else Instance(key, start_state(table, now), now, now)
    try:
        shortest = shortest_to_output(table, instance.state, now=now)
    except StateLimitExceeded:
        shortest = None
    waits = waits_for(table, instance.state)
    return KeyState(
        correlator=name,
        version=found.version,
        key=key,
        known=bool(instances),
        status=status_of(table, instance.state),
        units=instance.state.units,
        started_at=from_us(instance.started_at) if instances else None,
        seen_at=from_us(instance.seen_at) if instances else None,
        evidence=instance.evidence,
        evidence_total=instance.evidence_total,
        waits_for=waits,
        deadlines=tuple(from_us(time) for time in waits.deadlines),
        shortest=shortest,
        pushed=pushed,
    )
