"""Metrics of a database by name and labels, with a real queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.consume import Consumer, create_consumer
from headrace.db import Connection, Target, connect
from headrace.observe.metrics import read_metrics


@pytest.fixture
def conn(database: Target) -> Iterator[Connection]:
    with connect(database) as connection:
        connection.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        yield connection


async def ignore(event: object, tx: object) -> None: ...


def consumer(conn: Connection, name: str = "mailer", *, topic: str = "orders", **options: object) -> None:
    """Creates a consumer that nobody runs."""
    create_consumer(conn, Consumer(topic=topic, name=name, handler=ignore, **options))  # type: ignore[arg-type]


def values(conn: Connection, metric: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by its labels, without the prefix `headrace_`."""
    return {sample.labels: sample.value for sample in read_metrics(conn) if sample.family.name == f"headrace_{metric}"}
