"""Brokers as the laws see them: options of a target, a place to deliver to, and what has arrived there."""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from typing import Any
from uuid import uuid4

import aio_pika
import nats
import redis.asyncio
from aio_pika.exceptions import QueueEmpty
from aiokafka import AIOKafkaConsumer, TopicPartition
from nats.js.api import StreamConfig
from rstream import AMQPMessage, Consumer, ConsumerOffsetSpecification, OffsetType, Producer, RawMessage, amqp_decoder

from headrace.core import JSON, decode
from headrace.relays.targets import open_target
from headrace.relays.targets.target import Target
from tests.relays.targets.builders import RELAY, Stored
from tests.relays.targets.servers import PASSWORD, USER, BrokerServer, KafkaMock, NatsServer, RabbitMQServer, RedisServer

KAFKA_PARTITIONS = 4
"""Of a topic that the mock cluster creates when it is first used."""


class Broker(ABC):
    """One kind of broker."""

    kind: str
    exactly_once = True
    server: BrokerServer

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def secrets(self) -> dict[str, str]:
        return {"password": PASSWORD}

    @abstractmethod
    def options(self, port: int | None = None, **others: JSON) -> dict[str, JSON]:
        """The options of a target, through another port if there is one."""

    def target(self, port: int | None = None, **others: JSON) -> Target:
        return open_target(self.kind, RELAY, self.options(port, **others), self.secrets)

    @property
    def tls_port(self) -> int:
        return self.server.tls_port

    async def prepare(self) -> str:
        """A new topic, and a place for its events."""
        return f"orders{uuid4().hex[:8]}"

    @abstractmethod
    async def read(self, topic: str, partition: int = 0) -> list[Stored]:
        """All that was delivered for a partition, in the broker's order."""


class NatsBroker(Broker):
    kind = "nats"

    def __init__(self, server: NatsServer, *, is_atomic: bool, context: ssl.SSLContext | None = None) -> None:
        """`context`: how the readers of the test connect to a server with TLS."""
        self.server = server
        self._context = context
        self._is_atomic = is_atomic
        self.stream = "ATOMIC" if is_atomic else "EVENTS"

    def options(self, port: int | None = None, **others: JSON) -> dict[str, JSON]:
        servers = [f"127.0.0.1:{port or self.port}"]
        return {
            "servers": servers,
            "stream": self.stream,
            "user": USER,
            "password": "env:RELAY_X",
            "timeout_s": 5,
            "subject": self.stream + ".{topic}.{partition}",
            **others,
        }

    async def connect(self) -> nats.NATS:
        tls: dict[str, Any] = {"tls": self._context} if self._context else {}
        return await nats.connect(f"nats://127.0.0.1:{self.port}", user=USER, password=PASSWORD, allow_reconnect=False, **tls)

    @property
    def tls_port(self) -> int:
        return self.port

    async def prepare(self) -> str:
        client = await self.connect()
        await client.jetstream().add_stream(
            StreamConfig(self.stream, subjects=[f"{self.stream}.>"], allow_atomic=self._is_atomic)
        )
        await client.close()
        return await super().prepare()

    async def read(self, topic: str, partition: int = 0) -> list[Stored]:
        client = await self.connect()
        stored: list[Stored] = []
        try:
            subject = f"{self.stream}.{topic}.{partition}"
            subjects = (await client.jetstream().stream_info(self.stream, subjects_filter=subject)).state.subjects
            subscription = await client.jetstream().subscribe(subject, stream=self.stream, ordered_consumer=True)
            for _ in range((subjects or {}).get(subject, 0)):
                message = await subscription.next_msg(timeout=10)
                headers = dict(message.headers or {})
                stored.append(_stored(headers, message.data))
        finally:
            await client.close()
        return stored


class RedisBroker(Broker):
    kind = "redis"

    def __init__(self) -> None:
        self.server = RedisServer()

    def options(self, port: int | None = None, **others: JSON) -> dict[str, JSON]:
        return {"host": "127.0.0.1", "port": port or self.port, "password": "env:RELAY_X", "timeout_s": 5, **others}

    def connect(self) -> redis.asyncio.Redis:
        return redis.asyncio.Redis(port=self.port, password=PASSWORD)

    async def read(self, topic: str, partition: int = 0) -> list[Stored]:
        async with self.connect() as client:
            entries: list[Any] = await client.xrange(f"{topic}.{partition}")
        stored: list[Stored] = []
        for entry_id, fields in entries:
            texts = {"position": entry_id.decode().split("-")[0]}
            texts |= {name.decode(): value.decode() for name, value in fields.items()}
            headers = {f"headrace-{name.replace('_', '-')}": text for name, text in texts.items()}
            headers |= _json(fields[b"headers"]) | {"content-type": texts["content_type"]}
            stored.append(_stored(headers, fields[b"body"]))
        return stored


