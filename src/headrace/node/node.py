"""Node: one process that runs the loops of an application on every database it is given.

Owns: starting and stopping the loops. Promises: databases do not wait for each other, so an unreachable shard stops none of the
others; when stopped, the node finishes the running batches and starts no new ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import partial

import psycopg

from headrace.actions import build_worker_pools
from headrace.consume import ConsumerRunner
from headrace.core import HeadraceError
from headrace.correlators import CorrelatorEngine
from headrace.db import Listener, Target, cancel_tasks, check_node_database, create_pool, map_error, retry_until_connected
from headrace.log import Sequencer
from headrace.node.action_workers import ActionWorkers, WorkerSettings
from headrace.node.app import Headrace
from headrace.node.loops import supervise
from headrace.node.registry import Identity, Registry
from headrace.rules import RuleEngine
from headrace.schedules import Ticker

logger = logging.getLogger(__name__)

GRACE_S = 30.0
MAINTENANCE_S = 60.0
DEREGISTER_S = 2.0


class Node:
    """Runs an application until `stop`.

    Sequencing, rules, correlators, schedules and maintenance serve every namespace and need the owner's rights. With
    `sequencer=False` the node leaves them to other nodes and runs only its consumers and handlers; a role with the level
    `consume` may do that."""

    def __init__(
        self,
        app: Headrace,
        targets: Sequence[Target],
        *,
        sequencer: bool = True,
        grace_s: float = GRACE_S,
        identity: Identity | None = None,
        work: WorkerSettings | None = None,
    ) -> None:
        self.identity = identity or Identity()
        self._stop = asyncio.Event()
        self._grace_s = grace_s
        work = work or WorkerSettings()
        self._databases = [
            DatabaseLoops(app, target, self._stop, sequencer=sequencer, identity=self.identity, work=work) for target in targets
        ]

    @property
    def handled(self) -> int:
        """How many events the consumers of this node have handled."""
        return sum(consumer.handled for database in self._databases for consumer in database.consumers)

    @property
    def fired(self) -> int:
        """How many times rules have fired on this node."""
        return sum(database.rules.firings for database in self._databases)

    @property
    def actions(self) -> int:
        """How many actions this node has handled."""
        return sum(worker.handled for database in self._databases for worker in database.actions.workers)

    @property
    def sequenced(self) -> int:
        """How many events this node has moved into the log."""
        return sum(database.sequencer.events for database in self._databases)

    def stop(self) -> None:
        """Stops the node: running batches are finished, no new ones start."""
        self._stop.set()
        for database in self._databases:
            database.wake()

    async def run(self) -> None:
        """Runs until `stop`. Loops that have not ended after the grace time are cancelled, and their transactions rolled back."""
        tasks = [asyncio.create_task(database.run(), name=str(database.target)) for database in self._databases]
        stopped = asyncio.create_task(self._stop.wait())
        # The loops of a database end by themselves only on a permanent error, such as an unknown topic.
        await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
        self.stop()
        _, late = await asyncio.wait(tasks, timeout=self._grace_s)
        for task in late:
            logger.warning("%s did not end within %.0f s; its open transactions are rolled back", task.get_name(), self._grace_s)
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                error = _unwrap(outcome)
                raise error if isinstance(error, HeadraceError) else map_error(error) or error


def _unwrap(error: Exception) -> Exception:
    """The error inside exception groups that hold only one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class DatabaseLoops:
    """The loops of a node on one database. Sequencer, ticker, rules and correlators run only with `sequencer`."""

    def __init__(
        self, app: Headrace, target: Target, stop: asyncio.Event, *, sequencer: bool, identity: Identity, work: WorkerSettings
    ) -> None:
        self.target = target
        self._stop = stop
        self._runs_sequencer = sequencer
        self._listener = Listener(target)
        pools = build_worker_pools(app.action_handlers.values(), workers=work.workers)
        # Each worker holds one connection while it handles. Sequencer, maintenance, ticker and heartbeat need one each, rules
        # two, correlators three.
        workers = sum(consumer.concurrency for consumer in app.consumers) + sum(group.workers for group in pools)
        self._pool = pool = create_pool(target, size=workers + 9, settings={"headrace.node": identity.name})
        self._registry = Registry(app, identity, pool)
        subscribe = self._listener.subscribe
        self.sequencer = Sequencer(pool, subscribe("headrace_outbox"), stop)
        self.ticker = Ticker(pool, subscribe("headrace_schedule"), stop, target)
        self.rules = RuleEngine(pool, subscribe("headrace_rule"), subscribe("headrace_log"), stop)
        self.correlators = CorrelatorEngine(pool, subscribe("headrace_rule"), subscribe("headrace_log"), stop)
        self.consumers = [ConsumerRunner(consumer, pool, subscribe("headrace_log"), stop) for consumer in app.consumers]
        self.actions = ActionWorkers(
            pools,
            target,
            pool,
            subscribe("headrace_action"),
            stop,
            namespace=app.namespace,
            node_id=identity.node_id,
            settings=work,
        )

    def wake(self) -> None:
        """Wakes all loops, so that they see the stop signal."""
        self._listener.notify_all()

    async def run(self) -> None:
        # Before the pool: it sets settings of the session, which a pooler in transaction mode would give to other clients.
        await retry_until_connected(f"start on {self.target}", partial(check_node_database, self.target))
        await self._pool.open()
        try:
            await retry_until_connected(f"registration with {self.target}", self._registry.register)
            try:
                await self._run_loops()
            finally:
                await self._deregister()
        finally:
            await self._pool.close()

    async def _run_loops(self) -> None:
        background = [
            supervise(f"listener of {self.target}", self._listener.run),
            supervise(f"heartbeat of {self.target}", self._registry.run),
        ]
        loops = [consumer.run() for consumer in self.consumers] + [self.actions.run()]
        if self._runs_sequencer:
            background.append(supervise(f"maintenance of {self.target}", self._run_maintenance))
            loops += [self.sequencer.run(), self.ticker.run(), self.rules.run(), self.correlators.run()]
        try:
            async with asyncio.TaskGroup() as group:
                for loop in loops:
                    group.create_task(self._stop_on_error(loop))
                group.create_task(self._stop.wait())
        finally:
            await cancel_tasks(*background)

    async def _stop_on_error(self, loop: Coroutine[object, object, None]) -> None:
        """An error of a loop also ends the others by the stop signal. The cancellation by the task group is not enough: Python
        3.11's wait_for, which psycopg uses, loses a cancellation that comes together with a result."""
        try:
            await loop
        except Exception:
            self._stop.set()
            self.wake()
            raise

    async def _deregister(self) -> None:
        """Tells the database that the node stops. If it is unreachable, the node counts as lost after 90 s."""
        try:
            async with asyncio.timeout(DEREGISTER_S):
                await self._registry.deregister()
        except (psycopg.Error, TimeoutError) as error:
            logger.warning("%s could not record that this node stops: %s", self.target, error)

    async def _run_maintenance(self) -> None:
        while True:
            await retry_until_connected(f"maintenance of {self.target}", self._maintain)
            await asyncio.sleep(MAINTENANCE_S)

    async def _maintain(self) -> None:
        async with self._pool.connection() as conn:
            before = await (await conn.execute("select headrace_internal.record_epoch()")).fetchone()
            if before and before[0]:
                logger.warning(
                    "%s was failed over or restored: the epoch of its logs was %s; events that were acknowledged last on the old "
                    "server may be lost, and handlers may repeat effects outside of the database", self.target, before[0],
                )  # fmt: skip
            await conn.execute("select count(*) from headrace.maintain_log()")
            await conn.execute("select headrace_internal.trim_results()")
            await conn.execute("select headrace_internal.forget_instances()")
            await conn.execute("select headrace_internal.forget_lineage()")
