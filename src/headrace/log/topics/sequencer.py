"""Sequencer: moves committed outbox rows into the logs of their topics.

Owns: the moment an event gets its position. Promises: per topic, positions rise by one and never change; a batch is one
transaction; a second sequencer skips a topic while the first holds its lock. Any number may run; every node runs one.

How it sleeps: while many events flow, it polls every few milliseconds and needs no wake-up. After a quiet moment, or when a second has
had few steps with events, it marks the topics as asleep; from then on a publisher notifies it at commit, and it answers within
milliseconds. A transaction that published before the mark and commits after it does not notify, and one that saw another event wait may
not either, so the sequencer polls forty times a second for a moment after each event, and as long as such a transaction is open. A notification lost with
its connection is made good when the listener connects again, and by a poll every few seconds. Where the server allows prepared
transactions, which cannot notify, it polls ten times a second instead of sleeping.

A topic that fails stops neither the others nor the loop: see headrace.sequence."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from headrace.db import Connection, Listener, Loop, Pace, Pool, StopSignal, fetch_exchanged, fetch_rows, fetch_value_async

BATCH = 5000
PAUSE_MAX_S = 0.05
"""The longest pause after a step that was not full."""
POLL_S, POLL_SHARE = 0.002, 0.1
"""The shortest pause between polls that found nothing, while topics are awake, and how much of its time the sequencer may spend on them."""
NOTIFIED_MAX, NOTIFIED_AGAIN = 50, 25
"""Up to so many steps with events in a second topics stay asleep, because a notification costs less than many polls. Topics that are
awake fall asleep below the second number."""
QUIET_S = 0.25
"""Quiet time after which a topic falls asleep."""
WATCH_S, WATCHES = 0.025, 5
"""Pause between polls while a transaction that has published is open, and how many such polls come before a sleep."""
SLEEP_S = 5.0
"""Longest sleep without a notification."""
UNNOTIFIED_S = 0.1
"""Pause between polls while all topics sleep and publishers do not notify, because the server allows prepared transactions."""
TRIM_S, TRIMS_S, IDLE_TRIM_S = 3.0, 20.0, 60.0
"""How often drained slots of the outbox are truncated: while events flow and until each slot has had its turn, and later."""
PAUSES_S = {"busy": WATCH_S, "watch": WATCH_S, "poll": UNNOTIFIED_S, "sleep": SLEEP_S}
"""Longest wait for a notification, by the state of the topics."""

_SEQUENCE: LiteralString = (
    "select topic_id, first_position, last_position, events, duplicates from headrace.sequence(%s::integer)"
)
# The last column is the time that the step took, without its commit.
_SEQUENCE_TIMED: LiteralString = (
    "select topic_id, first_position, last_position, events, duplicates, "
    "date_part('epoch', clock_timestamp() - statement_timestamp()) from headrace.sequence(%s::integer, %s::boolean)"
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

    def __init__(self, pool: Pool, listener: Listener, stop: StopSignal, *, batch: int = BATCH) -> None:
        self._pool = pool
        self._listener = listener
        self._batch = batch
        self._trimmed_at = time.monotonic()
        self._active_at = time.monotonic()
        self._watches = 0
        self._moves: deque[float] = deque(maxlen=NOTIFIED_MAX)
        """When the newest steps with events ended."""
        self._are_notified = False
        """Publishers notify of topics that are asleep, as far as known."""
        self._is_resting = False
        """Few steps have events, so topics are left asleep."""
        self._pace = Pace(pause_max_s=PAUSE_MAX_S)
        self._poll_pace = Pace(share=POLL_SHARE, pause_max_s=WATCH_S)
        self._cost_s = 0.0
        """How long the server worked on the last step. Waiting for the disk at its commit is not counted: it costs no CPU."""
        self.loop = Loop("sequencer", stop, step=self._step, wake_up=listener.subscribe("headrace_outbox"), pool=pool)
        # An error of these must not keep events from the log.
        self._rests, self._trims = (Loop(f"sequencer: {step}", stop, pool=pool) for step in ("rest", "trim"))
        self.events = 0
        """Number of events this sequencer has moved."""

    async def _step(self) -> float:
        """One step; returns for how many seconds the loop may rest."""
        # After a quiet time every slot has been trimmed once more.
        if time.monotonic() - self._trimmed_at > (TRIM_S if time.monotonic() - self._active_at < TRIMS_S else IDLE_TRIM_S):
            await self._trims.attempt(self._trim)
        self._is_resting = self._are_notified and self._is_rare(NOTIFIED_MAX if self._is_resting else NOTIFIED_AGAIN)
        started = time.monotonic()
        topics = await self._sequence()
        ended = time.monotonic()
        if not topics:
            if self._is_resting and self._watches < WATCHES:
                self._watches += 1
                return WATCH_S
            is_quiet = self._is_resting or ended - self._active_at >= QUIET_S
            return await self._rest_s() if is_quiet else max(POLL_S, self._poll_pace.pause_s(ended - started))
        self._active_at, self._watches = ended, 0
        self._moves.append(ended)
        pause_s = self._pace.pause_s(self._cost_s, events=sum(topic.events for topic in topics), elapsed_s=ended - started)
        if max(topic.events for topic in topics) >= self._batch:
            return 0
        if self._is_resting:
            return WATCH_S
        # No notification ends this pause, in which events gather.
        await asyncio.sleep(pause_s)
        return 0

    def _is_rare(self, steps: int) -> bool:
        """True if the last second had fewer steps with events."""
        return len(self._moves) < steps or self._moves[-steps] < time.monotonic() - 1

    async def _sequence(self) -> Sequence[SequencedTopic]:
        async with self._pool.connection() as conn:
            rows = await fetch_exchanged(conn, _SEQUENCE_TIMED, (self._batch, self._is_resting))
            backend_pid = conn.info.backend_pid
        topics = [SequencedTopic(*row) for *row, _ in rows]
        self._cost_s = rows[-1][-1] if rows else 0.0
        self.events += sum(topic.events for topic in topics)
        grown = [str(topic.topic_id) for topic in topics if topic.events]
        if grown:
            # As the function has notified all nodes: the loops of this one need not wait for the message.
            self._listener.deliver("headrace_log", ",".join(grown), backend_pid=backend_pid)
        return topics

    async def _rest_s(self) -> float:
        """How long the state of the topics allows to wait."""
        state = await self._rests.attempt(self._mark_asleep) or "busy"
        if state != "busy":
            self._are_notified = state != "poll"
        if state in ("sleep", "poll") and self._watches < WATCHES:
            # A publisher that read "awake" a moment ago may only now be writing: poll a few times more before the long sleep.
            state = "watch"
            self._watches += 1
        return PAUSES_S[state]

    async def _mark_asleep(self) -> str:
        """Marks quiet topics as asleep and returns what to do now: busy, watch, poll or sleep."""
        return str(await fetch_value_async(self._pool, "select headrace_internal.mark_idle_topics(%s)", (QUIET_S,)))

    async def _trim(self) -> None:
        await fetch_value_async(self._pool, "select headrace_internal.trim_outbox()")
        self._trimmed_at = time.monotonic()
