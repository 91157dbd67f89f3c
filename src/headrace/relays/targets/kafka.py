"""Kafka: at least once, in order per key, by an idempotent producer that waits for all replicas (acks=all).

The event's key is the record's key, so Kafka's partitioner keeps the events of a key in one partition, and the producer keeps their
order; the headers are the record's headers. The library repeats requests on its own without storing a record twice, as long as the
process lives. After the end of a process, or after a failure that the library gives up on, the batch is sent again by a new producer,
and records may be there twice, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, UnknownTopicOrPartitionError

from headrace.relays.targets.broker import BrokerTarget, HeaderEncoder
from headrace.relays.targets.options import TLS_OPTIONS, Option, fill_template, tls_context
from headrace.relays.targets.target import DeliveryError, Message, TargetRefused

OPTIONS: Final[Mapping[str, Option]] = {
    "servers": Option("addresses", required=True),
    "kafka_topic": Option("template", default="{topic}"),
    "user": Option("text"),
    "password": Option("secret"),
    "sasl_mechanism": Option("text", default="PLAIN", choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    "compression": Option("text", choices=("gzip", "snappy", "lz4", "zstd")),
    "message_bytes_max": Option("integer", default=1_048_576, at_least=1024),
    "timeout_s": Option("seconds", default=30, at_least=0.1, at_most=40),
    **TLS_OPTIONS,
}
REQUEST_BYTES: Final = 256 * 1024
"""Records of one Kafka partition travel together up to this size. The library's 16 kB are full before a delivery is, and each full
batch is a round trip."""
_HEADERS: Final = HeaderEncoder(lambda name, value: (name, value.encode()))


class KafkaTarget(BrokerTarget[AIOKafkaProducer]):
    """One producer for all partitions of a relay."""

    option_table = OPTIONS
    needs_user_with_password = True
    errors = (KafkaError,)

    def _new_client(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(**self._producer_arguments())

    async def _start(self, client: AIOKafkaProducer) -> None:
        await client.start()

    async def _close(self, client: AIOKafkaProducer) -> None:
        # Stopping flushes, which fails or takes long where the brokers cannot be reached.
        await client.stop()

    async def _send(self, client: AIOKafkaProducer, messages: Sequence[Message], delivered: set[int]) -> None:
        """Sends messages in their order, then waits for all confirmations."""
        confirmations: list[asyncio.Future[Any]] = []
        refused: TargetRefused | None = None
        kafka_topic = fill_template(self._options.text("kafka_topic"), messages[0])
        for message in messages:
            try:
                confirmation = await client.send(
                    kafka_topic,
                    message.body,
                    key=None if message.key is None else message.key.encode(),
                    timestamp_ms=int(message.emitted_at.timestamp() * 1000),
                    headers=_HEADERS.encode(message),
                )
            except MessageSizeTooLargeError:
                limit = self._options.integer("message_bytes_max")
                refused = TargetRefused(
                    f"position {message.position} has {len(message.body)} bytes without its headers, the option message_bytes_max allows {limit}"
                )
                break
            confirmations.append(confirmation)
        # All of them, also after an error: nothing of this batch may still be on its way when it is sent again.
        outcomes = await asyncio.gather(*confirmations, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        if refused is not None:
            raise refused

    def _failure(self, error: BaseException) -> DeliveryError:
        if isinstance(error, UnknownTopicOrPartitionError):
            return DeliveryError(f"{self._destination} does not exist; create the topic, or change the option kafka_topic")
        return DeliveryError(f"{self._destination} did not confirm: {type(error).__name__}")

    @property
    def _destination(self) -> str:
        return f"topic {self._options.text('kafka_topic')!r} of Kafka at {', '.join(self._options.texts('servers'))}"

    def _producer_arguments(self) -> dict[str, Any]:
        tls = tls_context(self._options, self._secrets)
        password = self._secrets.get("password")
        arguments: dict[str, Any] = {
            "bootstrap_servers": self._options.texts("servers"),
            "client_id": f"headrace-relay-{self._relay}",
            "enable_idempotence": True,
            "acks": "all",
            "max_batch_size": min(REQUEST_BYTES, self._options.integer("message_bytes_max")),
            "compression_type": self._options.optional_text("compression"),
            "max_request_size": self._options.integer("message_bytes_max"),
            "request_timeout_ms": int(self._timeout_s * 1000),
            "security_protocol": f"{'SASL_' if password else ''}{'SSL' if tls else 'PLAINTEXT'}",
            "ssl_context": tls,
        }
        if password:
            arguments |= {
                "sasl_mechanism": self._options.text("sasl_mechanism"),
                "sasl_plain_username": self._secrets.get("user") or self._options.text("user"),
                "sasl_plain_password": password,
            }
        return arguments
