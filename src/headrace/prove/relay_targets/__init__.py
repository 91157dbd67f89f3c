"""Relay targets of a run: servers of the checker's own that relays deliver to through a proxy, and what they have at the end.

Promises: a server listens on loopback only, keeps what it confirms, can be killed and started again on its data, and ends with the run.
The package of a target is imported when it is used."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from headrace.core import JSON, Invalid
from headrace.db import free_port
from headrace.prove.evidence import Delivery, RelayedEvent, RelayedEvents
from headrace.prove.proxy import Proxy
from headrace.prove.workload import ORDERS
from headrace.relays import Relay

START_S = 20.0
TIMEOUT_S = 10


class RelayTarget(ABC):
    """A server that a relay delivers to. `kind` is the name in `--relays`, `relay_kind` the target of the relay."""

    kind: ClassVar[str]
    relay_kind: ClassVar[str]
    delivery: ClassVar[Delivery] = "exactly once"
    start_s: ClassVar[float] = START_S

    def __init__(self, folder: Path) -> None:
        self.folder = folder / f"relay-{self.kind}"
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self.port = free_port()
        self.proxy = Proxy("127.0.0.1", self.port)

    @classmethod
    @abstractmethod
    def require(cls) -> None:
        """Raises Invalid if a program or package is missing."""

    @abstractmethod
    def start(self) -> None:
        """Starts the server, also again on its data."""

    @abstractmethod
    def kill(self) -> None:
        """Ends the server without a chance to write anything."""

    def stop(self) -> None:
        """Ends the server at the end of the run."""
        self.kill()

    @abstractmethod
    def options(self) -> dict[str, JSON]:
        """The options of the relay, through the proxy."""

    def more_fields(self) -> dict[str, Any]:
        """Further fields of the relay."""
        return {}

    async def prepare(self) -> None:  # noqa: B027 - most targets have nothing to create
        """Creates the place that the relay delivers to."""

    @abstractmethod
    async def read(self) -> list[RelayedEvent]:
        """All that the server has, in its order."""

    def cut(self) -> None:
        """Cuts the connections in the middle of the data, and rejects new ones."""
        self.proxy.open = False
        self.proxy.cut()

    def mend(self) -> None:
        """Accepts connections again."""
        self.proxy.open = True

    @property
    def relay(self) -> Relay:
        """The relay for the topic with the orders."""
        return Relay(
            name=self.kind, topic=ORDERS, target=self.relay_kind, options=self.options(), start="earliest", batch=50, concurrency=2,
            backoff_s=0.1, backoff_max_s=1, **self.more_fields(),
        )  # fmt: skip


class ServerProcess(RelayTarget):
    """A target that is one process."""

    _process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The command that starts the server."""

    def start(self) -> None:
        with (self.folder / "output").open("ab") as output:
            self._process = self.launch(output.fileno())
        deadline = time.monotonic() + self.start_s
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Invalid(f"the server of {self.kind} did not start; see {self.folder / 'output'}")
            time.sleep(0.02)

    def launch(self, output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command(), stdout=output, stderr=output)

    def is_ready(self) -> bool:
        return accepts(self.port)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)


def accepts(port: int) -> bool:
    """Does a server listen there?"""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def find_program(program: str, kind: str) -> str:
    """The path of a program, beside Python or on the path. Raises Invalid."""
    beside = Path(sys.executable).with_name(program)
    path = str(beside) if beside.exists() else shutil.which(program, path=f"{sys.prefix}/bin:/usr/bin:/usr/sbin:/usr/local/bin")
    path = path or shutil.which(program)
    if path is None:
        raise Invalid(f"the relay {kind} needs the program {program}; install it, or leave the relay out")
    return path


def relayed_event(headers: dict[str, str]) -> RelayedEvent:
    """An event by the headers that every broker carries."""
    return RelayedEvent(int(headers["headrace-partition"]), int(headers["headrace-position"]), headers["headrace-event-id"])


_CLASSES: Mapping[str, tuple[str, str]] = {
    "headrace": ("endpoints", "HeadraceTarget"),
    "kafka": ("brokers", "KafkaTarget"),
    "nats": ("brokers", "NatsTarget"),
    "postgres": ("endpoints", "PostgresTarget"),
    "rabbitmq": ("brokers", "RabbitMQTarget"),
    "rabbitmq-stream": ("brokers", "RabbitMQStreamTarget"),
    "redis": ("brokers", "RedisTarget"),
    "webhook": ("endpoints", "WebhookTarget"),
}
RELAY_KINDS = tuple(_CLASSES)


def _class(kind: str) -> type[RelayTarget]:
    if kind not in _CLASSES:
        raise Invalid(f"there is no relay {kind}; known: {', '.join(RELAY_KINDS)}")
    module, name = _CLASSES[kind]
    target_class: type[RelayTarget] = getattr(import_module(f"headrace.prove.relay_targets.{module}"), name)
    return target_class


def check_relay_kinds(kinds: Sequence[str]) -> None:
    """Raises Invalid for a relay that the checker does not know, or whose program or package is missing."""
    for kind in kinds:
        _class(kind).require()


@contextmanager
def running_targets(kinds: Sequence[str], folder: Path) -> Iterator[list[RelayTarget]]:
    """Targets with a place for the relay, each behind a proxy."""
    with ExitStack() as stack:
        targets: list[RelayTarget] = []
        for kind in kinds:
            target = _class(kind)(folder)
            target.proxy.start()
            stack.callback(target.proxy.stop)
            stack.callback(target.stop)
            target.start()
            asyncio.run(target.prepare())
            targets.append(target)
        yield targets


def read_targets(targets: Sequence[RelayTarget]) -> dict[str, RelayedEvents]:
    """What each target has."""
    return {target.kind: RelayedEvents(target.delivery, asyncio.run(target.read())) for target in targets}