class RabbitMQBroker(Broker):
    kind = "rabbitmq"
    exactly_once = False

    def __init__(self, server: RabbitMQServer) -> None:
        self.server = server
        self._read: dict[str, list[Stored]] = {}

    def options(self, port: int | None = None, **others: JSON) -> dict[str, JSON]:
        place: dict[str, JSON] = {"host": "127.0.0.1", "port": port or self.port, "user": USER, "password": "env:RELAY_X"}
        return {**place, "routing_key": "{topic}.{partition}", "timeout_s": 5, **others}

    async def connect(self) -> aio_pika.abc.AbstractConnection:
        return await aio_pika.connect(host="127.0.0.1", port=self.port, login=USER, password=PASSWORD)

    async def prepare(self) -> str:
        topic = await super().prepare()
        async with await self.connect() as connection, connection.channel() as channel:
            for partition in range(2):
                await channel.declare_queue(f"{topic}.{partition}", durable=True)
        return topic

    async def read(self, topic: str, partition: int = 0) -> list[Stored]:
        """Empties the queue, and remembers what was in it."""
        name = f"{topic}.{partition}"
        stored = self._read.setdefault(name, [])
        async with await self.connect() as connection, connection.channel() as channel:
            queue = await channel.get_queue(name)
            while True:
                try:
                    message = await queue.get(no_ack=True)
                except QueueEmpty:
                    return list(stored)
                assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
                stored.append(_stored({key: str(value) for key, value in message.headers.items()}, message.body))


class RabbitMQStreamBroker(Broker):
    kind = "rabbitmq-stream"
    server: RabbitMQServer

    def __init__(self, server: RabbitMQServer) -> None:
        self.server = server

    @property
    def port(self) -> int:
        return self.server.stream_port

    @property
    def tls_port(self) -> int:
        return self.server.stream_tls_port

    def options(self, port: int | None = None, **others: JSON) -> dict[str, JSON]:
        place: dict[str, JSON] = {"host": "127.0.0.1", "port": port or self.port, "user": USER, "password": "env:RELAY_X"}
        # Through a proxy, the address that the server advertises would bypass it.
        return {**place, "load_balancer": port is not None, "timeout_s": 5, **others}

    async def prepare(self) -> str:
        topic = await super().prepare()
        async with Producer("127.0.0.1", self.port, username=USER, password=PASSWORD) as producer:
            for partition in range(2):
                await producer.create_stream(f"{topic}.{partition}")
        return topic

    async def read(self, topic: str, partition: int = 0) -> list[Stored]:
        """Reads up to a mark that it writes at the end."""
        stream, mark = f"{topic}.{partition}", uuid4().bytes
        async with Producer("127.0.0.1", self.port, username=USER, password=PASSWORD) as producer:
            await producer.send_wait(stream, RawMessage(bytes(AMQPMessage(body=mark))))
        stored: list[Stored] = []
        done = asyncio.Event()

        def receive(message: AMQPMessage, _: object) -> None:
            body = message.body if isinstance(message.body, bytes) else b"".join(message.body or [])
            if body == mark:
                done.set()
            elif message.application_properties:
                texts = {_text(name): _text(value) for name, value in message.application_properties.items()}
                stored.append(_stored(texts, body))

        async with Consumer("127.0.0.1", self.port, username=USER, password=PASSWORD) as consumer:
            await consumer.start()
            first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
            await consumer.subscribe(stream, receive, decoder=amqp_decoder, offset_specification=first)
            await asyncio.wait_for(done.wait(), 30)
        return stored


class KafkaBroker(Broker):
    kind = "kafka"
    exactly_once = False
    server: KafkaMock

    def __init__(self) -> None:
        self.server = KafkaMock()

    @property
    def secrets(self) -> dict[str, str]:
        return {}

    def options(self, port: int | None = None, **others: JSON) -> dict[str, JSON]:
        return {"servers": list(self.server.servers), "timeout_s": 5, **others}

    async def read(self, topic: str, partition: int = 0) -> list[Stored]:
        """The records of all Kafka partitions, one partition after the other."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.server.servers, auto_offset_reset="earliest", enable_auto_commit=False)
        await consumer.start()
        stored: list[Stored] = []
        try:
            for number in range(KAFKA_PARTITIONS):
                place = TopicPartition(topic, number)
                consumer.assign([place])
                end = (await consumer.end_offsets([place]))[place]
                await consumer.seek_to_beginning(place)
                while await consumer.position(place) < end:
                    record = await consumer.getone(place)
                    headers = {name: value.decode() for name, value in record.headers}
                    assert record.key == (headers["headrace-key"].encode() if "headrace-key" in headers else None)
                    stored.append(_stored(headers, record.value))
        finally:
            await consumer.stop()
        return [entry for entry in stored if entry.headers["headrace-partition"] == str(partition)]


def _stored(headers: dict[str, str], body: bytes) -> Stored:
    names = {name.lower(): value for name, value in headers.items()}
    return Stored(int(names["headrace-position"]), names["headrace-event-id"], names.get("headrace-key"), bytes(body), names)


def _json(text: bytes) -> dict[str, str]:
    value = decode(text)
    assert isinstance(value, dict)
    return {name: str(part) for name, part in value.items()}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
