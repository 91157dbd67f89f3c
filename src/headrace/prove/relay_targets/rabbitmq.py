"""RabbitMQ, with a queue or a stream per partition."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

from headrace.core import JSON, Invalid
from headrace.db import free_port
from headrace.prove.evidence import RelayedEvent
from headrace.prove.relay_targets.rabbitmq_node import PROGRAM, RabbitMQNode
from headrace.prove.relay_targets.target import TIMEOUT_S, ServerProcess, find_program, relayed_event
from headrace.prove.workload import ORDERS, PARTITIONS

USER = "prove"
PASSWORD = "PROVE_RABBITMQ"
PLACES = tuple(f"{ORDERS}.{partition}" for partition in range(PARTITIONS))


class RabbitMQServer(ServerProcess):
    """A RabbitMQ with its stream plugin."""

    start_s = 120.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.password = os.environ.setdefault(f"HEADRACE_SECRET_DEFAULT__{PASSWORD}", uuid4().hex)
        queue_port, stream_port = self._order_ports(self.port, free_port())
        self._node = RabbitMQNode(folder, queue_port, stream_port, USER, self.password, find_program("epmd", self.kind))
        self._epmd = self._node.launch_epmd()

    @classmethod
    def require(cls) -> None:
        find_program("epmd", cls.kind)
        if not PROGRAM.exists():
            raise Invalid(f"the relay {cls.kind} needs Debian's package rabbitmq-server; install it, or leave the relay out")

    def _order_ports(self, own: int, other: int) -> tuple[int, int]:
        """Those of queues and of streams. `own` is the one behind the proxy."""
        return own, other

    def command(self) -> list[str]:
        return [str(PROGRAM)]

    def launch(self, output: int) -> subprocess.Popen[bytes]:
        # The address that the server advertises for streams is that of the proxy.
        return self._node.launch(output, advertised_port=self.proxy.port)

    def is_ready(self) -> bool:
        return self._node.is_ready()

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._node.kill(self._process)

    def stop(self) -> None:
        super().stop()
        self._epmd.kill()
        self._epmd.wait(10)


class RabbitMQTarget(RabbitMQServer):
    """Durable queues."""

    kind = relay_kind = "rabbitmq"
    delivery = "at least once"

    def options(self) -> dict[str, JSON]:
        return {
            "host": "127.0.0.1",
            "port": self.proxy.port,
            "user": USER,
            "password": f"env:{PASSWORD}",
            "routing_key": "{topic}.{partition}",
            "timeout_s": TIMEOUT_S,
        }

    async def _connect(self) -> Any:
        import aio_pika

        return await aio_pika.connect(host="127.0.0.1", port=self.port, login=USER, password=self.password)

    async def prepare(self) -> None:
        async with await self._connect() as connection, connection.channel() as channel:
            for queue in PLACES:
                await channel.declare_queue(queue, durable=True)

    async def read(self) -> list[RelayedEvent]:
        events: list[RelayedEvent] = []
        async with await self._connect() as connection, connection.channel() as channel:
            for name in PLACES:
                queue = await channel.get_queue(name)
                while (message := await queue.get(no_ack=True, fail=False)) is not None:
                    events.append(relayed_event({name: str(value) for name, value in message.headers.items()}))
        return events


class RabbitMQStreamTarget(RabbitMQServer):
    """Streams."""

    kind = relay_kind = "rabbitmq-stream"

    def _order_ports(self, own: int, other: int) -> tuple[int, int]:
        return other, own

    def options(self) -> dict[str, JSON]:
        return {
            "host": "127.0.0.1",
            "port": self.proxy.port,
            "user": USER,
            "password": f"env:{PASSWORD}",
            "stream": "{topic}.{partition}",
            "timeout_s": TIMEOUT_S,
        }

    async def prepare(self) -> None:
        from rstream import Producer

        async with Producer("127.0.0.1", self.port, username=USER, password=self.password) as producer:
            for stream in PLACES:
                await producer.create_stream(stream)

    async def read(self) -> list[RelayedEvent]:
        return [event for stream in PLACES for event in await self._read_stream(stream)]

    async def _read_stream(self, stream: str) -> list[RelayedEvent]:
        """Reads up to a mark that it writes at the end."""
        from rstream import AMQPMessage, Consumer, ConsumerOffsetSpecification, OffsetType, Producer, RawMessage, amqp_decoder

        mark, done = uuid4().bytes, asyncio.Event()
        async with Producer("127.0.0.1", self.port, username=USER, password=self.password) as producer:
            await producer.send_wait(stream, RawMessage(bytes(AMQPMessage(body=mark))))
        events: list[RelayedEvent] = []

        def receive(message: AMQPMessage, _: object) -> None:
            if message.application_properties:
                events.append(relayed_event({_text(n): _text(v) for n, v in message.application_properties.items()}))
            else:
                done.set()

        async with Consumer("127.0.0.1", self.port, username=USER, password=self.password) as consumer:
            await consumer.start()
            first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
            await consumer.subscribe(stream, receive, decoder=amqp_decoder, offset_specification=first)
            await asyncio.wait_for(done.wait(), 60)
        return events


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
