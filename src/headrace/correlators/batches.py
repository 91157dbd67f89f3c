"""One batch of a correlator: in the database for a simple table, by the node's own stepping for any other.

Promises: instances, outputs and cursor change in the caller's transaction; reads and writes are by sets. Both ways give the same
answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from headrace.correlators.instances import DELIVER, WRITE, instance_of, instance_parameters, output_parameters
from headrace.db import AsyncConnection, Unit, fetch_alone, query
from headrace.lang.condition import micros_of
from headrace.lang.ecl import TICKS_MAX, AnyBatch, Instance, Table, from_json, make_batch

SIMPLE_BATCH = 100_000
"""Events of one batch in the database: a key's row is written once per batch, so larger batches cost less."""
STEPPED_BATCH = 100_000
"""Events of one batch that a node steps; a key's row is read and written once per batch here, too."""
STEPS_AT_ONCE = 2_000
"""Events after which the node's other loops get their turn."""
_CORRELATE: LiteralString = "select events, outputs, position, has_more from headrace_internal.correlate(%s::bigint, %s::integer)"
DUE_BATCH = 1_000
"""Keys whose timers fire in one transaction."""


@dataclass(frozen=True)
class WatchedCorrelator:
    """A correlator with an active version, and the internal consumer that runs it."""

    correlator_id: int
    version_id: int
    consumer_id: int
    topic_id: int
    correlator: str
    topic: str
    namespace: str
    simple: bool

    @property
    def batch(self) -> int:
        """The maximum number of events in one batch."""
        return SIMPLE_BATCH if self.simple else STEPPED_BATCH

    @property
    def unit(self) -> Unit:
        """What its failures are recorded under."""
        return Unit("correlator", self.namespace, self.correlator)

    def __str__(self) -> str:
        return f"correlator {self.namespace}/{self.correlator}"


@dataclass(frozen=True)
class BatchResult:
    """The result of one batch: events passed, tokens pushed, the position it reached, and whether events may wait behind it."""

    events: int
    outputs: int
    position: int
    has_more: bool = False


async def write_instances_async(conn: AsyncConnection, correlator_id: int, instances: Sequence[Instance]) -> None:
    if instances:
        await conn.execute(WRITE, instance_parameters(correlator_id, instances))


class Stepper:
    """Steps correlators, and caches their compiled tables."""

    def __init__(self, *, ticks_max: int = TICKS_MAX) -> None:
        self._ticks_max = ticks_max
        self._tables: dict[int, tuple[int, tuple[Table, int, bool]]] = {}

    async def step(self, conn: AsyncConnection, watched: WatchedCorrelator, limit: int) -> BatchResult | None:
        """The next events, up to a maximum; None when nothing is due here. In the caller's transaction, or, for a simple table, in one of
        its own."""
        parameters = {"correlator_id": watched.correlator_id, "max": limit}
        if watched.simple:
            rows = await fetch_alone(conn, _CORRELATE, (watched.correlator_id, limit))
            return BatchResult(*rows[0]) if rows else None
        statement = """select consumer_id, version_id, from_position, upto, has_more
            from headrace_internal.claim_correlator(%(correlator_id)s, %(max)s)"""
        claim = await (await conn.execute(statement, parameters)).fetchone()
        if claim is None:
            return None
        consumer_id, version_id, position, last, has_more = claim
        batch, table = await self._batch(conn, watched, version_id)
        upto = await _step_events(conn, watched, table, batch, position, last)
        await _write_back(conn, watched, version_id, batch)
        if upto > position:
            await conn.execute("select headrace.advance(%s, -1, %s)", (consumer_id, upto))
        return BatchResult(upto - position, len(batch.outputs), upto, has_more=has_more or upto < last)

    async def fire(self, conn: AsyncConnection, watched: WatchedCorrelator, settled: datetime) -> BatchResult:
        """Fires timers due by a settled time, in the caller's transaction; `events` counts the keys."""
        parameters = {"correlator_id": watched.correlator_id, "settled": settled, "max": DUE_BATCH}
        statement = "select version_id from headrace_internal.claim_correlator(%(correlator_id)s, p_settled => %(settled)s)"
        claim = await (await conn.execute(statement, parameters)).fetchone()
        if claim is None:
            return BatchResult(0, 0, 0)
        batch, _ = await self._batch(conn, watched, claim[0])
        rows = await (await conn.execute(query("correlators/due_instances"), parameters)).fetchall()
        due = [instance_of(row) for row in rows]
        batch.load(due)
        for instance in due:
            if not batch.tick(instance.key, micros_of(settled)):
                break
        await _write_back(conn, watched, claim[0], batch)
        return BatchResult(len(due), len(batch.outputs), 0)

    async def _batch(self, conn: AsyncConnection, watched: WatchedCorrelator, version_id: int) -> tuple[AnyBatch, Table]:
        cached = self._tables.get(watched.correlator_id)
        if cached is None or cached[0] != version_id:
            parameters = {"correlator_id": watched.correlator_id, "version_id": version_id}
            row = await (await conn.execute(query("correlators/active_table"), parameters)).fetchone()
            assert row is not None
            cached = self._tables[watched.correlator_id] = (version_id, (from_json(row[0]), row[1], row[2]))
        return make_batch(*cached[1], ticks_left=self._ticks_max), cached[1][0]


async def _step_events(
    conn: AsyncConnection, watched: WatchedCorrelator, table: Table, batch: AnyBatch, after: int, upto: int
) -> int:
    """Steps the events after a position up to another; returns the position that it reached."""
    # Binary: texts take the driver twice as long. In chunks: the server goes on meanwhile (from libpq 17).
    size = STEPS_AT_ONCE if psycopg.capabilities.has_stream_chunked() else 1
    stream = conn.cursor().stream(_read_statement(table), (watched.correlator_id, after, upto), binary=True, size=size)
    events: list[tuple[Any, ...]] = [event async for event in stream]
    parameters = {"correlator_id": watched.correlator_id, "keys": list(dict.fromkeys(event[1] for event in events))}
    rows = await (await conn.cursor(binary=True).execute(query("correlators/read_instances"), parameters)).fetchall()
    batch.load(instance_of(row) for row in rows)
    for number, event in enumerate(events, 1):
        if number % STEPS_AT_ONCE == 0:
            await asyncio.sleep(0)
        position, key, time, values = event[0], event[1], event[2], event[3:]
        if not batch.step(key, position, values, time, values):
            return int(position) - 1
    return upto


def _read_statement(table: Table) -> sql.Composed:
    """Position, key and time of each event, then its symbols, or its facts for a table with registers. Each of them is a column, and
    the time is in microseconds: arrays and moments take the driver five times as long as texts and numbers."""
    if table.program is not None:
        name, count = "facts", 1 + len(table.program.static) + len(table.program.fields)
    else:
        name, count = "symbols", len(table.alphabets)
    values = [sql.SQL("s.{}[{}]").format(sql.Identifier(name), sql.Literal(number)) for number in range(1, count + 1)]
    if table.program is None and count == 1:
        values = [sql.SQL("s.{}").format(sql.Identifier("symbol"))]
    return sql.SQL(query("correlators/read_symbols")).format(values=sql.SQL(", ").join(values))


async def _write_back(conn: AsyncConnection, watched: WatchedCorrelator, version_id: int, batch: AnyBatch) -> None:
    await write_instances_async(conn, watched.correlator_id, batch.changed)
    if batch.outputs:
        await conn.execute(DELIVER, output_parameters(version_id, batch.outputs))
