"""Sequencer: moves committed outbox rows into the logs of their topics.

Owns: the moment an event gets its position. Promises: per topic, positions rise by one and never change; a batch is one
transaction; a second sequencer skips a topic while the first holds its lock. Any number may run; every node runs one.

How it sleeps: while many events flow, it polls every few milliseconds and needs no wake-up. After a quiet moment, or when a second has
had few events, it marks the topics as asleep; from then on a publisher notifies it at commit, and it answers within milliseconds. A
transaction that published before the mark and commits after it does not notify, and one that saw many events wait may not either, so the
sequencer polls forty times a second for a moment after these, and as long as such a transaction is open. A notification lost with
its connection is made good when the listener connects again, and by a poll every few seconds. Where the server allows prepared
transactions, which cannot notify, it polls ten times a second instead of sleeping.

How it gathers: a step costs about the same for one event as for ten. So the next one begins when the events of a consumer may have
waited for a share of its latency (`latency_ms`), and at once after a quiet moment. See docs/adr/0093.

What it hands over: the events of a step go to consumers of the same node that are caught up, which need not read them again. Rules and simple
patterns that are caught up and cheap work on them in the step's own transaction: the pass, see docs/adr/0094.

A topic that fails stops neither the others nor the loop: see headrace.sequence."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString, Protocol

from headrace.db import (
    AsyncConnection,
    Connection,
    EventRate,
    Listener,
    Loop,
    Pace,
    Pool,
    Result,
    StopSignal,
    Subscription,
    exchange,
    fetch_rows,
    fetch_value_async,
    query,
)
from headrace.definitions import DefinitionEngine, PassResult
from headrace.drivers import EventRows, PsycopgEventRows

BATCH = 5000
PAUSE_MAX_S = 0.05
"""The longest pause after a step that was not full."""
LATENCY_S, GATHER_SHARE = 0.01, 0.6
"""The latency of topics without a consumer, and the share of a latency for which events may wait in the outbox: the rest is for the step,
the claim and the handler."""
GATHER_MAX_S = 0.5
"""The longest pause in which events gather, whatever the latencies: topics that another sequencer has kept awake are found by polls alone."""
POLL_S, POLL_SHARE = 0.002, 0.1
"""The shortest pause between polls that found nothing, while topics are awake, and how much of its time the sequencer may spend on them."""
UNNOTIFIED_EVENTS = 10
"""Behind so many waiting events publishers may not notify: see headrace_internal.wake_sequencer."""
QUIET_S = 0.25
"""Quiet time after which a topic falls asleep."""
WATCH_S, WATCHES = 0.025, 5
"""Pause between polls while a transaction that has published is open, and how many such polls come before a sleep."""
SLEEP_S = 5.0
"""Longest sleep without a notification."""
UNNOTIFIED_S = 0.1
"""Pause between polls while all topics sleep and publishers do not notify, because the server allows prepared transactions."""
PASS_MS = 20.0
"""After this time of a step no rule and no correlator begins to work on its events."""
HANDED_S = 1.0
"""For so long events are handed over after the last consumer of their topic fell behind: most are caught up again at once."""
TRIM_S, TRIMS_S, IDLE_TRIM_S = 1.0, 20.0, 60.0
"""How often drained tables of the outbox are truncated: while events flow and until each table has rested, and later."""
PAUSES_S = {"busy": WATCH_S, "watch": WATCH_S, "poll": UNNOTIFIED_S, "sleep": SLEEP_S}
"""Longest wait for a notification, by the state of the topics."""

_SEQUENCE: LiteralString = (
    "select topic_id, first_position, last_position, events, duplicates from headrace.sequence(%s::integer)"
)


@dataclass(frozen=True)
class SequencedTopic:
    """What one step did to one topic."""

    topic_id: int
    first_position: int
    last_position: int
    events: int
    duplicates: int


@dataclass(frozen=True)
class AppendedEvents:
    """The events that a step of this node has appended to a topic: all of them, in order of position."""

    topic_id: int
    rows: EventRows
    raw_rows: EventRows
    """The same with JSON as text."""
    partitions: Sequence[int]
    """The partition of each event."""
    start: int
    """The row of the first event."""
    before: Mapping[int, int]
    """The newest position that each partition had before these events, as far as known; -1: the whole topic."""
    erasures: int
    server: str
    """When the server was started, and the number of the topic's erasures: both say whether the events are still what the log has."""
    bytes: int = 0
    """How much memory they take, about."""


