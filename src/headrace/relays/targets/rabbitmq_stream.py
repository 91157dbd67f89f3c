"""RabbitMQ streams: exactly once by publishing ids.

A stream remembers the last publishing id of each named producer, and drops a message whose id is not above it. The producer's name is
the relay, its uid and the partition; the publishing id is the position plus one. After every start and every failure the last
publishing id is read, and events up to it are not sent again. Several partitions may share a stream. A redriven dead letter is added
at the end, once unless its process ends in between.

Whoever else writes to the stream does no harm.

Messages are encoded as AMQP 1.0 (OASIS, parts 1.6 and 3.2), as streams store them. The library's encoder walks a tree of types for every
value: for a message with eleven headers that took two thirds of a delivery. A message of ours has one fixed shape, so its bytes are put
together here, and headers that repeat come already encoded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import Final

from rstream import ConfirmationStatus, Producer, RawMessage
from rstream.recovery import BackOffRecoveryStrategy
from rstream.schema import SaslAuthenticate

from headrace.relays.targets.broker import BrokerTarget, HeaderEncoder
from headrace.relays.targets.options import RABBITMQ_OPTIONS, Option, Options, fill_template, tls_context
from headrace.relays.targets.target import DeliveryError, Message, TargetRefused

# Format codes: the small form has a length of one byte, the large one of four.
_STRING: Final = (b"\xa1", b"\xb1")
_SYMBOL: Final = (b"\xa3", b"\xb3")
_BINARY: Final = (b"\xa0", b"\xb0")
_NULL: Final = b"\x40"
_LIST_LARGE: Final = b"\xd0"
_MAP_LARGE: Final = b"\xd1"
# Descriptors of sections.
_PROPERTIES: Final = b"\x00\x53\x73"
_APPLICATION_PROPERTIES: Final = b"\x00\x53\x74"
_DATA: Final = b"\x00\x53\x75"

_pack_size = Struct(">I").pack
_pack_size_and_count = Struct(">II").pack
_SMALL: Final = [bytes((size,)) for size in range(256)]
_COUNT_BYTES: Final = 4
CACHED_MAX: Final = 1024
"""How many encoded types and names are remembered: publishers choose them, and may choose many."""


def encode_header(name: str, value: str) -> bytes:
    """One application property: both are strings."""
    return _name(name) + _variable(_STRING, value.encode())


def encode_message(*, message_id: str, subject: str, content_type: str, headers: Sequence[bytes], body: bytes) -> bytes:
    """A message with properties, application properties (by `encode_header`) and one data section."""
    # message-id, user-id, to, subject, reply-to, correlation-id, content-type
    properties = _variable(_STRING, message_id.encode()) + _subject_and_content_type(subject, content_type)
    encoded_headers = b"".join(headers)
    return b"".join(
        (
            _PROPERTIES,
            _LIST_LARGE,
            _pack_size_and_count(len(properties) + _COUNT_BYTES, 7),
            properties,
            _APPLICATION_PROPERTIES,
            _MAP_LARGE,
            _pack_size_and_count(len(encoded_headers) + _COUNT_BYTES, 2 * len(headers)),
            encoded_headers,
            _DATA,
            _variable(_BINARY, body),
        )
    )


@lru_cache(CACHED_MAX)
def _name(name: str) -> bytes:
    return _variable(_STRING, name.encode())


@lru_cache(CACHED_MAX)
def _subject_and_content_type(subject: str, content_type: str) -> bytes:
    return _NULL + _NULL + _variable(_STRING, subject.encode()) + _NULL + _NULL + _variable(_SYMBOL, content_type.encode())


def _variable(codes: tuple[bytes, bytes], data: bytes) -> bytes:
    size = len(data)
    return codes[0] + _SMALL[size] + data if size < len(_SMALL) else codes[1] + _pack_size(size) + data


OPTIONS: Final[Mapping[str, Option]] = {
    **RABBITMQ_OPTIONS,
    "stream": Option("template", default="{topic}.{partition}"),
    "load_balancer": Option("flag", default=False),
}
"""`load_balancer`: connect only to `host`, again and again until the stream's leader answers, instead of to the address it advertises."""
FRAME_BYTES_MAX: Final = 1024 * 1024
FRAME_OVERHEAD_BYTES: Final = 64
MESSAGE_OVERHEAD_BYTES: Final = 16
REFERENCE_BYTES_MAX: Final = 256
_HEADERS: Final = HeaderEncoder(encode_header)


