"""Node: one process that runs the loops of an application on every database it is given.

Owns: starting and stopping the loops. Promises: once started, nothing but a stop signal ends the node; databases do not wait for
each other, so an unreachable shard stops none of the others; when stopped, the node finishes the running batches and starts no new
ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import LiteralString

from headrace.actions import build_worker_pools
from headrace.consume import ConsumerRunner
from headrace.core import HeadraceError
from headrace.correlators import CorrelatorEngine
from headrace.db import (
    Listener,
    LoopSteps,
    Target,
    cancel_tasks,
    check_node_database,
    create_loop_pool,
    create_pool,
    fetch_value_async,
    is_transient,
    map_error,
)
from headrace.log import Sequencer
from headrace.node.action_workers import ActionWorkers, WorkerSettings
from headrace.node.activity import Activity
from headrace.node.app import Headrace
from headrace.node.loops import supervise
from headrace.node.registry import Identity, Registry
from headrace.rules import RuleEngine
from headrace.schedules import Ticker

logger = logging.getLogger(__name__)

GRACE_S = 30.0
MAINTENANCE_S = 60.0
MAINTENANCE: Mapping[str, LiteralString] = {
    "time partitions": "select count(*) from headrace.maintain_log()",
    "results": "select headrace_internal.trim_results()",
    "correlator keys": "select headrace_internal.forget_instances()",
    "lineage": "select headrace_internal.forget_lineage()",
}
"""The steps of the maintenance; one that fails does not keep the others from running."""
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
        # A database ends by itself only if it rejects the start, for example because of an unknown topic.
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
        # Each worker holds one connection while it handles, with the database's own settings: it runs the user's code.
        workers = sum(consumer.concurrency for consumer in app.consumers) + sum(group.workers for group in pools)
        settings = {"headrace.node": identity.name}
        self._pool = create_pool(target, size=workers + 1, settings=settings)
        # Sequencer, maintenance, ticker and heartbeat need one each, rules two, correlators three.
        self._loop_pool = pool = create_loop_pool(target, size=9, settings=settings)
        subscribe = self._listener.subscribe
        self.sequencer = Sequencer(pool, subscribe("headrace_outbox"), stop)
        self.ticker = Ticker(pool, subscribe("headrace_schedule"), stop, target)
        self.rules = RuleEngine(pool, subscribe("headrace_rule"), subscribe("headrace_log"), stop)
        self.correlators = CorrelatorEngine(pool, subscribe("headrace_rule"), subscribe("headrace_log"), stop)
        self.consumers = [ConsumerRunner(consumer, self._pool, subscribe("headrace_log"), stop) for consumer in app.consumers]
        self.actions = ActionWorkers(
            pools,
            target,
            self._pool,
            subscribe("headrace_action"),
            stop,
            namespace=app.namespace,
            node_id=identity.node_id,
            settings=work,
        )
        activity = Activity(self.consumers, self.actions.workers)
        self._registry = Registry(app, identity, pool, sequencer=sequencer, report=activity.report)

    def wake(self) -> None:
        """Wakes all loops, so that they see the stop signal."""
        self._listener.notify_all()

    async def run(self) -> None:
        # Before the pools: they set settings of the session, which a pooler in transaction mode would give to other clients.
        await self._first_of(f"start on {self.target}", partial(check_node_database, self.target))
        await self._loop_pool.open()
        await self._pool.open()
        try:
            await self._first_of(f"registration with {self.target}", self._register)
            try:
                await self._run_loops()
            finally:
                await self._deregister()
        finally:
            await self._pool.close()
            await self._loop_pool.close()

    async def _first_of(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        """Runs a step of the start. If the first attempt is rejected, the node ends: the user must see an unknown topic or a missing
        right at once. A database that was down at the start may be wrong later without harm to the others."""
        try:
            await step()
        except Exception as error:
            if not is_transient(error):
                raise
            await LoopSteps(name, self._stop, pool=self._loop_pool).run(step)

    async def _record_epoch(self) -> None:
        before = await fetch_value_async(self._loop_pool, "select headrace_internal.record_epoch()")
        if before:
            logger.warning(
                "%s was failed over or restored: the epoch of its logs was %s; events that were acknowledged last on the old server "
                "may be lost, and handlers may repeat effects outside of the database", self.target, before,
            )  # fmt: skip

    async def _register(self) -> None:
        await self._registry.register()
        for consumer in self.consumers:
            await consumer.register()

    async def _run_loops(self) -> None:
        background = [
            supervise(f"listener of {self.target}", self._listener.run),
            supervise(f"heartbeat of {self.target}", self._registry.run),
        ]
        loops = [supervise(consumer.name, consumer.run, self._stop) for consumer in self.consumers]
        loops.append(supervise(f"actions of {self.target}", self.actions.run, self._stop))
        if self._runs_sequencer:
            background.append(supervise(f"maintenance of {self.target}", self._run_maintenance))
            own_loops = {
                "sequencer": self.sequencer.run,
                "schedules": self.ticker.run,
                "rules": self.rules.run,
                "correlators": self.correlators.run,
            }
            loops += [supervise(f"{name} of {self.target}", run, self._stop) for name, run in own_loops.items()]
        try:
            await asyncio.wait(loops)
        finally:
            await cancel_tasks(*background, *loops)

    async def _deregister(self) -> None:
        """Tells the database that the node stops. If it is unreachable, the node counts as lost after 90 s."""
        try:
            async with asyncio.timeout(DEREGISTER_S):
                await self._registry.deregister()
        except Exception as error:  # noqa: BLE001 - the node stops in any case
            logger.warning("%s could not record that this node stops: %s", self.target, error)

    async def _run_maintenance(self) -> None:
        steps = {name: LoopSteps(f"maintenance of {self.target}: {name}", pool=self._loop_pool) for name in MAINTENANCE}
        epoch = LoopSteps(f"maintenance of {self.target}: epoch", pool=self._loop_pool)
        while True:
            await epoch.attempt(self._record_epoch)
            for name, statement in MAINTENANCE.items():
                await steps[name].attempt(partial(fetch_value_async, self._loop_pool, statement))
            await asyncio.sleep(MAINTENANCE_S)
