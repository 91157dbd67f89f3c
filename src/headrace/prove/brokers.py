"""Brokers of a run: a NATS or Redis server of the checker's own, a relay to it through a proxy, and what it has at the end.

Promises: the server listens on loopback only, syncs what it confirms, can be killed and started again on its data, and ends with the run."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, cast

from headrace.core import JSON, Invalid
from headrace.db import free_port
from headrace.prove.evidence import RelayedEvent
from headrace.prove.proxy import Proxy
from headrace.prove.workload import ORDERS, PARTITIONS
from headrace.relays import Relay

START_S = 20.0


class Broker(ABC):
    """A running broker; `proxy` is between it and the relay."""

    kind: ClassVar[str]
    program: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.kind
        self.folder.mkdir()
        self.port = free_port()
        self.proxy = Proxy("127.0.0.1", self.port)
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The command that starts the server."""

    @abstractmethod
    def options(self) -> dict[str, JSON]:
        """The options of the relay, through the proxy."""

    @abstractmethod
    async def prepare(self) -> None:
        """Creates the place that the relay delivers to."""

    @abstractmethod
    async def read(self) -> list[RelayedEvent]:
        """All that the server has, in its order."""

    @property
    def relay(self) -> Relay:
        """The relay of the topic of orders."""
        return Relay(
            name=self.kind, topic=ORDERS, target=self.kind, options=self.options(), start="earliest", batch=50, concurrency=2,
            backoff_s=0.1, backoff_max_s=1,
        )  # fmt: skip

    def start(self) -> None:
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(self.command(), stdout=output, stderr=output)
        deadline = time.monotonic() + START_S
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Invalid(f"{self.program} did not start; see {self.folder / 'output'}")
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def _accepts(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    @classmethod
    def find_program(cls) -> str:
        beside = Path(sys.executable).with_name(cls.program)
        path = str(beside) if beside.exists() else shutil.which(cls.program)
        if path is None:
            raise Invalid(f"the broker {cls.kind} needs the program {cls.program}; install it, or leave the broker out")
        return path


class NatsBroker(Broker):
    """nats-server with a stream that has a subject per partition."""

    kind = "nats"
    program = "nats-server"
    STREAM = "ORDERS"

    def command(self) -> list[str]:
        config = self.folder / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.folder}/data", sync_interval: always }}\n'
        )
        return [self.find_program(), "--config", str(config)]

    def options(self) -> dict[str, JSON]:
        return {
            "servers": f"127.0.0.1:{self.proxy.port}",
            "stream": self.STREAM,
            "subject": f"{ORDERS}.{{partition}}",
            "timeout_s": 5,
        }

    async def prepare(self) -> None:
        import nats
        from nats.js.api import StreamConfig

        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        await client.jetstream().add_stream(StreamConfig(self.STREAM, subjects=[f"{ORDERS}.*"], allow_atomic=True))
        await client.close()

    async def read(self) -> list[RelayedEvent]:
        import nats

        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        try:
            stream = client.jetstream()
            count = (await stream.stream_info(self.STREAM)).state.messages
            subscription = await stream.subscribe(f"{ORDERS}.*", stream=self.STREAM, ordered_consumer=True)
            messages = [await subscription.next_msg(timeout=30) for _ in range(count)]
        finally:
            await client.close()
        headers = [message.headers or {} for message in messages]
        return [
            RelayedEvent(int(each["headrace-partition"]), int(each["headrace-position"]), each["headrace-event-id"])
            for each in headers
        ]


class RedisBroker(Broker):
    """redis-server with an append-only file and a stream per partition."""

    kind = "redis"
    program = "redis-server"

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
        return [self.find_program(), str(config)]

    def options(self) -> dict[str, JSON]:
        return {"host": "127.0.0.1", "port": self.proxy.port, "stream": f"{ORDERS}:{{partition}}", "timeout_s": 5}

    async def prepare(self) -> None:
        """Redis creates a stream with its first entry."""

    async def read(self) -> list[RelayedEvent]:
        from redis.asyncio import Redis

        events: list[RelayedEvent] = []
        async with Redis(port=self.port) as client:
            for partition in range(PARTITIONS):
                for entry_id, fields in cast(list[Any], await client.xrange(f"{ORDERS}:{partition}")):
                    position = int(entry_id.decode().split("-")[0])
                    events.append(RelayedEvent(partition, position, fields[b"event_id"].decode()))
        return events


BROKERS: dict[str, type[Broker]] = {broker.kind: broker for broker in (NatsBroker, RedisBroker)}


def check_brokers(kinds: Sequence[str]) -> None:
    """Raises Invalid for a broker that the checker does not know, or whose program or package is missing."""
    for kind in kinds:
        if kind not in BROKERS:
            raise Invalid(f"there is no broker {kind}; known: {', '.join(BROKERS)}")
        BROKERS[kind].find_program()


@contextmanager
def running_brokers(kinds: Sequence[str], folder: Path) -> Iterator[list[Broker]]:
    """Brokers with a place for the relay, each behind a proxy."""
    with ExitStack() as stack:
        brokers: list[Broker] = []
        for kind in kinds:
            broker = BROKERS[kind](folder)
            broker.proxy.start()
            stack.callback(broker.proxy.stop)
            stack.callback(broker.kill)
            broker.start()
            asyncio.run(broker.prepare())
            brokers.append(broker)
        yield brokers


def read_brokers(brokers: Sequence[Broker]) -> dict[str, list[RelayedEvent]]:
    """What each broker has."""
    return {broker.kind: asyncio.run(broker.read()) for broker in brokers}
