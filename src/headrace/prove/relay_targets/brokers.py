"""Brokers: NATS JetStream with a subject per partition; Redis Streams with an append-only file and a stream per partition; Kafka; and
RabbitMQ, with a queue or a stream per partition.

RabbitMQ's node runs on loopback with a name, a cookie, an epmd and folders of its own. Kafka is the mock cluster inside the
confluent-kafka package: it speaks the protocol and keeps records in memory. So it cannot be killed and started on its data; instead its
brokers end their connections and listen no more for a while. `python -m headrace.prove.relay_targets.brokers` is its process: it
prints its addresses, then takes `down` and `up` on its input and confirms each by a line. `down` ends all connections and refuses new
ones; the records stay. The package's Python interface does not have that, so the functions of its library are called directly."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, cast
from uuid import uuid4

from headrace.core import JSON, Invalid
from headrace.db import free_port
from headrace.prove.evidence import RelayedEvent
from headrace.prove.relay_targets import TIMEOUT_S, RelayTarget, ServerProcess, accepts, find_program, relayed_event
from headrace.prove.workload import ORDERS, PARTITIONS

STREAM = "ORDERS"


class NatsTarget(ServerProcess):
    """A NATS server that syncs every write."""

    kind = relay_kind = "nats"

    @classmethod
    def require(cls) -> None:
        find_program("nats-server", cls.kind)

    def command(self) -> list[str]:
        config = self.folder / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.folder}/data", sync_interval: always }}\n'
        )
        return [find_program("nats-server", self.kind), "--config", str(config)]

    def options(self) -> dict[str, JSON]:
        return {
            "servers": f"127.0.0.1:{self.proxy.port}",
            "stream": STREAM,
            "subject": f"{ORDERS}.{{partition}}",
            "timeout_s": TIMEOUT_S,
        }

    async def prepare(self) -> None:
        import nats
        from nats.js.api import StreamConfig

        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        await client.jetstream().add_stream(StreamConfig(STREAM, subjects=[f"{ORDERS}.*"], allow_atomic=True))
        await client.close()

    async def read(self) -> list[RelayedEvent]:
        import nats

        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        try:
            stream = client.jetstream()
            count = (await stream.stream_info(STREAM)).state.messages
            subscription = await stream.subscribe(f"{ORDERS}.*", stream=STREAM, ordered_consumer=True)
            messages = [await subscription.next_msg(timeout=30) for _ in range(count)]
        finally:
            await client.close()
        return [relayed_event(dict(message.headers or {})) for message in messages]


class RedisTarget(ServerProcess):
    """A Redis server that syncs every write."""

    kind = relay_kind = "redis"

    @classmethod
    def require(cls) -> None:
        find_program("redis-server", cls.kind)

    def command(self) -> list[str]:
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        config = self.folder / "redis.conf"
        config.write_text("".join(f'{name} "{value}"\n' for name, value in settings.items()))
        return [find_program("redis-server", self.kind), str(config)]

    def options(self) -> dict[str, JSON]:
        return {"host": "127.0.0.1", "port": self.proxy.port, "stream": f"{ORDERS}:{{partition}}", "timeout_s": TIMEOUT_S}

    async def read(self) -> list[RelayedEvent]:
        from redis.asyncio import Redis

        events: list[RelayedEvent] = []
        async with Redis(port=self.port) as client:
            for partition in range(PARTITIONS):
                for entry_id, fields in cast(list[Any], await client.xrange(f"{ORDERS}:{partition}")):
                    position = int(entry_id.decode().split("-")[0])
                    events.append(RelayedEvent(partition, position, fields[b"event_id"].decode()))
        return events


KAFKA_PARTITIONS = 4
"""The mock cluster creates a topic with so many partitions when it is first used."""


class KafkaTarget(RelayTarget):
    """Three brokers in one process. They advertise their own addresses, so there is no proxy between."""

    kind = relay_kind = "kafka"
    delivery = "at least once"
    _process: subprocess.Popen[bytes] | None = None
    _servers: list[str]

    @classmethod
    def require(cls) -> None:
        if find_spec("confluent_kafka") is None:
            raise Invalid("the relay kafka needs the package confluent-kafka; install it, or leave the relay out")

    def start(self) -> None:
        if self._process is not None:
            self._tell("up")
            return
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace.prove.relay_targets.brokers"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output,
            )  # fmt: skip
        assert self._process.stdout is not None
        self._servers = self._process.stdout.readline().decode().strip().split(",")

    def kill(self) -> None:
        self._tell("down")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def cut(self) -> None:
        self._tell("down")

    def mend(self) -> None:
        self._tell("up")

    def _tell(self, command: str) -> None:
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()
        self._process.stdout.readline()

    def options(self) -> dict[str, JSON]:
        servers: list[JSON] = [*self._servers]
        return {"servers": servers, "timeout_s": TIMEOUT_S}

    async def read(self) -> list[RelayedEvent]:
        """The records of all Kafka partitions, one partition after the other."""
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=self._servers, auto_offset_reset="earliest", enable_auto_commit=False)
        await consumer.start()
        events: list[RelayedEvent] = []
        try:
            for number in range(KAFKA_PARTITIONS):
                place = TopicPartition(ORDERS, number)
                consumer.assign([place])
                end = (await consumer.end_offsets([place]))[place]
                await consumer.seek_to_beginning(place)
                while await consumer.position(place) < end:
                    record = await consumer.getone(place)
                    events.append(relayed_event({name: value.decode() for name, value in record.headers}))
        finally:
            await consumer.stop()
        return events


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

    def options(self) -> dict[str, JSON]:
        secret = f"env:{PASSWORD}"
        return {"host": "127.0.0.1", "port": self.proxy.port, "user": USER, "password": secret, "timeout_s": TIMEOUT_S}

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
        return super().options() | {"routing_key": "{topic}.{partition}"}

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
        return super().options() | {"stream": "{topic}.{partition}"}

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


BROKERS = 3
PRODUCER = 0
"""RD_KAFKA_PRODUCER."""


def _library() -> ctypes.CDLL:
    spec = find_spec("confluent_kafka")
    assert spec is not None and spec.origin is not None
    (path,) = Path(spec.origin).parent.with_name("confluent_kafka.libs").glob("librdkafka-*")
    import confluent_kafka  # noqa: F401 - loads the libraries that librdkafka needs

    library = ctypes.CDLL(str(path))
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    signatures: dict[str, tuple[object, list[object]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_new": (pointer, [integer, pointer, ctypes.c_char_p, ctypes.c_size_t]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, integer]),
        "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, [pointer]),
        "rd_kafka_mock_broker_set_down": (integer, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_up": (integer, [pointer, ctypes.c_int32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    library = _library()
    error = ctypes.create_string_buffer(512)
    client = library.rd_kafka_new(PRODUCER, library.rd_kafka_conf_new(), error, len(error))
    assert client, error.value
    cluster = library.rd_kafka_mock_cluster_new(client, BROKERS)
    _say(library.rd_kafka_mock_cluster_bootstraps(cluster).decode())
    acts = {"down": library.rd_kafka_mock_broker_set_down, "up": library.rd_kafka_mock_broker_set_up}
    for line in sys.stdin:
        for broker in range(1, BROKERS + 1):
            acts[line.strip()](cluster, broker)
        _say(line.strip())


if __name__ == "__main__":
    main()
