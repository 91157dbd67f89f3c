"""The same numbers by OpenTelemetry."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry import metrics as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, Target
from headrace.node import Headrace
from headrace.observe.metrics import FAMILIES
from headrace.outbox import publish
from tests.builders import topic

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture(scope="module")
def reader() -> Iterator[InMemoryMetricReader]:
    """The reader of the process: OpenTelemetry's provider can be set only once."""
    reader = InMemoryMetricReader()
    api.set_meter_provider(MeterProvider([reader]))
    return reader


def points(reader: InMemoryMetricReader) -> dict[tuple[str, str], float]:
    """Values by metric and by their labels as text."""
    data = reader.get_metrics_data()
    return {
        (metric.name, " ".join(f"{label}={value}" for label, value in sorted(dict(point.attributes).items()))): point.value
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        if scope.scope.name == "headrace"
        for metric in scope.metrics
        for point in metric.data.data_points
    }


async def test_opentelemetry_gets_the_numbers_of_a_running_node(
    reader: InMemoryMetricReader, conn: Connection, database: Target
) -> None:
    topic(conn)
    app = Headrace()

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None: ...

    async with app.running([database]) as node:
        publish(conn, "orders", "placed", 1)
        async with asyncio.timeout(30):
            while node.node.handled < 1:
                await asyncio.sleep(0.02)
        # In a thread, as an exporter does it.
        seen = await asyncio.to_thread(points, reader)
        here = points(reader)
    assert seen["headrace_sequenced_events_total", "namespace=default shard=test topic=orders"] == 1
    assert seen["headrace_handler_duration_seconds_count", "handler=orders/mailer kind=consumer"] == 1
    assert seen["headrace_consumer_lag_events", "consumer=mailer namespace=default shard=test topic=orders"] == 0
    assert here["headrace_database_up", "shard=test"] == 1, "a reader on the node's own thread does not wait for ever"
    names = {family.name for family in FAMILIES}
    assert {name for name, _ in seen} <= names | {f"headrace_handler_duration_seconds_{part}" for part in ("count", "sum")}
    assert points(reader) == {}, "a node that has ended shows nothing"