def _has_no_credentials(record: logging.LogRecord) -> bool:
    """False for a log record with the frame that carries the password, which the library logs at the level DEBUG."""
    arguments = record.args if isinstance(record.args, tuple) else (record.args,)
    return not any(isinstance(argument, SaslAuthenticate) for argument in arguments)


logging.getLogger("rstream.client").addFilter(_has_no_credentials)


@dataclass
class Confirmations:
    """What the server has said of the messages of one batch."""

    missing: set[int]
    rejected: dict[int, int] = field(default_factory=dict)
    """Response codes by publishing id; negative for a lost connection."""
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def receive(self, status: ConfirmationStatus) -> None:
        self.missing.discard(status.message_id)
        if not status.is_confirmed:
            self.rejected[status.message_id] = status.response_code
        if not self.done.done() and (self.rejected or not self.missing):
            self.done.set_result(None)


@dataclass(frozen=True)
class Publisher:
    """The named producer of one partition; the library allows one per stream and connection, so each has its own connection."""

    producer: Producer
    stream: str
    reference: str

    async def last_publishing_id(self) -> int:
        """0 if the stream has nothing of this producer."""
        client = await self.producer.default_client
        return await client.query_publisher_sequence(stream=self.stream, reference=self.reference)

    async def publish(self, messages: Sequence[RawMessage]) -> dict[int, int]:
        """Publishes and waits until all are confirmed or one is rejected; returns the response codes of rejected ones."""
        confirmations = Confirmations({int(message.publishing_id or 0) for message in messages})
        for frame in _frames(messages):
            await self.producer.send_batch(
                self.stream, frame, publisher_name=self.reference, on_publish_confirm=confirmations.receive
            )
        await confirmations.done
        return confirmations.rejected


