"""Plain loops: what one writes by hand with each broker's library to deliver a batch in order, confirmed and, where the broker can, once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import aio_pika
import nats
from aiokafka import AIOKafkaProducer
from rstream import AMQPMessage, ConfirmationStatus, Producer, Properties, RawMessage
from tests.relays.targets.brokers import Broker, KafkaBroker, NatsBroker, RabbitMQBroker, RabbitMQStreamBroker, RedisBroker
from tests.relays.targets.servers import PASSWORD, USER

from headrace.relays.targets.target import Message


@dataclass(frozen=True)
class PlainProducer:
    """A connected producer: sends a batch and returns once it is confirmed."""

    send: Callable[[Sequence[Message]], Awaitable[None]]
    close: Callable[[], Awaitable[None]]


def _headers(message: Message) -> dict[str, str]:
    return {**message.headers, "event-id": str(message.event_id), "event-type": message.event_type, "key": message.key or ""}


async def plain_nats(broker: Broker) -> PlainProducer:
    """Each message with the expected last sequence of its subject, which the confirmation of the one before it has told."""
    assert isinstance(broker, NatsBroker)
    client = await nats.connect(f"nats://127.0.0.1:{broker.port}", user=USER, password=PASSWORD)
    stream, sequences = client.jetstream(timeout=60), dict[str, int]()

    async def send(messages: Sequence[Message]) -> None:
        for message in messages:
            subject = f"{broker.stream}.{message.topic}.{message.partition}"
            condition = {"Nats-Expected-Last-Subject-Sequence": str(sequences.get(subject, 0))}
            ack = await stream.publish(subject, message.body, headers=_headers(message) | condition)
            sequences[subject] = ack.seq

    return PlainProducer(send, client.close)


async def plain_redis(broker: Broker) -> PlainProducer:
    """A transaction of XADD with explicit ids for each batch."""
    assert isinstance(broker, RedisBroker)
    client = broker.connect()

    async def send(messages: Sequence[Message]) -> None:
        pipeline = client.pipeline(transaction=True)
        for message in messages:
            fields = cast(Any, {**_headers(message), "body": message.body})
            pipeline.xadd(f"plain.{message.topic}.{message.partition}", fields, id=f"{message.position}-0")
        await pipeline.execute()

    return PlainProducer(send, client.aclose)


async def plain_rabbitmq(broker: Broker) -> PlainProducer:
    """Each persistent, mandatory message after the confirmation of the one before it."""
    assert isinstance(broker, RabbitMQBroker)
    connection = await broker.connect()
    exchange = (await connection.channel(publisher_confirms=True, on_return_raises=True)).default_exchange

    async def send(messages: Sequence[Message]) -> None:
        for message in messages:
            amqp = aio_pika.Message(
                message.body,
                headers=cast(Any, _headers(message)),
                message_id=str(message.event_id),
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            )
            await exchange.publish(amqp, f"{message.topic}.{message.partition}", mandatory=True)

    return PlainProducer(send, connection.close)


async def plain_rabbitmq_stream(broker: Broker) -> PlainProducer:
    """A batch with publishing ids by a named producer, then its confirmations."""
    assert isinstance(broker, RabbitMQStreamBroker)
    producer = Producer("127.0.0.1", broker.port, username=USER, password=PASSWORD)
    await producer.start()

    async def send(messages: Sequence[Message]) -> None:
        missing, done = len(messages), asyncio.Event()

        def confirm(status: ConfirmationStatus) -> None:
            nonlocal missing
            assert status.is_confirmed
            missing -= 1
            if not missing:
                done.set()

        batch = [
            RawMessage(
                bytes(
                    AMQPMessage(
                        properties=Properties(message_id=str(message.event_id)),
                        application_properties=_headers(message),
                        body=message.body,
                    )
                ),
                message.position + 1,
            )
            for message in messages
        ]
        stream = f"{messages[0].topic}.{messages[0].partition}"
        await producer.send_batch(stream, batch, publisher_name="plain", on_publish_confirm=confirm)
        await done.wait()

    return PlainProducer(send, producer.close)


async def plain_kafka(broker: Broker) -> PlainProducer:
    """An idempotent producer: a batch, then its confirmations."""
    assert isinstance(broker, KafkaBroker)
    producer = AIOKafkaProducer(bootstrap_servers=broker.server.servers, enable_idempotence=True, acks="all")
    await producer.start()

    async def send(messages: Sequence[Message]) -> None:
        confirmations = [
            await producer.send(
                message.topic,
                message.body,
                key=message.key.encode() if message.key else None,
                headers=[(name, value.encode()) for name, value in _headers(message).items()],
            )
            for message in messages
        ]
        await asyncio.gather(*confirmations)

    return PlainProducer(send, producer.stop)
