"""The same numbers by OpenTelemetry."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

from headrace.actions import Action, list_dead_letters, send_action
from headrace.consume import Failure
from headrace.core import DURATION_BUCKETS_S, Event, LoggedEvent
from headrace.db import AsyncConnection, Connection, Target
from headrace.log.outbox import publish_many
from headrace.node import Headrace
from headrace.observe.metrics.families import FAMILIES
from tests.builders import topic
from tests.telemetry import metric_reader

pytestmark = pytest.mark.lane("pg18")
DURATIONS = "headrace_handler_duration_seconds"


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return metric_reader()


def points(reader: InMemoryMetricReader) -> dict[tuple[str, str], float]:
    """Values by metric and by their labels as text; of a histogram, the number of calls."""
    data = reader.get_metrics_data()
    return {
        (metric.name, " ".join(f"{label}={value}" for label, value in sorted(dict(point.attributes).items()))): (
            point.count if isinstance(point, HistogramDataPoint) else point.value
        )
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        if scope.scope.name == "headrace"
        for metric in scope.metrics
        if metric.name.startswith("headrace_")
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
        publish_many(conn, [Event(topic="orders", type="placed") for _ in range(3)])
        async with asyncio.timeout(30):
            while node.node.handled < 3:
                await asyncio.sleep(0.02)
        # In a thread, as an exporter does it.
        seen = await asyncio.to_thread(points, reader)
        here = points(reader)
    assert seen["headrace_sequenced_events_total", "namespace=default shard=test topic=orders"] == 3
    assert seen["headrace_consumer_lag_events", "consumer=mailer namespace=default shard=test topic=orders"] == 0
    assert here["headrace_database_up", "shard=test"] == 1, "a reader on the node's own thread does not wait for ever"
    assert {name for name, _ in seen} <= {family.name for family in FAMILIES}
    assert {name for name, _ in points(reader)} == {DURATIONS}, "a node that has ended shows only what it has recorded"


async def test_handlers_record_every_call_in_a_histogram(
    reader: InMemoryMetricReader, conn: Connection, database: Target
) -> None:
    """Also calls that fail; with the buckets of Prometheus' text."""
    topic(conn)
    app = Headrace()
    slept_s = iter((0.0, 0.03, 0.0))

    @app.consumer("orders", name="histogram-consumer", failure=Failure.dead_letter(attempts=1))
    async def consumer(event: LoggedEvent, tx: AsyncConnection) -> None:
        await asyncio.sleep(next(slept_s))
        if event.payload == 2:
            raise ValueError

    @app.handler("HISTOGRAM")
    def handler(action: Action, tx: Connection) -> None: ...

    async with app.running([database]) as node:
        publish_many(conn, [Event(topic="orders", type="placed", payload=n) for n in range(3)])
        send_action(conn, "HISTOGRAM")
        async with asyncio.timeout(30):
            while not (node.node.actions and list_dead_letters(conn)):
                await asyncio.sleep(0.02)
        data = await asyncio.to_thread(reader.get_metrics_data)
    [metric] = [
        metric
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == DURATIONS
    ]
    found = {dict(point.attributes)["handler"]: point for point in metric.data.data_points}
    point = found["orders/histogram-consumer"]
    assert (metric.unit, point.explicit_bounds) == ("s", DURATION_BUCKETS_S)
    assert point.count == 3 and point.min < point.max, "each call by itself, not their mean"
    assert found["HISTOGRAM"].count == 1
