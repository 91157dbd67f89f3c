"""Consumers: their description, and their registration, lag and cursors in the database."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, LiteralString, Self, TypeAlias
from uuid import UUID

from headrace.consume.conditions import COMPILE, MAY_COMPILE, compile_parameters
from headrace.consume.prepared_handlers import HandlerOptions, prepare_handler
from headrace.consume.signatures import Delivery
from headrace.core import Invalid, LoggedEvent, UnknownConsumer
from headrace.db import Connection, Pool, fetch_rows, fetch_value, fetch_value_async, query
from headrace.lang.condition import parse

logger = logging.getLogger(__name__)

Handler: TypeAlias = (
    Callable[[LoggedEvent[Any], Any], Awaitable[None]]
    | Callable[[Sequence[LoggedEvent[Any]], Any], Awaitable[None]]
    | Callable[[LoggedEvent[Any], Any], None]
    | Callable[[Sequence[LoggedEvent[Any]], Any], None]
)
"""A function of an event (or, for a batch consumer, of a list of events) and a session in the open transaction: a psycopg
connection, or what its annotation or `Headrace(session=…)` asks for."""


SESSION_LIMIT_S, TIMEOUT_MARGIN_S = 60.0, 5.0
"""How long the session of a handler without `timeout_s` may be idle, and how much longer than `timeout_s` with it."""
SINGLE_MAX = 100
"""Most events per transaction for a handler of single events; each runs in its own savepoint."""


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
    """What happens when the handler raises. Create it with `stop`, `retry` or `dead_letter`."""

    attempts: int | None
    backoff_s: float
    backoff_max_s: float
    then: Literal["stop", "dead_letter"]
    key_order: Literal["hold", "skip"] = "hold"

    @classmethod
    def stop(cls) -> Self:
        """The partition stops at the event until `headrace consumer resume`; nothing is skipped."""
        return cls(1, 1, 300, "stop")

    @classmethod
    def retry(cls, *, attempts: int | None = None, backoff_s: float = 1, backoff_max_s: float = 300) -> Self:
        """The event is retried with growing pauses: forever, or `attempts` times, and then the partition stops."""
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
        """The event is tried `attempts` times, then moved to the dead letters, and the partition goes on.

        `hold`: later events of its key wait behind it among the dead letters, in order. `skip`: they are delivered, out of
        order."""
        return cls(attempts, backoff_s, backoff_max_s, "dead_letter", key_order)


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """A named reader of a topic with its handler. Its cursor moves in the handler's transaction."""

    topic: str
    name: str
    handler: Handler
    batch: Batch | None = None
    """None: the handler gets a single event per call."""
    batch_size: int | None = None
    """Most events in one transaction, for a handler of single events. 1: no call outside the database is repeated because of a
    neighbour."""
    ordered_by: Literal["partition", "topic"] = "partition"
    start: Literal["earliest", "latest"] = "earliest"
    failure: Failure = field(default_factory=Failure.retry)
    concurrency: int = 4
    """How many partitions one node handles concurrently."""
    partitions_max: int = 1024
    """How many partitions one transaction may have, while the handler takes less time than claim and commit."""
    namespace: str | None = None
    session: Any = None
    """What the handler gets if its annotation does not say it, as in `Headrace(session=…)`."""
    options: HandlerOptions = field(default_factory=HandlerOptions)
    where: str | None = None
    """A condition, as in a rule: the handler gets only the events for which it is true. None: all."""
    latency_ms: int = 10
    """For how long its events may wait for company, from commit to handler, so that a step has several."""
    raw_payload: bool = False
    """The handler takes payload and headers as JSON text; set by `prepare_consumer`."""

    @property
    def session_limit_s(self) -> float:
        """How long its session may be idle while it handles events. The handler's own limit comes first."""
        timeout_s = self.options.timeout_s
        return SESSION_LIMIT_S if timeout_s is None else min(timeout_s + TIMEOUT_MARGIN_S, 86_400)

    def __post_init__(self) -> None:
        if self.where is not None:
            parse(self.where)  # Raises ConditionError with line and column.
        if not 0 <= self.latency_ms <= 60_000:
            raise Invalid(f"consumer {self.name}: latency_ms {self.latency_ms} is not between 0 and 60000")
        if self.batch_size is not None and (self.batch is not None or not 1 <= self.batch_size <= SINGLE_MAX):
            raise Invalid(
                f"consumer {self.name}: batch_size {self.batch_size} is for a handler of single events, 1 to {SINGLE_MAX}; "
                "a handler of batches has batch=Batch(max=...)"
            )


