"""Node: one process that runs the loops of an application on every database it is given.

Owns: starting and ending the loops. Promises: databases do not wait for each other, so one shard down stops none of the
others; told to stop, it finishes the batches that run and takes no more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence

import psycopg

from headrace.actions import lanes
from headrace.consume import ConsumerRunner
from headrace.correlators import CorrelatorEngine
from headrace.db import Listener, Pool, Target, create_pool, end_loops, map_error, retry_until_connected
from headrace.log import Sequencer
from headrace.node.action_workers import ActionWorkers, Work
from headrace.node.app import Headrace
from headrace.node.registry import Identity, Registry
from headrace.node.supervision import supervise
from headrace.rules import RuleEngine
from headrace.schedules import Ticker

logger = logging.getLogger(__name__)

MAINTAIN_S = 60.0
GRACE_S = 30.0
LEAVE_S = 2.0


class Node:
    """Runs an application until `stop`.

    Sequencing, rules, correlators, schedules and maintenance serve every namespace and take the owner's rights; with
    `sequencer=False` the node leaves them to others and runs its consumers and handlers only, which a role with the level
    `consume` may."""

    def __init__(
        self,
        app: Headrace,
        targets: Sequence[Target],
        *,
        sequencer: bool = True,
        grace_s: float = GRACE_S,
        identity: Identity | None = None,
        work: Work | None = None,
    ) -> None:
        self.identity = identity or Identity()
        self._stop = asyncio.Event()
        self._grace_s = grace_s
        self._sides = [
            DatabaseLoops(app, target, self._stop, sequencer=sequencer, identity=self.identity, work=work or Work())
            for target in targets
        ]

    @property
    def handled(self) -> int:
        """How many events the consumers of this node have handled."""
        return sum(runner.handled for side in self._sides for runner in side.runners)

    @property
    def fired(self) -> int:
        """How many times a rule has fired on this node."""
        return sum(side.reactor.firings for side in self._sides if side.reactor)

    @property
    def pushed(self) -> int:
        """How many tokens the correlators of this node have pushed."""
        return sum(side.correlators.outputs for side in self._sides if side.correlators)

    @property
    def actions(self) -> int:
        """How many actions this node has handled."""
        return sum(worker.handled for side in self._sides for worker in side.hands.workers)

    @property
    def sequenced(self) -> int:
        """How many events this node has moved into the log."""
        return sum(side.sequencer.events for side in self._sides if side.sequencer)

    def stop(self) -> None:
        """Ends the node: running batches are finished, nothing new begins."""
        self._stop.set()
        for side in self._sides:
            side.ring()

    async def run(self) -> None:
        """Runs until `stop`; what has not ended by then after the grace time is cancelled, and rolled back."""
        tasks = [asyncio.create_task(side.run(), name=str(side.target)) for side in self._sides]
        stopped = asyncio.create_task(self._stop.wait())
        # A side ends by itself only with an error that waiting does not mend, such as a topic that is not there.
        await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
        self.stop()
        _, late = await asyncio.wait(tasks, timeout=self._grace_s)
        for task in late:
            logger.warning("%s did not end within %.0f s; its open transactions are rolled back", task.get_name(), self._grace_s)
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise map_error(_only(outcome)) or _only(outcome)


def _only(error: Exception) -> Exception:
    """The error itself where a task group has wrapped a single one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class DatabaseLoops:
    """The loops of a node on one database."""

    def __init__(
        self, app: Headrace, target: Target, stop: asyncio.Event, *, sequencer: bool, identity: Identity, work: Work
    ) -> None:
        self.target = target
        self._stop = stop
        # A worker holds one connection while it handles; sequencer, maintenance, ticker and heartbeat one each, rules two,
        # correlators three.
        busy = sum(consumer.concurrency for consumer in app.consumers) + sum(
            lane.workers for lane in lanes(app.handlings, workers=work.workers)
        )
        self._pool: Pool = create_pool(target, size=busy + 9, settings={"headrace.node": identity.name})
        self._listener = Listener(target)
        channels = ("headrace_outbox", "headrace_schedule", "headrace_rule", "headrace_log", "headrace_action")
        self._bells = [self._listener.subscribe(channel) for channel in channels]
        outbox_bell, schedule_bell, rule_bell, log_bell, action_bell = self._bells
        self.sequencer = Sequencer(self._pool, outbox_bell, stop) if sequencer else None
        self.ticker = Ticker(self._pool, schedule_bell, stop, target) if sequencer else None
        self.reactor = RuleEngine(self._pool, rule_bell, log_bell, stop) if sequencer else None
        written_bell, appended_bell = (self._listener.subscribe(channel) for channel in ("headrace_rule", "headrace_log"))
        self._bells += [written_bell, appended_bell]
        self.correlators = CorrelatorEngine(self._pool, written_bell, appended_bell, stop) if sequencer else None
        self._registry = Registry(app, identity, self._pool)
        self.hands = ActionWorkers(app, target, self._pool, action_bell, stop, node_id=identity.node_id, work=work)
        self.runners: list[ConsumerRunner] = []
        for consumer in app.consumers:
            bell = self._listener.subscribe("headrace_log")
            self._bells.append(bell)
            self.runners.append(ConsumerRunner(consumer, self._pool, bell, stop))

    def ring(self) -> None:
        for bell in self._bells:
            bell.ring()

    async def run(self) -> None:
        await self._pool.open()
        try:
            await retry_until_connected(f"registration with {self.target}", self._registry.register)
            try:
                await self._run_loops()
            finally:
                await self._leave()
        finally:
            await self._pool.close()

    async def _run_loops(self) -> None:
        beside = [
            supervise(f"listener of {self.target}", self._listener.run),
            supervise(f"heartbeat of {self.target}", self._registry.run),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                if self.sequencer and self.ticker and self.reactor and self.correlators:
                    beside.append(supervise(f"maintenance of {self.target}", self._keep_maintained))
                    for loop in (self.sequencer.run(), self.ticker.run(), self.reactor.run(), self.correlators.run()):
                        group.create_task(self._guarded(loop))
                for runner in self.runners:
                    group.create_task(self._guarded(runner.run()))
                group.create_task(self._guarded(self.hands.run()))
                group.create_task(self._stop.wait())
        finally:
            await end_loops(*beside)

    async def _guarded(self, loop: Coroutine[object, object, None]) -> None:
        """A loop whose error ends the others by the stop signal too: where a result comes in at the same moment, Python 3.11's
        wait_for, and so psycopg, loses the cancellation that the task group sends them."""
        try:
            await loop
        except Exception:
            self._stop.set()
            self.ring()
            raise

    async def _leave(self) -> None:
        """Says goodbye, where the database still hears it; else the node is lost after 90 s."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._registry.deregister()
        except (psycopg.Error, TimeoutError) as error:
            logger.warning("%s did not hear that this node ends: %s", self.target, error)

    async def _keep_maintained(self) -> None:
        while True:
            await retry_until_connected(f"maintenance of {self.target}", self._maintain)
            await asyncio.sleep(MAINTAIN_S)

    async def _maintain(self) -> None:
        async with self._pool.connection() as conn:
            await conn.execute("select count(*) from headrace.maintain_log()")
            await conn.execute("select headrace_internal.trim_results()")
            await conn.execute("select headrace_internal.forget_instances()")
            await conn.execute("select headrace_internal.forget_lineage()")
