"""Rule engine: compiles and evaluates the rules of every topic on one database.

Owns: one node's share of it. Promises: a rule, written by whatever means, is active within a second; a batch of events, its
firings, its actions and the cursor are one transaction, so any number of nodes may run, and any of them may die."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import LiteralString

from headrace.db import AsyncConnection, Unit, fetch_alone
from headrace.definitions import DefinitionEngine
from headrace.rules.compiler import compile_topic

BATCH = 2000
_REACT: LiteralString = (
    "select events, firings, position, has_more from headrace_internal.react(p_topic_id => %s::integer, p_max => %s::integer)"
)


@dataclass(frozen=True)
class WatchedTopic:
    """A topic with rules, and the reserved consumer that evaluates them."""

    topic_id: int
    consumer_id: int
    topic: str
    namespace: str

    @property
    def batch(self) -> int:
        """How many events a batch has at most."""
        return BATCH

    @property
    def unit(self) -> Unit:
        return Unit("rules", self.namespace, self.topic)

    def __str__(self) -> str:
        return f"rules of {self.namespace}/{self.topic}"


@dataclass(frozen=True)
class FiredBatch:
    """A batch that was evaluated: how many events it had, how many rules fired, its last position, and whether events may wait behind it."""

    events: int
    firings: int
    position: int
    has_more: bool

    @property
    def outputs(self) -> int:
        return self.firings


class RuleEngine(DefinitionEngine[WatchedTopic]):
    """Compiles rules and evaluates them until `stop` is set, each topic in a loop of its own."""

    noun = "rule"
    consumer_type = WatchedTopic
    watched_query = "rules/watched_topics"
    pending_query = "rules/pending_topics"
    firings = 0
    """How many rules have fired here."""

    async def compile_pending(self, conn: AsyncConnection, pending_id: int, *, lock_ms: int) -> int:
        return await compile_topic(conn, topic_id=pending_id, lock_ms=lock_ms)

    async def show_status(self, *, after_compiling: bool) -> None:
        # A topic that was compiled has shown its own versions.
        if not after_compiling:
            async with self._pool.connection() as conn:
                await conn.execute("select headrace_internal.show_status('rule')")

    async def turn(self, topic: WatchedTopic) -> float:
        """Evaluates one batch, if one is due; returns for how many seconds the topic may rest."""
        batch = await self.fire_once(topic)
        # Whatever is appended after this read notifies.
        return 0 if batch and batch.has_more else math.inf

    async def fire_once(self, topic: WatchedTopic) -> FiredBatch | None:
        """Evaluates one batch of a topic; None when nothing is due here."""
        rows: list[tuple[int, int, int, bool]] = []
        started = 0.0
        async with self._pool.connection() as conn, self._record_failures(conn, topic):
            started = time.monotonic()
            rows = await fetch_alone(conn, _REACT, (topic.topic_id, topic.batch))
        batch = FiredBatch(*rows[0]) if rows else None
        if batch:
            self.take_batch(topic, batch, time.monotonic() - started)
        return batch

    def pass_number(self, consumer: WatchedTopic) -> int:
        return 0

    def count_batch(self, consumer: WatchedTopic, events: int, outputs: int) -> None:
        self.events += events
        self.firings += outputs