def prepare_consumer(consumer: Consumer) -> Consumer:
    """The consumer with a checked handler that has its options; raises InvalidHandler."""
    delivery = Delivery(owner=f"consumer {consumer.topic}/{consumer.name}", is_batch=consumer.batch is not None)
    prepared = prepare_handler(consumer.handler, delivery, consumer.options)
    return replace(consumer, handler=prepared.function, raw_payload=prepared.decode is not None)


@dataclass(frozen=True)
class ConsumerLag:
    """How far one partition of a consumer is behind, and its state."""

    topic: str
    consumer: str
    partition: int
    position: int
    state: Literal["running", "idle", "paused", "stopped"]
    """`idle`: no live node runs it. `paused`: by an operator. `stopped`: its failure policy stopped it."""
    attempts: int
    retry_at: datetime | None
    error: str | None
    """Class and message of the last error."""
    traceback: str | None
    lag_events: int
    lag_s: float
    nodes: int | None
    """How many live nodes run it; None for rules and correlators on Spark."""
    session_limit_s: float | None = None
    """A process that hangs for longer while it handles events loses the partition; None for rules and correlators."""


@dataclass(frozen=True)
class ConsumerSettings:
    """What a consumer was created with, and what became of its condition."""

    namespace: str
    topic: str
    consumer: str
    ordered_by: Literal["partition", "topic"]
    condition: str | None
    """Only events for which it is true are handled; None: all."""
    condition_status: Literal["pending", "valid", "invalid"] | None
    """While it is not `valid`, the consumer stands still."""
    condition_error: str | None
    attempts_max: int | None
    backoff_s: float
    backoff_max_s: float
    when_exhausted: Literal["stop", "dead_letter"]
    key_order: Literal["hold", "skip"]
    created_at: datetime
    latency_ms: int
    """For how long its events may wait for company, from commit to handler."""


@dataclass(frozen=True)
class Seek:
    """The move of one partition's cursor. `events` > 0 will be handled again, < 0 will be skipped."""

    partition: int
    from_position: int
    to_position: int
    events: int


@dataclass(frozen=True)
class SkippedEvent:
    """The event that was passed at a stuck partition; it is a dead letter now."""

    partition: int
    position: int
    event_id: UUID
    type: str
    key: str | None


CREATE_CONSUMER = """select headrace.create_consumer(
    %s, %s, p_start => %s, p_ordered_by => %s, p_attempts_max => %s, p_backoff_s => %s, p_backoff_max_s => %s,
    p_when_exhausted => %s, p_key_order => %s, p_namespace => %s, p_where => %s,
    p_session_limit_s => %s, p_latency_ms => %s)"""


_IS_NEW: LiteralString = """select not exists (
    select from headrace.consumer c where c.topic_id = headrace.topic_id(%s, %s) and c.consumer = %s)"""


def create_parameters(consumer: Consumer) -> tuple[str | int | float | None, ...]:
    """The parameters of CREATE_CONSUMER."""
    failure = consumer.failure
    policy = (failure.attempts, failure.backoff_s, failure.backoff_max_s, failure.then, failure.key_order)
    identity = (consumer.topic, consumer.name, consumer.start, consumer.ordered_by)
    return (*identity, *policy, consumer.namespace, consumer.where, consumer.session_limit_s, consumer.latency_ms)


def create_consumer(conn: Connection, consumer: Consumer) -> int:
    """Registers the consumer, or changes its failure policy and condition; returns its id. An existing consumer keeps its cursors."""
    consumer_id = int(fetch_value(conn, CREATE_CONSUMER, create_parameters(consumer)))
    if consumer.where is not None and fetch_value(conn, MAY_COMPILE):
        fetch_value(conn, COMPILE, compile_parameters(consumer_id, consumer.where))
    return consumer_id


