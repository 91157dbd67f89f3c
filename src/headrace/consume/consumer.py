"""Consumers: what they are (frozen descriptions), and how they stand in the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Self, TypeAlias

from psycopg.rows import class_row

from headrace.core import Invalid, LoggedEvent
from headrace.db import AsyncConnection, Connection, map_database_errors, query

Handler: TypeAlias = (
    Callable[[LoggedEvent, AsyncConnection], Awaitable[None]]
    | Callable[[Sequence[LoggedEvent], AsyncConnection], Awaitable[None]]
    | Callable[[LoggedEvent, Connection], None]
    | Callable[[Sequence[LoggedEvent], Connection], None]
)
"""A function of an event (or, for a batch consumer, of a list of events) and the open transaction."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """How many events a handler gets at once: at most `max`; fewer than `min` only after the oldest has waited `wait_s`."""

    min: int = 1
    max: int = 100
    wait_s: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.min <= self.max <= 100_000 or self.wait_s < 0:
            raise Invalid(f"batch min {self.min}, max {self.max}, wait_s {self.wait_s}: need 1 ≤ min ≤ max ≤ 100000, wait_s ≥ 0")


@dataclass(frozen=True)
class Failure:
    """What happens when the handler raises. Use `stop`, `retry` or `dead_letter`."""

    attempts: int | None
    backoff_s: float
    backoff_max_s: float
    then: Literal["stop", "dead_letter"]
    key_order: Literal["hold", "skip"] = "hold"

    @classmethod
    def stop(cls) -> Self:
        """The partition stops at the event until `headrace consumer resume`; nothing is passed over."""
        return cls(1, 1, 300, "stop")

    @classmethod
    def retry(cls, *, attempts: int | None = None, backoff_s: float = 1, backoff_max_s: float = 300) -> Self:
        """The event is tried again with growing pauses: for ever, or so often and then the partition stops."""
        return cls(attempts, backoff_s, backoff_max_s, "stop")

    @classmethod
    def dead_letter(
        cls,
        *,
        attempts: int = 5,
        backoff_s: float = 1,
        backoff_max_s: float = 300,
        key_order: Literal["hold", "skip"] = "hold",
    ) -> Self:
        """The event is tried so often, then put aside, and the partition goes on.

        `hold`: later events of its key are put aside behind it, in order. `skip`: they go on, and the order is given up."""
        return cls(attempts, backoff_s, backoff_max_s, "dead_letter", key_order)


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """A named reader of a topic with its handler. Its cursor moves in the handler's transaction."""

    topic: str
    name: str
    handler: Handler
    batch: Batch | None = None
    """None: the handler gets one event at a time."""
    ordered_by: Literal["partition", "topic"] = "partition"
    start: Literal["earliest", "latest"] = "earliest"
    failure: Failure = field(default_factory=Failure.retry)
    concurrency: int = 4
    """How many partitions one node handles side by side."""
    namespace: str | None = None


@dataclass(frozen=True)
class ConsumerLag:
    """How far one partition of a consumer is behind, and how it does."""

    topic: str
    consumer: str
    partition: int
    position: int
    state: str
    attempts: int
    retry_at: datetime | None
    error: str | None
    lag_events: int
    lag_s: float


def create_consumer(conn: Connection, consumer: Consumer) -> int:
    """Makes the consumer known to the database, or changes its failure policy; returns its id. It keeps its place."""
    with map_database_errors():
        row = conn.execute(query("consume/create_consumer"), create_parameters(consumer)).fetchone()
    assert row is not None
    return int(row[0])


def create_parameters(consumer: Consumer) -> dict[str, str | int | float | None]:
    """The parameters of queries/consume/create_consumer.sql."""
    policy = consumer.failure
    return {
        "topic": consumer.topic,
        "consumer": consumer.name,
        "start": consumer.start,
        "ordered_by": consumer.ordered_by,
        "attempts_max": policy.attempts,
        "backoff_s": policy.backoff_s,
        "backoff_max_s": policy.backoff_max_s,
        "when_exhausted": policy.then,
        "key_order": policy.key_order,
        "namespace": consumer.namespace,
    }


def drop_consumer(conn: Connection, topic: str, consumer: str, *, namespace: str | None = None) -> None:
    """Drops a consumer with its cursors and dead letters."""
    with map_database_errors():
        conn.execute("select headrace.drop_consumer(%s, %s, %s)", (topic, consumer, namespace))


def consumer_lag(
    conn: Connection, *, topic: str | None = None, consumer: str | None = None, namespace: str | None = None
) -> list[ConsumerLag]:
    """The lag of every partition of every consumer, or of those named."""
    with map_database_errors(), conn.cursor(row_factory=class_row(ConsumerLag)) as cursor:
        given = {"topic": topic, "consumer": consumer, "namespace": namespace}
        return cursor.execute(query("consume/lag"), given).fetchall()


def resume_consumer(conn: Connection, topic: str, consumer: str, *, namespace: str | None = None) -> int:
    """Lets stopped or waiting partitions try again at once; returns how many there were."""
    with map_database_errors():
        row = conn.execute("select headrace.resume(%s, %s, %s)", (topic, consumer, namespace)).fetchone()
    assert row is not None
    return int(row[0])
