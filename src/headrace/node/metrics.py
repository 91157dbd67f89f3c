"""Metrics of a node: those of its databases, and those of its own process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core import DurationHistogram
from headrace.db import LoopMonitor
from headrace.observe.metrics import DatabaseMetrics, Sample, metric_family

if TYPE_CHECKING:
    from headrace.node.node import DatabaseLoops


class NodeMetrics:
    """Collects the metrics of one node."""

    def __init__(self, databases: Sequence[DatabaseLoops], monitor: LoopMonitor) -> None:
        self._databases = databases
        self._monitor = monitor
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
        first += [Sample(failures, (loop,), count) for loop, count in sorted(self._monitor.failure_counts.items())]
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
