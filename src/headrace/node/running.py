"""A node inside another process, such as a web server: on its event loop, with connections of its own.

Promises: the block starts only when the node has registered with every database; a start that cannot succeed raises; when the
block ends, the node stops in order: no new batches, running handlers finish within the grace time, then the connections close."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from headrace.core import DatabaseUnavailable, Forbidden, NotMigrated, SchemaTooNew
from headrace.db import (
    RELAY_CONNECTIONS,
    LoopFailure,
    LoopMonitor,
    Target,
    cancel_tasks,
    configured_targets,
    connect,
    error_line,
    parse_targets,
    pending_steps,
)
from headrace.node.action_workers import WorkerSettings
from headrace.node.application import Application
from headrace.node.endpoints import HttpSettings
from headrace.node.node import Node
from headrace.node.registry import Identity
from headrace.web.http import IngestSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Health:
    """The state of a running node: the loops that fail now."""

    failures: tuple[LoopFailure, ...] = ()

    @property
    def is_healthy(self) -> bool:
        return not self.failures


class RunningNode:
    """A node that runs in this process."""

    def __init__(self, node: Node, task: asyncio.Task[None], monitor: LoopMonitor) -> None:
        self.node = node
        self._task = task
        self._monitor = monitor

    def health(self) -> Health:
        """Which loops fail now. Costs no round trip, so that a health check may call it often."""
        failures = self._monitor.failures()
        if self._task.done():
            failures.append(_loop_failure(self._task))
        return Health(tuple(failures))


@asynccontextmanager
async def run_node(
    app: Application,
    dsn: str | Sequence[Target] | None,
    *,
    sequencer: bool,
    start_timeout_s: float,
    grace_s: float,
    on_failure: Callable[[LoopFailure], None] | None,
    identity: Identity | None,
    work: WorkerSettings | None,
    http: HttpSettings | None = None,
    ingest: IngestSettings | None = None,
    relay_connections: int = RELAY_CONNECTIONS,
) -> AsyncIterator[RunningNode]:
    """Runs a node while the block runs; see Headrace.running."""
    if dsn is None:
        # Run it in a thread: without configuration this starts the embedded server.
        targets: Sequence[Target] = await asyncio.to_thread(configured_targets)
    else:
        targets = parse_targets(dsn) if isinstance(dsn, str) else dsn
    # Before the node starts: a start that is broken off in the middle would have to be undone.
    await _check_schemas(targets, start_timeout_s)
    monitor = LoopMonitor(on_failure)
    node = Node(
        app,
        targets,
        sequencer=sequencer,
        grace_s=grace_s,
        identity=identity,
        work=work,
        http=http,
        ingest=ingest,
        relay_connections=relay_connections,
        monitor=monitor,
    )
    task = asyncio.create_task(node.run(), name="headrace node")
    try:
        await _start(node, task, targets, start_timeout_s)
    except BaseException:
        await cancel_tasks(task)
        raise
    logger.info("node %s runs on %s", node.identity.name, ", ".join(map(str, targets)))
    report_end = partial(_report_end, monitor)
    task.add_done_callback(report_end)
    try:
        yield RunningNode(node, task, monitor)
    finally:
        task.remove_done_callback(report_end)
        node.stop()
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # The process has no time for the grace time: leave no loop behind.
            await cancel_tasks(task)
            raise


async def _check_schemas(targets: Sequence[Target], timeout_s: float) -> None:
    """Raises NotMigrated where steps of a schema are missing, and DatabaseUnavailable where a server does not answer in time."""
    try:
        async with asyncio.timeout(timeout_s):
            for target in targets:
                await asyncio.to_thread(require_migrated, target)
    except TimeoutError:
        raise DatabaseUnavailable(
            f"the node did not start within {timeout_s:g} s: {target}: no answer yet; check the address and that PostgreSQL accepts "
            "connections, or raise start_timeout_s"
        ) from None


async def _start(node: Node, task: asyncio.Task[None], targets: Sequence[Target], timeout_s: float) -> None:
    """Waits until the node runs. Raises what keeps it from starting."""
    started = asyncio.create_task(node.wait_started(), name="headrace start")
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.wait([task, started], return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        raise DatabaseUnavailable(
            f"the node did not start within {timeout_s:g} s: {'; '.join(node.start_failures)}; "
            "check the address and that PostgreSQL accepts connections, or raise start_timeout_s"
        ) from None
    finally:
        await cancel_tasks(started)
    if task.done():
        await task


def _loop_failure(task: asyncio.Task[None]) -> LoopFailure:
    error = None if task.cancelled() else task.exception()
    return LoopFailure("node", error_line(error) if error else "the node has ended", 1)


def _report_end(monitor: LoopMonitor, task: asyncio.Task[None]) -> None:
    failure = _loop_failure(task)
    logger.error("the node has ended although nobody stopped it: %s", failure.error)
    monitor.report(failure)


def require_migrated(target: Target) -> None:
    """Raises NotMigrated when steps of the schema are missing; a database that is unreachable or newer gets a warning."""
    try:
        with connect(target) as conn:
            missing = pending_steps(conn)
    except DatabaseUnavailable as error:
        # An unreachable shard must not keep the others from running; the node retries it.
        logger.warning("%s", error)
        return
    except SchemaTooNew as error:
        # During a rolling upgrade the newer release migrates first. The node itself checks whether it can run on that schema.
        logger.warning("%s", error)
        return
    except Forbidden:
        # A role that only handles cannot see the steps; the node checks the release.
        return
    if any(not step.repeatable for step in missing):
        raise NotMigrated(f"database {target} lacks {len(missing)} steps of the schema; run: headrace migrate")
    if missing:
        # A newer version may have migrated already while nodes of this version still start and stop.
        logger.warning("database %s has functions of another version; with the newer version, run: headrace migrate", target)
