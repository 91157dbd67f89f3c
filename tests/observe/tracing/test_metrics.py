"""The four metrics of OpenTelemetry's messaging conventions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import Metric

from headrace.actions import Action, send_action
from headrace.consume import Batch
from headrace.core import Event, LoggedEvent, UnknownTopic
from headrace.db import AsyncConnection
from headrace.log.outbox import publish, publish_many
from headrace.log.topics import read_log
from headrace.node import Headrace
from headrace.observe.tracing.tracer import BUCKETS_S
from headrace.testing import Kit
from tests.observe.tracing.conftest import Spans
from tests.telemetry import metric_reader

pytestmark = pytest.mark.lane("pg18")


def messaging_metrics() -> dict[str, Metric]:
    data = metric_reader().get_metrics_data()
    return {
        metric.name: metric
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name.startswith("messaging.")
    }


def value(metric: Metric, **labels: str) -> Any:
    """The one point with exactly these labels, beside the system's name."""
    wanted = {"messaging.system": "headrace", **{f"messaging.{name.replace('__', '.')}": text for name, text in labels.items()}}
    if "error" in labels:
        wanted["error.type"] = wanted.pop("messaging.error")
    [point] = [point for point in metric.data.data_points if dict(point.attributes or {}) == wanted]
    return point


async def test_publishers_and_handlers_are_measured(kit: Kit, spans: Spans) -> None:
    metric_reader()
    kit.conn.execute("select headrace.create_topic('measured')")
    app = Headrace()

    @app.consumer("measured", batch=Batch(max=10))
    async def counter(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None: ...

    @app.handler("MEASURED", attempts=1)
    async def fail(action: Action, tx: AsyncConnection) -> None:
        raise ValueError("no")

    publish(kit.conn, "measured", "placed")
    publish_many(kit.conn, [Event(topic="measured", type="placed") for _ in range(4)])
    with pytest.raises(UnknownTopic):
        publish(kit.conn, "unmeasured", "placed")
    send_action(kit.conn, "MEASURED")
    await kit.run_until_idle(app)
    read_log(kit.conn, "measured", after=2)
    metrics = messaging_metrics()
    assert {name: metric.unit for name, metric in metrics.items()} == {
        "messaging.client.operation.duration": "s",
        "messaging.client.sent.messages": "{message}",
        "messaging.client.consumed.messages": "{message}",
        "messaging.process.duration": "s",
    }
    operations, sent, consumed, processed = (metrics[name] for name in (
        "messaging.client.operation.duration", "messaging.client.sent.messages",
        "messaging.client.consumed.messages", "messaging.process.duration",
    ))  # fmt: skip
    to_topic = {"operation__name": "publish", "destination__name": "measured"}
    unknown = {"operation__name": "publish", "destination__name": "unmeasured", "error": "headrace.core.errors.UnknownTopic"}
    assert value(sent, **to_topic).value == 5
    assert value(sent, **unknown).value == 1, "an attempt counts"
    point = value(operations, **to_topic, operation__type="send")
    assert point.count == 2 and point.sum > 0 and point.explicit_bounds == BUCKETS_S
    assert value(operations, **unknown, operation__type="send").count == 1
    assert value(operations, operation__name="send", operation__type="send", destination__name="MEASURED").count == 1
    by_counter = {"operation__name": "process", "destination__name": "measured", "consumer__group__name": "counter"}
    failed = {"operation__name": "process", "destination__name": "MEASURED", "error": "ValueError"}
    assert (value(consumed, **by_counter).value, value(consumed, **failed).value) == (5, 1)
    assert (value(processed, **by_counter).count, value(processed, **failed).count) == (1, 1)
    assert value(processed, **by_counter).explicit_bounds == BUCKETS_S
    by_reader = {"operation__name": "receive", "destination__name": "measured"}
    assert value(consumed, **by_reader).value == 3
    assert value(operations, **by_reader, operation__type="receive").count == 1
