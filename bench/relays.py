"""Relays: `deliver` of each target, in the batches of a relay, against the library's own producer in a plain loop with the same
guarantees: the same messages with key, headers and body, in order, each confirmed by the broker, and for exactly once the same condition
(sequence, id or publishing id) that a careful program would send along.

Both sides write to the same server, which syncs every write where it can. Kafka is the mock cluster inside confluent-kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from tests.relays.targets.brokers import KafkaBroker, NatsBroker, RabbitMQBroker, RabbitMQStreamBroker, RedisBroker
from tests.relays.targets.builders import build_messages
from tests.relays.targets.servers import NatsServer, RabbitMQServer

from bench.lab import Lab, surroundings
from bench.relay_places import PostgresPlace, WebhookPlace, plain_postgres, plain_webhook
from bench.relay_producers import (
    PlainProducer,
    plain_kafka,
    plain_nats,
    plain_rabbitmq,
    plain_rabbitmq_stream,
    plain_redis,
)
from bench.result import Figure, Round, Side, ratio, report
from headrace.core import JSON
from headrace.relays.targets.target import Message, Target

BATCH = 100
"""The default of a relay."""
TARGET = 0.7
WEBHOOK = "webhook"


@dataclass(frozen=True)
class Plan:
    rounds: int
    events: int


FULL = Plan(rounds=5, events=4_000)
QUICK = Plan(rounds=3, events=1_000)


class Place(Protocol):
    """Where a target delivers to."""

    async def prepare(self) -> str: ...

    def target(self, *, timeout_s: JSON) -> Target: ...


@dataclass(frozen=True)
class Pair:
    """A place, and the plain producer that its target is compared with."""

    name: str
    place: Place
    plain: Callable[[Any], Awaitable[PlainProducer]]


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    facts = surroundings(lab)
    figures: list[Figure] = []
    raw: dict[str, object] = {}
    with ExitStack() as stack:
        for pair in _pairs(stack, lab):
            ours, theirs = asyncio.run(_compare(pair, plan))
            figures.append(ratio(f"{pair.name} : its library", ours, theirs, TARGET))
            if pair.name == WEBHOOK:
                figures.append(Figure("webhook deliveries", ours.rate, 1000, "/s"))
            raw[pair.name] = {"ours": ours, "theirs": theirs}
    report("relays", facts, figures, raw)


def _pairs(stack: ExitStack, lab: Lab) -> list[Pair]:
    nats, rabbitmq = NatsServer(), RabbitMQServer()
    redis, kafka, webhook = RedisBroker(), KafkaBroker(), WebhookPlace()
    stack.callback(webhook.stop)
    for server in (nats, rabbitmq, redis.server, kafka.server):
        stack.callback(server.stop)
        server.start()
    return [
        Pair("NATS, message by message", NatsBroker(nats, is_atomic=False), plain_nats),
        Pair("NATS, atomic batches", NatsBroker(nats, is_atomic=True), plain_nats),
        Pair("Redis", redis, plain_redis),
        Pair("RabbitMQ queue", RabbitMQBroker(rabbitmq), plain_rabbitmq),
        Pair("RabbitMQ stream", RabbitMQStreamBroker(rabbitmq), plain_rabbitmq_stream),
        Pair("Kafka (mock cluster)", kafka, plain_kafka),
        Pair("PostgreSQL table", PostgresPlace(lab), plain_postgres),
        Pair(WEBHOOK, webhook, plain_webhook),
    ]


async def _compare(pair: Pair, plan: Plan) -> tuple[Side, Side]:
    """Rounds of both sides in turn, each into a place of its own."""
    ours, theirs = Side(pair.name, []), Side("library", [])
    await pair.place.prepare()
    for _ in range(plan.rounds):
        async with AsyncExitStack() as stack:
            target: Target = pair.place.target(timeout_s=60)
            await target.open()
            stack.push_async_callback(target.close)
            producer = await pair.plain(pair.place)
            stack.push_async_callback(producer.close)
            theirs.rounds.append(await _round(producer.send, await _messages(pair.place, plan)))
            ours.rounds.append(await _round(target.deliver, await _messages(pair.place, plan)))
    return ours, theirs


async def _messages(place: Place, plan: Plan) -> list[Message]:
    """Messages for a new topic, about 200 bytes each."""
    padding = uuid4().hex * 5
    messages = build_messages(await place.prepare(), 1, plan.events, keys=1000)
    for message in messages:
        object.__setattr__(message, "body", message.body[:-1] + f', "padding": "{padding}"}}'.encode())
    return messages


async def _round(send: Callable[[Sequence[Message]], Awaitable[None]], messages: Sequence[Message]) -> Round:
    # The first batch connects.
    await send(messages[:BATCH])
    started, cpu = time.perf_counter(), time.process_time()
    for start in range(BATCH, len(messages), BATCH):
        await send(messages[start : start + BATCH])
    count = len(messages) - BATCH
    return Round(count / (time.perf_counter() - started), 1e6 * (time.process_time() - cpu) / count)
