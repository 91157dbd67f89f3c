"""RabbitMQ, with a queue or a stream per partition. Its node runs on loopback with a name, a cookie, an epmd and folders of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from headrace.core import JSON, Invalid
from headrace.db import free_port
from headrace.prove.evidence import RelayedEvent
from headrace.prove.relay_targets.target import TIMEOUT_S, ServerProcess, accepts, find_program, relayed_event
from headrace.prove.workload import ORDERS, PARTITIONS

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's script on the path changes to a user of its own; the one behind it does not."""


@dataclass(frozen=True)
class RabbitMQNode:
    """A node with the stream plugin."""

    folder: Path
    queue_port: int
    stream_port: int
    user: str
    password: str
    epmd: str
    """The program that maps names of Erlang nodes to ports."""
    epmd_port: int = field(default_factory=free_port)
    erlang_port: int = field(default_factory=free_port)

    def launch_epmd(self) -> subprocess.Popen[bytes]:
        command = [self.epmd, "-address", "127.0.0.1", "-port", str(self.epmd_port)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def launch(self, output: int | IO[bytes], *, advertised_port: int, settings: str = "") -> subprocess.Popen[bytes]:
        """`advertised_port`: where the server sends the clients of streams; `settings`: more lines of its configuration."""
        config = self.folder / "rabbitmq.conf"
        config.write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.queue_port}\nstream.listeners.tcp.1 = 127.0.0.1:{self.stream_port}\n"
            f"stream.advertised_host = 127.0.0.1\nstream.advertised_port = {advertised_port}\n"
            f"default_user = {self.user}\ndefault_pass = {self.password}\n"
            "log.console = true\nlog.console.level = warning\nlog.file = false\n"
            "disk_free_limit.absolute = 1MB\nvm_memory_high_watermark.absolute = 512MB\n" + settings
        )
        plugins = self.folder / "enabled_plugins"
        plugins.write_text("[rabbitmq_stream].\n")
        environment = {
            "PATH": os.pathsep.join([*os.get_exec_path(), "/usr/sbin"]),
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"headrace{self.queue_port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.erlang_port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none",
        }
        return subprocess.Popen(
            [PROGRAM],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=self.folder,
            start_new_session=True,
        )

    def is_ready(self) -> bool:
        return accepts(self.queue_port) and accepts(self.stream_port)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """The script, the Erlang machine and what it has started are one group of processes. Returns when nobody listens any more."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        while accepts(self.queue_port) or accepts(self.stream_port):
            time.sleep(0.02)


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
