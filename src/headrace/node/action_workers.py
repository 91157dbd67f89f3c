"""Hands: the loops of a node that handle actions on one database.

Owns: the workers, their leases, and the sweep for actions nobody handles."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from uuid import UUID

from headrace.actions import LEASE_S, WORKERS, ActionWorker, LeaseExtender, Queue, lanes, lease_pool
from headrace.db import Pool, Subscription, Target, end_loops
from headrace.node.app import Headrace
from headrace.node.supervision import supervise
from headrace.node.sweep import Sweep


@dataclass(frozen=True, kw_only=True)
class Work:
    """How a node works on actions."""

    lease_s: float = LEASE_S
    """How long an action is held; made longer by itself while its handler runs."""
    workers: int = WORKERS
    """How many batches it handles side by side, beside actions with a concurrency of their own."""
    unhandled_s: float = 10.0
    """How long an action may be due without any node that handles it, before it is a dead letter."""


class ActionWorkers:
    """Handles an application's actions until told to stop."""

    def __init__(
        self, app: Headrace, target: Target, pool: Pool, bell: Subscription, stop: asyncio.Event, *, node_id: UUID, work: Work
    ) -> None:
        self._target = target
        self._stop = stop
        own = lanes(app.handlings, workers=work.workers)
        # Claims are short: a few connections serve many workers.
        self._leases = lease_pool(target, size=min(4, sum(lane.workers for lane in own)) + 1)
        self._queue = Queue(self._leases, namespace=app.namespace, node_id=node_id, lease_s=work.lease_s)
        self._keeper = LeaseExtender(self._queue)
        self._sweep = Sweep(self._queue, unhandled_s=work.unhandled_s)
        bell.word = app.namespace
        self.workers = [ActionWorker(lane, self._queue, pool, self._keeper, bell, stop) for lane in own]

    async def run(self) -> None:
        await self._leases.open()
        beside = [
            supervise(f"leases of {self._target}", self._keeper.run),
            supervise(f"sweep of {self._target}", self._sweep.run),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for worker in self.workers:
                    group.create_task(worker.run())
                group.create_task(self._stop.wait())
        finally:
            await end_loops(*beside)
            await self._leases.close()
