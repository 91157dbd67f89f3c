"""Explains the instance state of a key: what it waits for, and what would make it push a token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.correlators.correlator import get_correlator
from headrace.correlators.instances import instance_of, moment_at
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import micros_of
from headrace.lang.ecl import (
    StateLimitExceeded,
    Status,
    TableState,
    Trace,
    Waits,
    from_json,
    read_machines,
    shortest_to_output,
    start_state,
    status_of,
    waits_for,
)


@dataclass(frozen=True)
class KeyState:
    """The instance state of a key. `known`: it is stored; otherwise it is the state of a key without events."""

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
    """What can change it: classes of events, and deadlines in microseconds since 1970."""
    deadlines: tuple[datetime, ...]
    shortest: Trace | None
    """The shortest sequence of events, with times from now, that makes it push a token; None where there is none."""
    pushed: int
    """How many tokens it has pushed so far."""
    captured: tuple[Mapping[str, object], ...] = ()
    """What the registers of a pattern that keeps values hold, one entry per running instance, the oldest first. The state above is that
    of the newest."""


def key_state(conn: Connection, name: str, key: str = "", *, namespace: str | None = None) -> KeyState | None:
    """The state of a key ('' for a correlator without a key); None while no version runs. Raises UnknownCorrelator."""
    correlator = get_correlator(conn, name, namespace=namespace)
    parameters = {
        "correlator": name,
        "namespace": namespace,
        "correlator_id": correlator.correlator_id,
        "key": key,
        "keys": [key],
    }
    with map_database_errors(), conn.transaction():
        row = conn.execute(query("correlators/running_table"), parameters).fetchone()
        instance_row = conn.execute(query("correlators/read_instances"), parameters).fetchone()
        moment, pushed = conn.execute(query("correlators/key_pushed"), parameters).fetchone() or (None, 0)
    if row is None or moment is None:
        return None
    table, now = from_json(row[0]), micros_of(moment)
    instance = instance_of(instance_row) if instance_row else None
    machines = read_machines(table, instance) if instance and table.program else []
    if instance and machines:
        newest = machines[-1]
        instance.evidence, instance.evidence_total = newest.evidence, newest.evidence_total
        state = TableState(newest.units, newest.deadlines, newest.memory or ())
    else:
        state = instance.state if instance else start_state(table, now)
    try:
        shortest = shortest_to_output(table, state, now=now)
    except StateLimitExceeded:
        shortest = None
    waits = waits_for(table, state)
    return KeyState(
        correlator=name,
        version=correlator.version,
        key=key,
        known=instance is not None,
        status=status_of(table, state),
        units=state.units,
        started_at=moment_at(instance.started_at) if instance else None,
        seen_at=moment_at(instance.seen_at) if instance else None,
        evidence=tuple(instance.evidence) if instance else (),
        evidence_total=instance.evidence_total if instance else 0,
        waits_for=waits,
        deadlines=tuple(moment_at(time) for time in waits.deadlines),
        shortest=shortest,
        pushed=pushed,
        captured=tuple(table.program.show_state(machine.memory or table.program.empty, now) for machine in machines)
        if table.program
        else (),
    )
