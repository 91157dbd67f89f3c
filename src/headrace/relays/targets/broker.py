"""What the targets of all brokers share: options, secrets, the time limit, and the headers beside a message.

A message carries the event's headers, without those that would command the broker, and our own. Anyone who may publish chooses an
event's headers. A header such as `Nats-Rollup`, which empties a stream, or `CC`, which routes a copy elsewhere, must not reach the broker;
nor may an event forge the headers by which we find the last delivered position."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Final, Generic, TypeVar

from headrace.relays.targets.options import Options
from headrace.relays.targets.target import Message

Encoded = TypeVar("Encoded")

RELAY_HEADER: Final = "headrace-relay"
POSITION_HEADER: Final = "headrace-position"
EVENT_ID_HEADER: Final = "headrace-event-id"
DELIVERED_HEADER: Final = "headrace-delivered"
"""The highest position delivered so far: the message's own, or a later one before a redriven dead letter."""
RELAY_UID_HEADER: Final = "headrace-relay-uid"
"""Which relay: another one may have the same name, in another database or after this one was dropped."""
OWN_PREFIX: Final = "headrace-"
CACHED_MAX: Final = 1024
"""How many encoded types and names are remembered: publishers choose them, and may choose many."""


class HeaderEncoder(Generic[Encoded]):
    """Encodes the headers of messages for one broker. What is the same in many messages is encoded once."""

    def __init__(self, encode: Callable[[str, str], Encoded], *, reserved: Collection[str] = ()) -> None:
        """`encode` gives a header by name and value. Headers whose name starts with one of `reserved` (lower case) are left out."""
        self._encode = encode
        self._encode_cached = lru_cache(CACHED_MAX)(encode)
        prefixes = (OWN_PREFIX, *reserved)
        self._is_reserved = lru_cache(CACHED_MAX)(lambda name: name.strip().lower().startswith(prefixes))
        self._origin = lru_cache(CACHED_MAX)(self._encode_origin)

    def encode(self, message: Message) -> list[Encoded]:
        """The headers of a message: the event's own, then ours. No name occurs twice."""
        encode, encode_cached, headers = self._encode, self._encode_cached, message.headers
        encoded = [encode(name, headers[name]) for name in headers if not self._is_reserved(name)]
        encoded += self._origin(message.relay, message.relay_uid, message.topic, message.partition)
        encoded += (
            encode(POSITION_HEADER, str(message.position)),
            encode(EVENT_ID_HEADER, str(message.event_id)),
            encode_cached("headrace-event-type", message.event_type),
        )
        if message.key is not None:
            encoded.append(encode("headrace-key", message.key))
        if "content-type" not in headers:
            encoded.append(encode_cached("content-type", message.content_type))
        return encoded

    def _encode_origin(self, relay: str, relay_uid: str, topic: str, partition: int) -> tuple[Encoded, ...]:
        return (
            self._encode(RELAY_HEADER, relay),
            self._encode(RELAY_UID_HEADER, relay_uid),
            self._encode("headrace-topic", topic),
            self._encode("headrace-partition", str(partition)),
        )


class BrokerTarget(ABC):
    """A broker, for one relay on one node."""

    def __init__(self, relay: str, options: Options, secrets: Mapping[str, str]) -> None:
        self._relay = relay
        self._options = options
        self._secrets = secrets
        self._timeout_s = options.seconds("timeout_s")
        self._opening = asyncio.Lock()
        """Held while it connects: deliveries of several partitions open it once."""

    @property
    @abstractmethod
    def _destination(self) -> str:
        """Where it delivers to, for messages; without secrets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._relay!r}, {self._destination})"