async def register_consumer(pool: Pool, consumer: Consumer) -> int:
    """Creates the consumer, or changes its settings, and returns its id. Warns if it is new and begins with events of the past."""
    is_new = await fetch_value_async(pool, _IS_NEW, (consumer.topic, consumer.namespace, consumer.name))
    consumer_id: int = await fetch_value_async(pool, CREATE_CONSUMER, create_parameters(consumer))
    if is_new:
        await _warn_of_events_behind(pool, consumer)
    return consumer_id


async def _warn_of_events_behind(pool: Pool, consumer: Consumer) -> None:
    """Logs a warning if a consumer that was just created begins with events of the past: it may be an old one with a new name."""
    parameters = {"topic": consumer.topic, "consumer": consumer.name, "namespace": consumer.namespace}
    async with pool.connection() as conn:
        row = await (await conn.execute(query("consume/new_consumer"), parameters)).fetchone()
    behind, idle = row or (0, None)
    if behind:
        renamed = (
            f"; no node runs {', '.join(idle)} of this topic: was it renamed? Give it its old name with name=" if idle else ""
        )
        events = "1 event that is" if behind == 1 else f"{behind} events that are"
        message = "consumer %s/%s is new and begins with the %s in the log already (start='latest' begins with the next one)%s"
        logger.warning(message, consumer.topic, consumer.name, events, renamed)


def drop_consumer(conn: Connection, topic: str, consumer: str, *, namespace: str | None = None) -> None:
    """Drops a consumer with its cursors and dead letters."""
    fetch_value(conn, "select headrace.drop_consumer(%s, %s, %s)", (topic, consumer, namespace))


def get_consumer(conn: Connection, topic: str, consumer: str, *, namespace: str | None = None) -> ConsumerSettings:
    """The settings of one consumer. Raises UnknownTopic, UnknownConsumer."""
    parameters = {"topic": topic, "consumer": consumer, "namespace": namespace}
    rows = fetch_rows(conn, ConsumerSettings, query("consume/settings"), parameters)
    if not rows:
        raise UnknownConsumer(f"topic {topic!r} has no consumer {consumer!r}; see: headrace consumer list")
    return rows[0]


def consumer_lag(
    conn: Connection, *, topic: str | None = None, consumer: str | None = None, namespace: str | None = None
) -> list[ConsumerLag]:
    """The lag of each partition, for all consumers of the namespace or only those of a topic or a name."""
    parameters = {"topic": topic, "consumer": consumer, "namespace": namespace}
    return fetch_rows(conn, ConsumerLag, query("consume/lag"), parameters)


def resume_consumer(conn: Connection, topic: str, consumer: str, *, namespace: str | None = None) -> int:
    """Lets paused, stopped and retrying partitions go on at once; returns how many there were."""
    return int(fetch_value(conn, "select headrace.resume('consumer', %s, %s)", (f"{topic}/{consumer}", namespace)))


def seek_consumer(
    conn: Connection,
    topic: str,
    consumer: str,
    target: str,
    *,
    partition: int | None = None,
    preview: bool = False,
    namespace: str | None = None,
) -> list[Seek]:
    """Moves a consumer, or one of its partitions, to 'earliest', 'latest', a position (the next one handled) or a time; `preview`
    moves nothing."""
    statement = "select partition, from_position, to_position, events from headrace.seek(%s, %s, %s, %s, %s, %s)"
    return fetch_rows(conn, Seek, statement, (topic, consumer, target, preview, namespace, partition))


def skip_event(
    conn: Connection, topic: str, consumer: str, *, partition: int | None = None, namespace: str | None = None
) -> SkippedEvent:
    """Moves the event at which a partition is stuck to the dead letters, and lets the partition go on. Raises Conflict if no
    partition is stuck, or if several are and none is named."""
    statement = "select partition, position, event_id, type, key from headrace.skip_event(%s, %s, %s, %s)"
    [skipped] = fetch_rows(conn, SkippedEvent, statement, (topic, consumer, partition, namespace))
    return skipped


def seek_position(conn: Connection, topic: str, target: str, *, namespace: str | None = None) -> int:
    """The position after which reading starts for 'earliest', 'latest', a position or a time."""
    statement = "select headrace.seek_position(headrace.topic_id(%s, %s), %s)"
    return int(fetch_value(conn, statement, (topic, namespace, target)))
