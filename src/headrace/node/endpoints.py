"""Endpoints: what a node shows over HTTP: its metrics, and whether it is alive and ready.

/healthz is for the question "would a restart help": it fails when a loop of the node has ended or its event loop was blocked, not when
the database is down. /readyz is for the question "does it do its work": the databases answer and are migrated, no loop fails, and the
consumers keep up."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

from headrace.core import Address, DurationHistogram, encode
from headrace.db import SCHEMA_RELEASE, LoopMonitor, StopSignal, cancel_tasks, check_node_release, error_line
from headrace.node.databases import DatabaseLoops, start_failures
from headrace.node.http_server import HttpServer, Response
from headrace.observe.metrics import CONTENT_TYPE, DatabaseMetrics, Sample, metric_family, render

DATABASE_S = 2.0
"""How long /readyz waits for a database."""
BLOCKED_S = 5.0
"""An event loop that was silent for longer within the last RECENT_S is not healthy."""
RECENT_S, EVERY_S = 30.0, 0.5
CHECK_AGE_S = 1.0
"""A check of the databases younger than this is used again, so that nobody can load them by asking."""


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    """Where a node serves its metrics and health, and the lag in seconds above which it is not ready (None: any)."""

    address: Address
    ready_lag_s: float | None = None

    @classmethod
    def parse(cls, address: str, *, ready_lag_s: float | None = None) -> HttpSettings:
        """For an address in `host:port`."""
        return cls(address=Address.parse(address), ready_lag_s=ready_lag_s)


class NodeMetrics:
    """Collects the metrics of one node."""

    def __init__(self, databases: Sequence[DatabaseLoops], monitor: LoopMonitor) -> None:
        self._databases = databases
        self.monitor = monitor
        self._readings = {database.target.name: DatabaseMetrics(database.loop_pool) for database in databases}

    async def read(self, database: DatabaseLoops) -> Sequence[Sample]:
        """The numbers of one database; none if it cannot be read."""
        return await self._readings[database.target.name].read()

    async def collect(self) -> tuple[dict[str, list[Sample]], dict[tuple[str, ...], DurationHistogram]]:
        """The samples of each shard, and the durations of the handlers by kind and name."""
        await asyncio.gather(*map(self.read, self._databases))
        return self.known_samples(), self.durations()

    def known_samples(self) -> dict[str, list[Sample]]:
        """The samples of each shard, without a new reading of the database."""
        samples = {
            database.target.name: [*self._readings[database.target.name].samples, *self._own_samples(database)]
            for database in self._databases
        }
        failures = metric_family("headrace_loop_failures_total")
        first = next(iter(samples.values()), [])
        # A loop names its database itself, if it is of one.
        first += [Sample(failures, (loop,), count) for loop, count in sorted(self.monitor.failure_counts.items())]
        return samples

    def _own_samples(self, database: DatabaseLoops) -> Iterator[Sample]:
        is_read = self._readings[database.target.name].error is None
        yield Sample(metric_family("headrace_database_up"), (), float(is_read))
        outputs = metric_family("headrace_correlator_outputs_total")
        for labels, count in sorted(database.correlators.outputs_by_correlator.items()):
            yield Sample(outputs, labels, count)

    def durations(self) -> dict[tuple[str, ...], DurationHistogram]:
        """The durations of the handlers by kind and name, of all databases together."""
        durations: dict[tuple[str, ...], DurationHistogram] = {}
        for labels, histogram in self.histograms():
            durations.setdefault(labels, DurationHistogram()).add(histogram)
        return durations

    def histograms(self) -> Iterator[tuple[tuple[str, str], DurationHistogram]]:
        """The histogram of each handler on each database, by kind and name."""
        for database in self._databases:
            for runner in database.consumers:
                yield ("consumer", f"{runner.consumer.topic}/{runner.consumer.name}"), runner.durations
            for worker in database.actions.workers:
                by_action: Mapping[str, DurationHistogram] = worker.durations
                for action, histogram in by_action.items():
                    yield ("action", action), histogram


class Endpoints:
    """The HTTP server of one node."""

    def __init__(
        self, node: str, databases: Sequence[DatabaseLoops], metrics: NodeMetrics, stop: StopSignal, settings: HttpSettings
    ) -> None:
        self._node = node
        self._stop = stop
        self._databases = databases
        self._metrics = metrics
        self._ready_lag_s = settings.ready_lag_s
        self._delays: deque[tuple[float, float]] = deque(maxlen=int(RECENT_S / EVERY_S))
        self._database_reasons: list[str] = []
        self._checked_at = float("-inf")
        self._check_lock = asyncio.Lock()
        routes = {"/metrics": self._show_metrics, "/healthz": self._show_health, "/readyz": self._show_readiness}
        self._server = HttpServer(settings.address, routes)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Address]:
        """Serves while the block runs; yields the real address."""
        async with self._server.serving() as address:
            watch = asyncio.create_task(self._watch_event_loop(), name="headrace event loop watch")
            try:
                yield address
            finally:
                await cancel_tasks(watch)

    async def _watch_event_loop(self) -> None:
        while True:
            asked_at = time.monotonic()
            await asyncio.sleep(EVERY_S)
            now = time.monotonic()
            self._delays.append((now, now - asked_at - EVERY_S))

    async def _show_metrics(self) -> Response:
        samples, durations = await self._metrics.collect()
        return Response(render(samples, durations), CONTENT_TYPE)

    async def _show_health(self) -> Response:
        return self._answer(list(self._health_problems()))

    def _health_problems(self) -> Iterator[str]:
        for database in self._databases:
            for name in database.ended_loops():
                yield f"{name} has ended; restart the node"
        now = time.monotonic()
        blocked_s = max((delay for at, delay in self._delays if now - at < RECENT_S), default=0.0)
        if blocked_s > BLOCKED_S:
            yield f"the event loop was blocked for {blocked_s:.1f} s within the last {RECENT_S:.0f} s; the log names the handler"

    async def _show_readiness(self) -> Response:
        reasons = [*self._health_problems()]
        if self._stop.is_set():
            reasons.append("the node stops")
        reasons += start_failures(self._databases)
        reasons += [f"{failure.loop} fails: {failure.error}" for failure in self._metrics.monitor.failures()]
        async with self._check_lock:
            if time.monotonic() - self._checked_at >= CHECK_AGE_S:
                checks = await asyncio.gather(*map(self._check_database, self._databases))
                self._database_reasons = [reason for reasons in checks for reason in reasons]
                self._checked_at = time.monotonic()
        return self._answer(reasons + self._database_reasons)

    async def _check_database(self, database: DatabaseLoops) -> list[str]:
        try:
            async with asyncio.timeout(DATABASE_S), database.loop_pool.connection(timeout=DATABASE_S) as conn:
                row = await (await conn.execute(SCHEMA_RELEASE)).fetchone()
            check_node_release(row and (row[0], row[1]), database=str(database.target))
        except TimeoutError:
            return [f"{database.target} did not answer within {DATABASE_S:g} s"]
        except Exception as error:  # noqa: BLE001 - whatever it is, the node is not ready
            return [f"{database.target}: {error_line(error)}"]
        return await self._check_lag(database) if self._ready_lag_s is not None else []

    async def _check_lag(self, database: DatabaseLoops) -> list[str]:
        own = {(runner.consumer.topic, runner.consumer.name) for runner in database.consumers}
        lag = metric_family("headrace_consumer_lag_seconds")
        return [
            f"consumer {sample.labels[1]}/{sample.labels[2]} is {sample.value:.0f} s behind, more than {self._ready_lag_s:g} s"
            for sample in await self._metrics.read(database)
            if sample.family is lag and sample.labels[1:] in own and sample.value > (self._ready_lag_s or 0)
        ]

    def _answer(self, reasons: Sequence[str]) -> Response:
        body = {"status": "failing" if reasons else "ok", "node": self._node, "reasons": list(reasons)}
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return Response(encode(body).encode() + b"\n", "application/json", status)
