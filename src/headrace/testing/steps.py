"""Steps: runs everything an application and a database have to do, one step after the other, until nothing is due.

The steps are those of a node: its loops call the same methods. Only what waits is left out: notifications, pauses, leases that are
extended, and limits of a handler's rate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from headrace.actions import Action, ActionWorker, Claim, LeaseExtender, Queue, build_worker_pools
from headrace.consume import ConsumerRunner
from headrace.core import Invalid, NotIdle
from headrace.correlators import CorrelatorEngine
from headrace.db import Connection, Pool, StopSignal, Subscription, Target, fetch_value, query
from headrace.drivers import HandlerConnection
from headrace.log.topics import sequence
from headrace.node import HandlerSessions, Headrace, Identity, Registry
from headrace.rules import RuleEngine
from headrace.schedules import Ticker

UNHANDLED_S = 10.0
"""An action may be due this long without a handler before it is buried, the same as on a node."""


@dataclass
class RunCounts:
    """What a run did."""

    scheduled: int = 0
    """Events that schedules have published."""
    sequenced: int = 0
    """Events that got their position."""
    fired: int = 0
    """Firings of rules."""
    pushed: int = 0
    """Tokens that correlators have pushed."""
    handled: int = 0
    """Events that consumers have handled."""
    actions: int = 0
    """Actions that were handled."""
    failures: int = 0
    """Handlers, rules, correlators and schedules that failed. The log says which and why."""
    buried: int = 0
    """Actions without a handler that became dead letters."""


class RecordingQueue(Queue):
    """Remembers the actions that were handled: the queue itself forgets their payloads."""

    def __init__(self, pool: Pool, handled: dict[UUID, Action], *, namespace: str | None, node_id: UUID) -> None:
        super().__init__(pool, namespace=namespace, node_id=node_id)
        self._handled = handled

    async def ack_and_commit(self, conn: HandlerConnection, claims: Sequence[Claim], durations_s: Sequence[float]) -> None:
        await super().ack_and_commit(conn, claims, durations_s)
        self._handled.update((claim.action.id, claim.action) for claim in claims)


@dataclass
class ApplicationSteps:
    """The steps of one application on one connection."""

    app: Headrace
    conn: Connection
    """For the sequencer. The same session as `pool` has."""
    target: Target
    """The database of the test, for handlers with connections of their own."""
    pool: Pool
    handled: dict[UUID, Action]
    in_transaction: bool
    """Is everything done in a transaction of the caller?"""
    counts: RunCounts = field(default_factory=RunCounts)

    def __post_init__(self) -> None:
        stop, subscription = StopSignal(), Subscription("test")
        identity = Identity(name="headrace test kit")
        pool, namespace = self.pool, self.app.namespace
        self._registry = Registry(self.app, identity, pool)
        self._sessions = sessions = HandlerSessions(self.app, self.target, consumers_pool=pool, actions_pool=pool)
        self._ticker = Ticker(pool, subscription, stop, self.target)
        self._rules = RuleEngine(pool, subscription, subscription, stop)
        self._correlators = CorrelatorEngine(pool, subscription, subscription, stop)
        sources = sessions.consumer_sources
        self._consumers = [ConsumerRunner(one, pool, subscription, stop, sources=sources) for one in self.app.consumers]
        self._queue = RecordingQueue(pool, self.handled, namespace=namespace, node_id=identity.node_id)
        # Ignore rates: those are limits of time, and the test's time stands still.
        groups = [replace(group, rate_per_s=None) for group in build_worker_pools(self.app.action_handlers.values())]
        leases = LeaseExtender(self._queue)
        self._workers = [
            ActionWorker(group, self._queue, pool, leases, subscription, stop, sources=sessions.action_sources)
            for group in groups
        ]

    async def register(self) -> None:
        """Registers the application as a node does: its consumers, and the rules for its event types. Raises Invalid if its
        handlers would work on another database, or outside of the test's transaction."""
        if self.in_transaction and self._sessions.own_sources:
            raise Invalid(
                "session: the application's handlers use connections of their own (an engine, a pool or asyncpg), which see nothing "
                "of the test's transaction and would commit beside it; use the fixture headrace_kit and bind the sessionmaker to "
                "its database (docs/howto/testing.md), or give the class AsyncSession or Session as session="
            )
        await self._sessions.check()
        await self._registry.register()
        for consumer in self._consumers:
            await consumer.register()
            await consumer.forget_lost_claims()

    async def close(self) -> None:
        """Closes the connections that handlers have had beside the test's own."""
        await self._sessions.close()

    async def run_until_idle(self, timeout_s: float) -> RunCounts:
        """Runs rounds of all steps until a round finds nothing to do. Raises NotIdle after `timeout_s`."""
        await self.register()
        try:
            async with asyncio.timeout(timeout_s):
                while await self._round():
                    self._count()
        except TimeoutError:
            self._count()
            done = ", ".join(f"{count} {name}" for name, count in asdict(self.counts).items() if count) or "nothing done"
            raise NotIdle(
                f"the application was not idle within {timeout_s:g} s ({done}); does a handler publish what it consumes, or wait for "
                "something? Raise timeout_s if it only needs longer"
            ) from None
        self._count()
        await self._registry.deregister()
        return self.counts

    async def _round(self) -> bool:
        """One round; returns whether anything was done."""
        steps: list[Callable[[], Awaitable[bool]]] = [
            self._fire_schedules,
            self._compile,
            self._sequence,
            self._fire_rules,
            self._correlate,
            self._consume,
            self._handle_actions,
            self._bury_unhandled,
        ]
        return any([await step() for step in steps])

    async def _fire_schedules(self) -> bool:
        """Fires each tick at its own time, as a node would have done while the clock moved: a late tick may count as missed."""
        is_busy, last = False, None
        while (moment := fetch_value(self.conn, query("testing/next_tick"))) is not None and moment != last:
            last = moment
            with self._clock_at(moment):
                await self._ticker.plan_once()
                is_busy |= await _repeat(self._ticker.fire_once)
        await self._ticker.plan_once()
        return await _repeat(self._ticker.fire_once) or is_busy

    @contextmanager
    def _clock_at(self, moment: datetime) -> Iterator[None]:
        parameters = {"moment": moment, "is_local": self.in_transaction}
        shift = fetch_value(self.conn, query("testing/set_clock"), parameters)
        try:
            yield
        finally:
            fetch_value(self.conn, "select set_config('headrace.clock_shift', %s, %s)", (shift or "", self.in_transaction))

    async def _compile(self) -> bool:
        return any([await _repeat(engine.compile_once) for engine in (self._rules, self._correlators)])

    async def _sequence(self) -> bool:
        is_busy = False
        while topics := sequence(self.conn):
            self.counts.sequenced += sum(topic.events for topic in topics)
            is_busy = True
            await asyncio.sleep(0)
        return is_busy

    async def _fire_rules(self) -> bool:
        return any([await _repeat(partial(self._rules.fire_once, topic)) for topic in await self._rules.watched()])

    async def _correlate(self) -> bool:
        engine = self._correlators
        calls = [partial(call, watched) for watched in await engine.watched() for call in (engine.step_once, engine.tick_once)]
        return any([await _repeat(call) for call in calls])

    async def _consume(self) -> bool:
        calls = [call for consumer in self._consumers for call in (consumer.handle_once, consumer.redrive_once)]
        return any([await _repeat(call) for call in calls])

    async def _handle_actions(self) -> bool:
        return any([await _repeat(worker.handle_once) for worker in self._workers])

    async def _bury_unhandled(self) -> bool:
        buried = await self._queue.bury_unhandled(UNHANDLED_S)
        self.counts.buried += buried
        return buried > 0

    def _count(self) -> None:
        counts = self.counts
        counts.scheduled = self._ticker.fired
        counts.fired, counts.pushed = self._rules.firings, self._correlators.outputs
        counts.handled = sum(consumer.handled for consumer in self._consumers)
        counts.actions = sum(worker.handled for worker in self._workers)
        counts.failures = self._ticker.failures + self._rules.failures + self._correlators.failures
        counts.failures += sum(consumer.failures for consumer in self._consumers)
        counts.failures += sum(worker.failures for worker in self._workers)


async def _repeat(step: Callable[[], Awaitable[object]]) -> bool:
    """Repeats a step while it finds something to do; returns whether it did."""
    is_busy = False
    while await step():
        is_busy = True
        # A step on one connection may never give the event loop a turn, and the timeout needs one.
        await asyncio.sleep(0)
    return is_busy
