"""Kafka: the mock cluster inside the confluent-kafka package. It speaks the protocol and keeps records in memory; it is no Kafka.

So it cannot be killed and started on its data. Instead its brokers end their connections and listen no more for a while.
`python -m headrace.prove.relay_targets.kafka` is its process: it prints its addresses, then takes `down` and `up` on its input and
confirms each by a line. `down` ends all connections and refuses new ones; the records stay. The package's Python interface does not
have that, so the functions of its library are called directly."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from headrace.core import JSON, Invalid
from headrace.prove.evidence import RelayedEvent
from headrace.prove.relay_targets.target import TIMEOUT_S, RelayTarget, relayed_event
from headrace.prove.workload import ORDERS

KAFKA_PARTITIONS = 4
"""Of a topic that the mock cluster creates when it is first used."""


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
                [sys.executable, "-m", "headrace.prove.relay_targets.kafka"],
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