class RabbitMQStreamTarget(BrokerTarget[Producer]):
    """The streams of one relay in one RabbitMQ."""

    option_table = OPTIONS
    errors = (Exception,)

    def __init__(self, relay: str, options: Options, secrets: Mapping[str, str]) -> None:
        super().__init__(relay, options, secrets)
        self._publishers: dict[int, Publisher] = {}
        self._last: dict[int, int] = {}
        """The last publishing id of each partition."""

    async def open(self) -> None:
        """Connects once to see that the server answers; a partition gets its own connection when it delivers for the first time."""
        if not self._publishers:
            await self._drop(await self._open())

    async def deliver(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._store(messages)
        except BaseException as error:  # noqa: BLE001 - it is raised again
            if not isinstance(error, self.refusals):
                await self._disconnect(messages[0].partition)
            raise self._delivery_error(error) from None

    async def close(self) -> None:
        for partition in list(self._publishers):
            await self._disconnect(partition)

    async def _start(self, client: Producer) -> None:
        await client.start()

    async def _close(self, client: Producer) -> None:
        await client.close()

    async def _store(self, messages: Sequence[Message]) -> None:
        first = messages[0]
        partition, stream = first.partition, fill_template(self._options.text("stream"), first)
        if first.is_redriven:
            await self._append(stream, messages)
            return
        publisher = self._publishers.get(partition)
        if publisher is None:
            publisher = await self._open_publisher(first, stream)
            self._publishers[partition] = publisher
        if partition not in self._last:
            self._last[partition] = await publisher.last_publishing_id()
        new: list[RawMessage] = []
        too_large: TargetRefused | None = None
        last = self._last[partition]
        for message in messages:
            if message.position + 1 > last:
                data = _amqp_data(message)
                if len(data) + FRAME_OVERHEAD_BYTES > FRAME_BYTES_MAX:
                    too_large = TargetRefused(
                        f"position {message.position} has {len(data)} bytes with its headers, a stream of RabbitMQ takes {FRAME_BYTES_MAX}"
                    )
                    break
                new.append(RawMessage(data, message.position + 1))
        if new:
            rejected = await publisher.publish(new)
            if rejected:
                number, code = min(rejected.items())
                reason = "the connection was lost" if code < 0 else f"response code {code}"
                raise DeliveryError(
                    f"stream {stream!r} of RabbitMQ at {self._destination} did not confirm position {number - 1}: {reason}"
                )
            self._last[partition] = int(new[-1].publishing_id or 0)
        if too_large is not None:
            raise too_large

    async def _append(self, stream: str, messages: Sequence[Message]) -> None:
        """Adds redriven dead letters by a producer without a name, whose messages are never dropped as repeats."""
        publisher = await self._open_publisher(messages[0], stream)
        try:
            for message in messages:
                await publisher.producer.send_wait(stream, RawMessage(_amqp_data(message)))
        finally:
            await self._end(publisher.producer)

    async def _open_publisher(self, message: Message, stream: str) -> Publisher:
        reference = f"{self._relay}/{message.relay_uid}/{message.partition}"
        if (size := len(reference.encode())) >= REFERENCE_BYTES_MAX:
            raise DeliveryError(
                f"the producer name {reference!r} has {size} bytes, RabbitMQ takes {REFERENCE_BYTES_MAX - 1}; rename the relay"
            )
        producer = await self._connect()
        try:
            if not await producer.stream_exists(stream):
                raise DeliveryError(
                    f"RabbitMQ at {self._destination} has no stream {stream!r}; create it, or change the option stream"
                )
        except BaseException:
            await self._end(producer)
            raise
        return Publisher(producer, stream, reference)

    def _new_client(self) -> Producer:
        return Producer(
            self._options.text("host"),
            self._port,
            ssl_context=tls_context(self._options, self._secrets),
            vhost=self._options.text("virtual_host"),
            username=self._secrets.get("user") or self._options.text("user"),
            password=self._secrets["password"],
            frame_max=FRAME_BYTES_MAX,
            load_balancer_mode=self._options.flag("load_balancer"),
            connection_name=f"headrace relay {self._relay}",
            # The relay tries again, after it has read the last publishing id.
            recovery_strategy=BackOffRecoveryStrategy(enable=False),
        )

    def _failure(self, error: BaseException) -> DeliveryError:
        return DeliveryError(f"RabbitMQ at {self._destination} did not confirm: {type(error).__name__}")

    @property
    def _port(self) -> int:
        return self._options.optional_integer("port") or (5551 if self._options.flag("tls") else 5552)

    @property
    def _destination(self) -> str:
        return f"{self._options.text('host')}:{self._port}"

    async def _disconnect(self, partition: int) -> None:
        publisher = self._publishers.pop(partition, None)
        self._last.pop(partition, None)
        if publisher is not None:
            await self._end(publisher.producer)


def _amqp_data(message: Message) -> bytes:
    """The message in the form of AMQP 1.0, which is what streams store."""
    return encode_message(
        message_id=str(message.event_id),
        subject=message.event_type,
        content_type=message.content_type,
        headers=_HEADERS.encode(message),
        body=message.body,
    )


def _frames(messages: Sequence[RawMessage]) -> Iterator[list[RawMessage]]:
    """The messages in groups that fit into one frame each."""
    frame: list[RawMessage] = []
    size = FRAME_OVERHEAD_BYTES
    for message in messages:
        message_bytes = len(message.data) + MESSAGE_OVERHEAD_BYTES
        if frame and size + message_bytes > FRAME_BYTES_MAX:
            yield frame
            frame, size = [], FRAME_OVERHEAD_BYTES
        frame.append(message)
        size += message_bytes
    if frame:
        yield frame
