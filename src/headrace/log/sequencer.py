"""Sequencer: moves committed outbox rows into the logs of their topics.

Owns: the moment an event gets its position. Promises: per topic, positions rise by one and never change; a batch is one
transaction; a second sequencer skips a topic while the first holds its lock. Any number may run; every node runs one.

How it sleeps: while events flow, it polls every few milliseconds and needs no wake-up. After a quiet moment it marks the topics as
asleep; from then on a publisher notifies it once, at commit, and it answers within milliseconds. A transaction that published
before the mark and commits after it does not notify, so the sequencer keeps polling while one is open. A notification lost with
its connection is made good by a poll every second. Where the server allows prepared transactions, which cannot notify, it polls ten
times a second instead of sleeping.

A topic that fails stops neither the others nor the loop: see headrace.sequence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from headrace.db import Connection, LoopSteps, Pace, Pool, Subscription, fetch_exchanged, fetch_rows, fetch_value_async

BATCH = 5000
SHARE, PAUSE_MAX_S = 0.4, 0.05
"""How much of its time the sequencer may spend on steps that are not full, and its longest pause after one."""
POLL_S = (0.002, 0.004, 0.008, 0.016, 0.025)
"""Pauses between polls that found nothing, while topics are awake."""
QUIET_S = 0.25
"""Quiet time after which a topic falls asleep."""
WATCH_S = 0.025
SLEEP_S = 1.0
UNNOTIFIED_S = 0.1
"""Pause between polls while all topics sleep and publishers do not notify, because the server allows prepared transactions."""
TRIM_S = 3.0
PAUSES_S = {"busy": POLL_S[-1], "watch": WATCH_S, "poll": UNNOTIFIED_S, "sleep": SLEEP_S}
"""Longest wait for a notification, by the state of the topics."""

_SEQUENCE: LiteralString = (
    "select topic_id, first_position, last_position, events, duplicates from headrace.sequence(%s::integer)"
)
# With the time that the step took, without its commit.
_SEQUENCE_TIMED: LiteralString = (
    "select topic_id, first_position, last_position, events, duplicates, "
    "date_part('epoch', clock_timestamp() - statement_timestamp()) from headrace.sequence(%s::integer)"
)


@dataclass(frozen=True)
class SequencedTopic:
    """What one step did to one topic."""

    topic_id: int
    first_position: int
    last_position: int
    events: int
    duplicates: int


def sequence(conn: Connection, *, batch: int = BATCH) -> list[SequencedTopic]:
    """One step: moves up to a batch per topic, in one transaction."""
    return fetch_rows(conn, SequencedTopic, _SEQUENCE, (batch,))


class Sequencer:
    """The sequencer loop of a node. It runs until `stop` is set."""

    def __init__(self, pool: Pool, subscription: Subscription, stop: asyncio.Event, *, batch: int = BATCH) -> None:
        self._pool = pool
        self._subscription = subscription
        self._stop = stop
        self._batch = batch
        self._trimmed_at = time.monotonic()
        self._idle_polls = 0
        self._pace = Pace(share=SHARE, pause_max_s=PAUSE_MAX_S)
        self._cost_s = 0.0
        """How long the server worked on the last step. Waiting for the disk at its commit is not counted: it costs no CPU."""
        self._steps = LoopSteps("sequencer", stop, pool=pool)
        # An error of these must not keep events from the log.
        self._side_steps = {step: LoopSteps(f"sequencer: {step}", stop, pool=pool) for step in ("rest", "trim")}
        self.events = 0
        """Number of events this sequencer has moved."""

    async def run(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            topics = await self._steps.run(self._step)
            if topics:
                self._idle_polls = 0
                pause_s = self._pace.pause_s(self._cost_s, elapsed_s=time.monotonic() - started)
                if max(topic.events for topic in topics) < self._batch:
                    await asyncio.sleep(pause_s)
            else:
                await self._rest()
            if time.monotonic() - self._trimmed_at > TRIM_S:
                await self._side_steps["trim"].attempt(self._trim)

    async def _step(self) -> Sequence[SequencedTopic]:
        async with self._pool.connection() as conn:
            rows = await fetch_exchanged(conn, _SEQUENCE_TIMED, (self._batch,))
        topics = [SequencedTopic(*row) for *row, _ in rows]
        self._cost_s = rows[-1][-1] if rows else 0.0
        self.events += sum(topic.events for topic in topics)
        return topics

    async def _rest(self) -> None:
        """Waits as long as the state of the topics allows."""
        if self._idle_polls < len(POLL_S):
            await self._subscription.wait(POLL_S[self._idle_polls])
            self._idle_polls += 1
            return
        state = await self._side_steps["rest"].attempt(self._mark_asleep) or "busy"
        if state in ("sleep", "poll") and self._idle_polls < 2 * len(POLL_S):
            # A publisher that read "awake" a moment ago may only now be writing: poll a few times more before the long sleep.
            state = "watch"
            self._idle_polls += 1
        await self._subscription.wait(PAUSES_S[state])

    async def _mark_asleep(self) -> str:
        """Marks quiet topics as asleep and returns what to do now: busy, watch, poll or sleep."""
        return str(await fetch_value_async(self._pool, "select headrace_internal.sequencer_rest(%s)", (QUIET_S,)))

    async def _trim(self) -> None:
        await fetch_value_async(self._pool, "select headrace_internal.trim_outbox()")
        self._trimmed_at = time.monotonic()