class AppendedReader(Protocol):
    """A consumer of this node that takes the events of a step out of the sequencer's hands."""

    @property
    def topic_id(self) -> int: ...

    @property
    def takes_appended(self) -> bool:
        """True while it is caught up, and events of a step are what it handles next."""

    def take_appended(self, appended: AppendedEvents) -> Subscription | None:
        """Takes them, and returns what wakes its workers; None if it reads them from the log."""


@dataclass(frozen=True)
class _AppendedTopic:
    """What one step did to one topic, in full."""

    topic: SequencedTopic
    appended: AppendedEvents | None
    """The events, if they were handed over."""
    passed: Mapping[int, PassResult]
    """What reserved consumers of the topic did in the pass, by their number."""


@dataclass
class _TopicHead:
    """The end of a topic's log, as long as this sequencer alone appends to it."""

    server: str
    position: int
    partitions: dict[int, int] = field(default_factory=dict)
    """The newest position of each partition, as far as known."""


def sequence(conn: Connection, *, batch: int = BATCH) -> list[SequencedTopic]:
    """One step: moves up to a batch per topic, in one transaction."""
    return fetch_rows(conn, SequencedTopic, _SEQUENCE, (batch,))


class Sequencer:
    """The sequencer loop of a node. It runs until `stop` is set."""

    def __init__(
        self,
        pool: Pool,
        listener: Listener,
        stop: StopSignal,
        *,
        batch: int = BATCH,
        readers: Iterable[AppendedReader] = (),
        engines: Sequence[DefinitionEngine[Any]] = (),
    ) -> None:
        """`readers`: consumers of this node that get the events of a step; `engines`: those whose consumers work on them in the step."""
        self._pool = pool
        self._listener = listener
        self._batch = batch
        self._readers = list(readers)
        self._engines = engines
        self._heads: dict[int, _TopicHead] = {}
        self._handed_until: dict[int, float] = {}
        """Until when the events of a topic are asked for though its consumers are not caught up, so that the ends of partitions stay known."""
        self._trimmed_at = time.monotonic()
        self._active_at = time.monotonic()
        self._watches = 0
        self._rate = EventRate()
        self._are_notified = False
        """Publishers notify of topics that are asleep, as far as known."""
        self._is_resting = False
        """Few events come, so topics are left asleep."""
        self._pace = Pace(pause_max_s=PAUSE_MAX_S)
        self._poll_pace = Pace(share=POLL_SHARE, pause_max_s=WATCH_S)
        self._cost_s = 0.0
        """How long the server worked on the last step. Waiting for the disk at its commit is not counted: it costs no CPU."""
        self._latencies_s: dict[int, float] = {}
        """Those of topics that may be awake, so that their publishers do not notify."""
        self.loop = Loop("sequencer", stop, step=self._step, wake_up=listener.subscribe("headrace_outbox"), pool=pool)
        # An error of these must not keep events from the log.
        self._rests, self._trims = (Loop(f"sequencer: {step}", stop, pool=pool) for step in ("rest", "trim"))
        self.events = 0
        """Number of events this sequencer has moved."""

    async def _step(self) -> float:
        """One step; returns for how many seconds the loop may rest."""
        # After a quiet time every table has been trimmed once more.
        if time.monotonic() - self._trimmed_at > (TRIM_S if time.monotonic() - self._active_at < TRIMS_S else IDLE_TRIM_S):
            await self._trims.attempt(self._trim)
        was_resting = self._is_resting
        self._is_resting = self._rate.is_low and self._are_notified
        started = time.monotonic()
        topics = await self._sequence()
        ended = time.monotonic()
        gather_s = min(GATHER_MAX_S, min(self._latencies_s.values(), default=LATENCY_S) * GATHER_SHARE)
        if not topics:
            is_quiet = self._is_resting or ended - self._active_at >= QUIET_S
            return await self._rest_s() if is_quiet else max(POLL_S, gather_s, self._poll_pace.pause_s(ended - started))
        events = sum(topic.events for topic in topics)
        self._active_at = ended
        self._rate.count(events)
        if not (self._is_resting and was_resting and events < UNNOTIFIED_EVENTS):
            self._watches = 0
        pause_s = self._pace.pause_s(self._cost_s, events=events, elapsed_s=ended - started)
        if max(topic.events for topic in topics) >= self._batch:
            return 0
        # No notification ends this pause, in which events gather, but that of a topic which cannot wait ends a long one.
        gather_s -= ended - started
        await asyncio.sleep(max(pause_s, min(gather_s, PAUSE_MAX_S)))
        if self._is_resting:
            return WATCH_S if self._watches < WATCHES else QUIET_S
        return max(0.0, gather_s - PAUSE_MAX_S)

    async def _sequence(self) -> Sequence[SequencedTopic]:
        now = time.monotonic()
        self._handed_until |= {reader.topic_id: now + HANDED_S for reader in self._readers if reader.takes_appended}
        wanted = [topic_id for topic_id, until in self._handed_until.items() if until > now]
        places = [place for engine in self._engines for place in engine.pass_places]
        passes = (_array(topic_id for topic_id, _ in places), _array(number for _, number in places))
        try:
            async with self._pool.connection() as conn:
                with self._listener.holding(conn.info.backend_pid):
                    parameters = (self._batch, self._is_resting, _array(wanted), *passes, PASS_MS)
                    [result] = await exchange(conn, (query("log/sequence_step"), parameters))
                    steps = self._read(conn, result)
                    self._share(steps, conn.info.backend_pid)
        except BaseException:
            # Nobody knows whether the step was committed, and on which server the next one is.
            self._heads.clear()
            for engine in self._engines:
                engine.leave_pass()
            raise
        topics = [step.topic for step in steps]
        self.events += sum(topic.events for topic in topics)
        return topics

    def _share(self, steps: Sequence[_AppendedTopic], backend_pid: int) -> None:
        """Gives the events of a step to the readers of this node, and wakes all loops that have to look for them."""
        grown = [step for step in steps if step.topic.events]
        if not grown:
            return
        knowing = [
            subscription
            for step in grown
            if step.appended is not None
            for reader in self._readers
            if reader.topic_id == step.topic.topic_id and (subscription := reader.take_appended(step.appended)) is not None
        ]
        for engine in self._engines:
            knowing.append(engine.appended)
            for step in grown:
                engine.take_step(step.topic.topic_id, step.topic.events, step.passed, append_s=self._cost_s)
        # As the function has notified all nodes: the loops of this one need not wait for the message.
        names = ",".join(str(step.topic.topic_id) for step in grown)
        self._listener.deliver("headrace_log", names, backend_pid=backend_pid, but_not=knowing)

    def _read(self, conn: AsyncConnection, result: Result) -> list[_AppendedTopic]:
        """What a step has returned; see headrace_internal.sequence_step."""
        rows, raw_rows = (PsycopgEventRows(conn, result, raw=raw) for raw in (False, True))
        steps: list[_AppendedTopic] = []
        self._cost_s = 0.0
        end = len(rows)
        while end > 0:
            last = end - 1
            [(first, _, _, _, _, _, payload, *_)] = raw_rows.load(last, end)
            said: dict[str, Any] = json.loads(bytes(payload))
            end = last - said["handed"]
            topic = SequencedTopic(said["topic_id"], first, first + said["events"] - 1, said["events"], said["duplicates"])
            partitions = [rows.partition(index) for index in range(end, last)]
            before = self._advance_head(topic, partitions, said["partitions"], said["server"])
            where = (topic.topic_id, rows, raw_rows, partitions, end, before)
            appended = AppendedEvents(*where, said["erasures"], said["server"], said["bytes"])
            passed = {number: PassResult(outputs, work_ms / 1000) for number, outputs, work_ms in said["served"] or ()}
            steps.append(_AppendedTopic(topic, appended if partitions else None, passed))
            latency_ms = said["latency_ms"]
            self._latencies_s[topic.topic_id] = LATENCY_S if latency_ms is None else latency_ms / 1000
            self._cost_s = max(self._cost_s, said["work_s"])
        # In the order of the function, whose notification names them in it.
        return steps[::-1]

    def _advance_head(self, topic: SequencedTopic, partitions: Sequence[int], count: int, server: str) -> Mapping[int, int]:
        """Records the new end of a topic's log; returns what was the newest position of each partition before."""
        head = self._heads.get(topic.topic_id)
        if head is None or (head.server, head.position) != (server, topic.first_position - 1):
            # Another sequencer has appended meanwhile, or it is another server.
            head = self._heads[topic.topic_id] = _TopicHead(server, 0)
        if count == 1:
            head.partitions[0] = topic.first_position - 1
        known = {partition: head.partitions[partition] for partition in set(partitions) if partition in head.partitions}
        before = {-1: topic.first_position - 1, **known}
        if len(partitions) < topic.events:
            head.partitions.clear()
        head.partitions.update(zip(partitions, range(topic.first_position, topic.last_position + 1), strict=False))
        head.position = topic.last_position
        return before

    async def _rest_s(self) -> float:
        """How long the state of the topics allows to wait."""
        state = await self._rests.attempt(self._mark_asleep) or "busy"
        if state != "busy":
            self._are_notified = state != "poll"
            self._latencies_s.clear()
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


def _array(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
