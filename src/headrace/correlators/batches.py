"""One batch of a correlator: in the database for a simple table, by the compiled table's own function for any other.

Promises: instances, outputs and cursor in the caller's transaction; reads and writes in sets. Both ways give the same answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg import sql
from psycopg.rows import class_row

from headrace.correlators.instances import (
    deliver_correlations_async,
    instance_of,
    read_instances_async,
    to_us,
    write_instances_async,
)
from headrace.correlators.stepping import TICKS_MAX, Batch, Classified
from headrace.correlators.symbols import symbols_name
from headrace.db import AsyncConnection, query
from headrace.lang.ecl import Table, from_json

SIMPLE_BATCH = 100_000
"""Events of one batch in the database: a key's row is written once per batch, so larger ones cost less."""
STEPPED_BATCH = 5_000
"""Events of one batch that a node steps."""
DUE_BATCH = 1_000
"""Keys whose timers fire in one transaction."""


@dataclass(frozen=True)
class WatchedCorrelator:
    """A correlator in force, and the reserved consumer that runs it."""

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
        """How many events one batch has at most."""
        return SIMPLE_BATCH if self.simple else STEPPED_BATCH

    def __str__(self) -> str:
        return f"correlator {self.namespace}/{self.correlator}"


@dataclass(frozen=True)
class _Running:
    """A version's table, and what else its stepping needs."""

    table: Table
    evidence_max: int
    forgets: bool


@dataclass(frozen=True)
class Correlated:
    """What one batch did: events passed, tokens pushed, and the position it came to."""

    events: int
    outputs: int
    position: int


class Stepper:
    """Steps correlators, and remembers their compiled tables."""

    def __init__(self, *, ticks_max: int = TICKS_MAX) -> None:
        self._ticks_max = ticks_max
        self._tables: dict[int, tuple[int, _Running]] = {}

    async def step(self, conn: AsyncConnection, watched: WatchedCorrelator, most: int) -> Correlated | None:
        """The next events, at most so many, in the caller's transaction; None when nothing is due here."""
        if watched.simple:
            return await _simple(conn, watched, most)
        return await self._stepped(conn, watched, most)

    async def _stepped(self, conn: AsyncConnection, watched: WatchedCorrelator, most: int) -> Correlated | None:
        statement = "select consumer_id, version_id, from_position, upto from headrace_internal.claim_correlator(%s, %s)"
        claim = await (await conn.execute(statement, (watched.correlator_id, most))).fetchone()
        if claim is None:
            return None
        consumer_id, version_id, position, upto = claim
        batch = await self._batch(conn, watched, version_id)
        read = sql.SQL(query("correlators/read_symbols")).format(function=sql.Identifier(symbols_name(watched.correlator_id)))
        async with conn.cursor(row_factory=class_row(Classified)) as cursor:
            events = await (await cursor.execute(read, {"after": position, "upto": upto})).fetchall()
        keys = list(dict.fromkeys(event.key for event in events))
        batch.know(await read_instances_async(conn, watched.correlator_id, keys))
        for event in events:
            if not batch.take(event):
                upto = event.position - 1
                break
        await self._keep(conn, watched, version_id, batch)
        if upto > position:
            await conn.execute("select headrace.advance(%s, -1, %s)", (consumer_id, upto))
        return Correlated(upto - position, len(batch.outputs), upto)

    async def fire(self, conn: AsyncConnection, watched: WatchedCorrelator, settled: datetime) -> Correlated:
        """Fires timers due by a settled time, in the caller's transaction; `events` says of how many keys."""
        given = {"correlator_id": watched.correlator_id, "settled": settled, "max": DUE_BATCH}
        claim = await (await conn.execute(query("correlators/claim_timers"), given)).fetchone()
        if claim is None:
            return Correlated(0, 0, 0)
        batch = await self._batch(conn, watched, claim[0])
        due = [instance_of(row) for row in await (await conn.execute(query("correlators/due_instances"), given)).fetchall()]
        batch.know(due)
        for one in due:
            if not batch.tick(one.key, to_us(settled)):
                break
        await self._keep(conn, watched, claim[0], batch)
        return Correlated(len(due), len(batch.outputs), 0)

    async def _batch(self, conn: AsyncConnection, watched: WatchedCorrelator, version_id: int) -> Batch:
        known = self._tables.get(watched.correlator_id)
        if known is None or known[0] != version_id:
            given = {"correlator_id": watched.correlator_id}
            row = await (await conn.execute(query("correlators/table_in_force"), given)).fetchone()
            assert row is not None
            known = self._tables[watched.correlator_id] = (version_id, _Running(from_json(row[0]), row[1], row[2]))
        running = known[1]
        return Batch(running.table, running.evidence_max, running.forgets, ticks_left=self._ticks_max)

    async def _keep(self, conn: AsyncConnection, watched: WatchedCorrelator, version_id: int, batch: Batch) -> None:
        await write_instances_async(conn, watched.correlator_id, batch.changed)
        await deliver_correlations_async(conn, version_id, batch.outputs)


async def _simple(conn: AsyncConnection, watched: WatchedCorrelator, most: int) -> Correlated | None:
    """One batch of a correlator with a simple table, in the database."""
    async with conn.cursor(row_factory=class_row(Correlated)) as cursor:
        given = {"correlator_id": watched.correlator_id, "max": most}
        return await (await cursor.execute(query("correlators/correlate"), given)).fetchone()
