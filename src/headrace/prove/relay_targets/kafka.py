"""Kafka: the mock cluster inside the confluent-kafka package. It speaks the protocol and keeps records in memory; it is no Kafka.

So it cannot be killed and started on its data. Instead its brokers end their connections and listen no more for a while."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

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
                [sys.executable, "-m", "headrace.prove.relay_targets.kafka_mock"],
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
