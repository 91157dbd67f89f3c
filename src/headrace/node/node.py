"""Node: one process that runs the loops of an application on every database it is given.

Owns: starting and stopping the loops. Promises: once started, nothing but a stop signal ends the node; databases do not wait for
each other, so an unreachable shard stops none of the others; when stopped, the node finishes the running batches and starts no new
ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from headrace.core import Address, HeadraceError
from headrace.db import (
    CONNECTIONS,
    RELAY_CONNECTIONS,
    LoopMonitor,
    StopSignal,
    Target,
    cancel_tasks,
    map_error,
)
from headrace.node.action_workers import WorkerSettings
from headrace.node.application import Application
from headrace.node.databases import GRACE_S, DatabaseLoops, start_failures
from headrace.node.endpoints import Endpoints, HttpSettings, NodeMetrics
from headrace.node.event_loop import BlockMonitor, handler_codes
from headrace.node.registry import Identity
from headrace.observe.metrics import observed
from headrace.observe.tracing import without_ambient_span
from headrace.web.http import IngestServer, IngestSettings

logger = logging.getLogger(__name__)


class Node:
    """Runs an application until `stop`.

    Sequencing, rules, correlators, schedules and maintenance serve every namespace and need the owner's rights. With
    `sequencer=False` the node leaves them to other nodes and runs only its consumers and handlers; a role with the level
    `consume` may do that. `connections` is the most that the node has to each of its databases; deliveries of relays have up to
    `relay_connections` more. With 0 of these it runs no relays; otherwise those of the application's namespace. With `http` it
    serves its metrics and health, with `ingest` HTTP in, which has connections of its own."""

    def __init__(
        self,
        app: Application,
        targets: Sequence[Target],
        *,
        sequencer: bool = True,
        grace_s: float = GRACE_S,
        identity: Identity | None = None,
        work: WorkerSettings | None = None,
        connections: int = CONNECTIONS,
        relay_connections: int = RELAY_CONNECTIONS,
        http: HttpSettings | None = None,
        ingest: IngestSettings | None = None,
        monitor: LoopMonitor | None = None,
    ) -> None:
        self.identity = identity or Identity()
        self.monitor = monitor or LoopMonitor()
        self._stop = StopSignal()
        self._grace_s = grace_s
        self.is_overdue = False
        """Did handlers run on after the grace time? Their threads may still run when the node has ended."""
        self._block_monitor = BlockMonitor(handler_codes(app))
        work = work or WorkerSettings()
        # Loops that are created here report to the monitor, as do those that the tasks of `run` create.
        with self.monitor.watch():
            self._databases = [
                DatabaseLoops(
                    app,
                    target,
                    self._stop,
                    sequencer=sequencer,
                    identity=self.identity,
                    work=work,
                    connections=connections,
                    relay_connections=relay_connections,
                )
                for target in targets
            ]
        self._metrics = NodeMetrics(self._databases, self.monitor)
        self._endpoints = Endpoints(self.identity.name, self._databases, self._metrics, self._stop, http) if http else None
        self.http_address: Address | None = None
        """Where metrics and health are served, while the node runs."""
        self._ingest = IngestServer(targets, ingest) if ingest else None
        self.ingest_address: Address | None = None
        """Where HTTP in is served, while the node runs."""

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

    @property
    def loop_failures(self) -> Mapping[str, int]:
        """How many steps of each loop have failed."""
        return self.monitor.failure_counts

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    async def wait_started(self) -> None:
        """Waits until the node has registered with every database and its loops run."""
        for database in self._databases:
            await database.started.wait()

    @property
    def start_failures(self) -> list[str]:
        """What keeps the node from starting now, one line for each database that has not started."""
        return start_failures(self._databases)

    def stop(self) -> None:
        """Stops the node: running batches are finished, no new ones start."""
        self._stop.set()

    async def run(self) -> None:
        """Runs until `stop`. Loops that have not ended after the grace time are cancelled, and their transactions rolled back."""
        with without_ambient_span(), self.monitor.watch(), self._block_monitor.watching(), observed(self._metrics):
            async with AsyncExitStack() as stack:
                if self._endpoints:
                    self.http_address = await stack.enter_async_context(self._endpoints.serving())
                    logger.info("metrics and health are served on http://%s", self.http_address)
                if self._ingest:
                    self.ingest_address = await stack.enter_async_context(self._ingest.serving())
                    logger.info("events are taken and read on http://%s", self.ingest_address)
                await self._run()

    async def _run(self) -> None:
        tasks = [asyncio.create_task(database.run(), name=str(database.target)) for database in self._databases]
        stopped = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            # A database ends by itself only if it rejects the start, for example because of an unknown topic.
            await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            _, late = await asyncio.wait(tasks, timeout=self._grace_s)
            self.is_overdue = bool(late)
            for task in late:
                logger.warning(
                    "%s did not end within %.0f s; its open transactions are rolled back", task.get_name(), self._grace_s
                )
            for database in self._databases:
                database.is_overdue = True
            await cancel_tasks(*late)
        except asyncio.CancelledError:
            # Tasks do not end with the one that waits for them. A loop that loses the cancellation sees the stop signal.
            self.stop()
            await cancel_tasks(*tasks)
            raise
        finally:
            await cancel_tasks(stopped)
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                error = _unwrap(outcome)
                raise error if isinstance(error, HeadraceError) else map_error(error) or error


def _unwrap(error: Exception) -> Exception:
    """The error inside exception groups that hold only one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
