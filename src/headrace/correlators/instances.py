"""Instances and outputs of a correlator, as any engine reads and writes them.

The boundary between stepping and keeping: an engine reads the instances of its keys, steps them by the compiled table, and
then, in one transaction, writes them back, delivers the outputs and moves the cursor. The database's own engine does no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.db import AsyncConnection, Connection, query
from headrace.lang.ecl import TableState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


def to_us(moment: datetime) -> int:
    """A moment as whole microseconds since 1970: the time of tables."""
    return (moment - _EPOCH) // _US


def from_us(time: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time)


@dataclass(frozen=True, slots=True)
class Instance:
    """Where the machine of a key stands. Times in microseconds. `evidence_total` counts what `evidence` was cut from."""

    key: str
    state: TableState
    started_at: int
    seen_at: int
    evidence: tuple[int, ...] = ()
    evidence_total: int = 0


@dataclass(frozen=True, slots=True)
class Correlation:
    """A token that was pushed: by an event (its position) or by a timer (None). `place` counts from 1 among the outputs of that
    event, or of that deadline, of that key."""

    key: str
    position: int | None
    time: int
    token: str
    place: int
    evidence: tuple[int, ...]
    evidence_total: int


_READ = "correlators/read_instances"
_WRITE = "correlators/write_instances"
_DELIVER = "correlators/deliver"


def read_instances(conn: Connection, correlator_id: int, keys: Sequence[str]) -> list[Instance]:
    """The instances of these keys; a key without one has not begun, or stands at the start of a simple table."""
    given = {"correlator_id": correlator_id, "keys": list(keys)}
    return [instance_of(row) for row in conn.execute(query(_READ), given).fetchall()]


async def read_instances_async(conn: AsyncConnection, correlator_id: int, keys: Sequence[str]) -> list[Instance]:
    given = {"correlator_id": correlator_id, "keys": list(keys)}
    return [instance_of(row) for row in await (await conn.execute(query(_READ), given)).fetchall()]


def write_instances(conn: Connection, correlator_id: int, instances: Sequence[Instance]) -> None:
    """Writes the instances of keys, new or known."""
    if instances:
        conn.execute(query(_WRITE), instance_arrays(correlator_id, instances))


async def write_instances_async(conn: AsyncConnection, correlator_id: int, instances: Sequence[Instance]) -> None:
    if instances:
        await conn.execute(query(_WRITE), instance_arrays(correlator_id, instances))


def deliver_correlations(conn: Connection, version_id: int, outputs: Sequence[Correlation]) -> int:
    """Records outputs and sends what they become; what was delivered before is not again. Returns how many were new."""
    if not outputs:
        return 0
    row = conn.execute(query(_DELIVER), output_arrays(version_id, outputs)).fetchone()
    return int(row[0]) if row else 0


async def deliver_correlations_async(conn: AsyncConnection, version_id: int, outputs: Sequence[Correlation]) -> int:
    if not outputs:
        return 0
    row = await (await conn.execute(query(_DELIVER), output_arrays(version_id, outputs))).fetchone()
    return int(row[0]) if row else 0


Arrays = dict[str, int | list[str] | list[int] | list[int | None] | list[datetime]]


def instance_arrays(correlator_id: int, instances: Sequence[Instance]) -> Arrays:
    """The parameters of headrace.write_instances."""
    return {
        "correlator_id": correlator_id,
        "keys": [one.key for one in instances],
        "units": [literal(one.state.units) for one in instances],
        "deadlines": [literal(one.state.deadlines) for one in instances],
        "started_at": [from_us(one.started_at) for one in instances],
        "seen_at": [from_us(one.seen_at) for one in instances],
        "evidence": [literal(one.evidence) for one in instances],
        "totals": [one.evidence_total for one in instances],
    }


def output_arrays(version_id: int, outputs: Sequence[Correlation]) -> Arrays:
    """The parameters of headrace.deliver_correlations."""
    return {
        "version_id": version_id,
        "keys": [one.key for one in outputs],
        "positions": [one.position for one in outputs],
        "times": [from_us(one.time) for one in outputs],
        "tokens": [one.token for one in outputs],
        "places": [one.place for one in outputs],
        "evidence": [literal(one.evidence) for one in outputs],
        "totals": [one.evidence_total for one in outputs],
    }


def literal(values: Sequence[int | None]) -> str:
    """Integers as PostgreSQL writes an array of them."""
    return "{" + ",".join("null" if value is None else str(value) for value in values) + "}"


def instance_of(row: tuple[str, list[int], list[int | None], datetime, datetime, list[int], int]) -> Instance:
    """An instance out of a row of queries/correlators/read_instances.sql."""
    key, units, deadlines, started_at, seen_at, evidence, total = row
    state = TableState(tuple(units), tuple(deadlines))
    return Instance(key, state, to_us(started_at), to_us(seen_at), tuple(evidence), total)
