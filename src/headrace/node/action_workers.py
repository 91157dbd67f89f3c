"""Action workers: the loops of a node that handle actions on one database.

Owns: the workers, their leases, and the sweep for actions that no node handles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from headrace.actions import LEASE_S, WORKERS, ActionWorker, LeaseExtender, Queue, WorkerPool
from headrace.db import Loop, Pool, StopSignal, Subscription, Target, cancel_tasks
from headrace.drivers import Sources

logger = logging.getLogger(__name__)

SWEEP_S = 10.0
"""How often actions that no node handles are looked for."""
NO_HANDLER_GRACE_S = 300.0
"""Longer than most rolling deployments: a rule may be active for minutes before the first node with its new handler runs."""
AWAY_S = 30.0
"""A node was away if its last sweep is longer ago. Heartbeats come every 30 s and count for 90 s: a shorter absence is safe."""
RETURN_S = 60.0
"""By then every node that is back has sent a heartbeat."""


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How a node handles actions."""

    lease_s: float = LEASE_S
    """How long an action is held; extended while its handler runs."""
    workers: int = WORKERS
    """How many batches the node handles concurrently, not counting actions with their own concurrency."""
    no_handler_grace_s: float = NO_HANDLER_GRACE_S
    """How long an action may be due without any node that handles it, before it becomes a dead letter with the reason no_handler."""


class ActionWorkers:
    """Handles the actions of a namespace until `stop` is set."""

    def __init__(
        self,
        worker_pools: Sequence[WorkerPool],
        target: Target,
        pool: Pool,
        leases: Pool,
        subscribe: Callable[[str], Subscription],
        stop: StopSignal,
        *,
        namespace: str | None,
        node_id: UUID,
        settings: WorkerSettings,
        sources: Sources | None = None,
    ) -> None:
        self._target = target
        self._stop = stop
        queue = Queue(leases, namespace=namespace, node_id=node_id, lease_s=settings.lease_s)
        self._leases = LeaseExtender(queue)
        self._sweeper = UnhandledSweeper(queue, grace_s=settings.no_handler_grace_s)
        # One for each pool: a notification wakes one waiter, and only the pool of the new action can handle it.
        self.workers = [
            ActionWorker(group, queue, pool, self._leases, subscribe("headrace_action"), stop, sources=sources)
            for group in worker_pools
        ]

    async def run(self) -> None:
        background = [
            asyncio.create_task(self._leases.run(), name=f"leases of {self._target}"),
            asyncio.create_task(self._sweeper.loop.run(), name=f"sweep of {self._target}"),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for worker in self.workers:
                    group.create_task(worker.run())
                group.create_task(self._stop.wait())
        finally:
            await cancel_tasks(*background)

    async def release(self) -> None:
        """Returns what the workers still hold to the queue, when they have ended or ignore that they should."""
        await self._leases.release()
        for worker in self.workers:
            await worker.release_leftovers()


class UnhandledSweeper:
    """Moves actions that no node handles to the dead letters.

    It buries no action only because nodes were away for a while. A node that was away itself (the database was down, the machine
    asleep) finds every heartbeat old; it gives the other nodes time for a new one before it buries anything. Uses the database's
    clock, which goes on while a machine sleeps."""

    def __init__(self, queue: Queue, *, grace_s: float) -> None:
        self._queue = queue
        self._grace_s = grace_s
        self.loop = Loop("sweep", step=self._step, delay_s=SWEEP_S)
        self._swept_s: float | None = None
        self._resumes_s = 0.0

    async def _step(self) -> float:
        if buried := await self.sweep_once():
            logger.warning("%s actions that no node handles were moved to the dead letters", buried)
        return SWEEP_S

    async def sweep_once(self) -> int:
        """Returns how many actions were buried."""
        now_s = await self._queue.clock_s()
        if self._swept_s is not None and now_s - self._swept_s > AWAY_S:
            self._resumes_s = now_s + RETURN_S
        self._swept_s = now_s
        return await self._queue.bury_unhandled(self._grace_s) if now_s >= self._resumes_s else 0
