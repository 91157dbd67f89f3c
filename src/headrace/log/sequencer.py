"""Sequencer: moves committed outbox rows into the topics' logs.

Owns: the moment an event gets its position. Promises: per topic, positions rise by one and never change; a batch is one
transaction; a second sequencer skips a topic while the first holds its lock. Any number may run; one per node does.

How it sleeps: while events flow, it looks every few milliseconds and nobody has to call it. After a moment of quiet it marks
the topics as asleep; from then on a publisher rings at commit, once, and the sequencer is there within milliseconds. A
transaction that published before the mark and commits after it does not ring, so while one is open the sequencer keeps watch.
What is left, a ring lost with a connection, is found by a look every second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.db import AsyncConnection, Connection, Pool, Subscription, map_database_errors, retry_until_connected

BATCH = 5000
GATHER_S = 0.0002
"""Pause per event moved, within the bounds below. A step costs about a millisecond however few events it moves: at a low rate
steps are small and soon, at a high rate they are large and their cost is shared."""
GATHER_MIN_S, GATHER_MAX_S = 0.004, 0.02
LOOK_S = (0.002, 0.004, 0.008, 0.016, 0.025)
"""Pauses between looks that found nothing, while topics are awake."""
QUIET_S = 0.25
"""Quiet time after which a topic falls asleep."""
WATCH_S = 0.025
SLEEP_S = 1.0
TRIM_S = 5.0


@dataclass(frozen=True)
class Sequenced:
    """What one step did to one topic."""

    topic_id: int
    first_position: int
    last_position: int
    events: int
    duplicates: int


def sequence(conn: Connection, *, batch: int = BATCH) -> list[Sequenced]:
    """One step: moves up to a batch per topic, in one transaction."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Sequenced)) as cursor:
        return cursor.execute("select * from headrace.sequence(%s)", (batch,)).fetchall()


class Sequencer:
    """The loop of one node, until told to stop."""

    def __init__(self, pool: Pool, bell: Subscription, stop: asyncio.Event, *, batch: int = BATCH) -> None:
        self._pool = pool
        self._bell = bell
        self._stop = stop
        self._batch = batch
        self._trimmed_at = time.monotonic()
        self._idle_looks = 0
        self.events = 0
        """How many events this sequencer has moved."""

    async def run(self) -> None:
        while not self._stop.is_set():
            moved = await retry_until_connected("sequencer", self._step)
            if moved:
                self._idle_looks = 0
                if max(one.events for one in moved) < self._batch:
                    gather_s = GATHER_S * sum(one.events for one in moved)
                    await asyncio.sleep(min(max(gather_s, GATHER_MIN_S), GATHER_MAX_S))
            else:
                await self._rest()
            if time.monotonic() - self._trimmed_at > TRIM_S:
                await retry_until_connected("sequencer", self._trim)

    async def _step(self) -> Sequence[Sequenced]:
        async with self._pool.connection() as conn:
            moved = await _sequence(conn, self._batch)
        self.events += sum(one.events for one in moved)
        return moved

    async def _rest(self) -> None:
        """Waits for what the state of the topics asks for."""
        if self._idle_looks < len(LOOK_S):
            await self._bell.wait(LOOK_S[self._idle_looks])
            self._idle_looks += 1
            return
        state = await retry_until_connected("sequencer", self._settle)
        if state == "sleep" and self._idle_looks < 2 * len(LOOK_S):
            # A publisher that read "awake" a moment ago may only now be writing: look a few times more before the long sleep.
            state = "watch"
            self._idle_looks += 1
        await self._bell.wait({"busy": LOOK_S[-1], "watch": WATCH_S}.get(state, SLEEP_S))

    async def _settle(self) -> str:
        async with self._pool.connection() as conn:
            row = await (await conn.execute("select headrace_internal.sequencer_rest(%s)", (QUIET_S,))).fetchone()
        assert row is not None
        return str(row[0])

    async def _trim(self) -> None:
        async with self._pool.connection() as conn:
            await conn.execute("select headrace_internal.trim_outbox()")
        self._trimmed_at = time.monotonic()


async def _sequence(conn: AsyncConnection, batch: int) -> list[Sequenced]:
    async with conn.cursor(row_factory=class_row(Sequenced)) as cursor:
        return await (await cursor.execute("select * from headrace.sequence(%s)", (batch,))).fetchall()
