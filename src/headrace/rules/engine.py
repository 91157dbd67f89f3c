"""Reactor: runs the rules of every topic on one database.

Owns: one node's share of compiling and matching. Promises: a rule written by whatever means is in force within a second; a batch
of events, its firings, its actions and the cursor are one transaction, so any number of reactors may run, and any may die."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.db import Pool, Subscription, query
from headrace.definitions import IDLE_S, Failures, Watch
from headrace.rules.compiler import compile_topic, pending_topics

BATCH = 2000


@dataclass(frozen=True)
class WatchedTopic:
    """A topic with rules, and the reserved consumer that runs them."""

    topic_id: int
    consumer_id: int
    topic: str
    namespace: str

    @property
    def batch(self) -> int:
        """How many events one batch has at most."""
        return BATCH

    def __str__(self) -> str:
        return f"rules of {self.namespace}/{self.topic}"


@dataclass(frozen=True)
class Reacted:
    """What one batch did: events passed, rules fired, and the position it came to."""

    events: int
    firings: int
    position: int


class RuleEngine:
    """Compiles rules and evaluates them until told to stop, each topic by itself."""

    noun = "rule"

    def __init__(self, pool: Pool, rule_bell: Subscription, log_bell: Subscription, stop: asyncio.Event) -> None:
        self._pool = pool
        self._watch: Watch[WatchedTopic] = Watch(self, rule_bell, log_bell, stop)
        self._failures = Failures()
        self.events = 0
        """How many events this reactor has passed."""
        self.firings = 0

    @property
    def failures(self) -> int:
        return self._failures.count

    async def run(self) -> None:
        await self._watch.run()

    async def watched(self) -> list[WatchedTopic]:
        """The topics with rules."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(WatchedTopic)) as cursor:
            return await (await cursor.execute(query("rules/watched_topics"))).fetchall()

    async def compile_once(self) -> int:
        """Compiles what is pending, and returns how many versions that were."""
        async with self._pool.connection() as conn:
            compiled = sum([await compile_topic(conn, topic_id) for topic_id in await pending_topics(conn)])
            if not compiled:
                await conn.execute("select headrace_internal.show_status()")
        return compiled

    async def turn(self, watched: WatchedTopic) -> float:
        """One batch, if one is due; returns for how many seconds the topic may rest."""
        return 0 if await self.react_once(watched) else IDLE_S

    async def react_once(self, watched: WatchedTopic) -> Reacted | None:
        """One batch of a topic; None when nothing is due here."""
        reacted: Reacted | None = None
        given = {"topic_id": watched.topic_id, "max": watched.batch}
        async with (
            self._pool.connection() as conn,
            self._failures.recorded(conn, watched),
            conn.transaction(),
            conn.cursor(row_factory=class_row(Reacted)) as cursor,
        ):
            reacted = await (await cursor.execute(query("rules/react"), given)).fetchone()
        if reacted:
            self.events += reacted.events
            self.firings += reacted.firings
        return reacted
