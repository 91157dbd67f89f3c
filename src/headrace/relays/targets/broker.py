"""What the targets of all brokers share: options, secrets, the time limit, opening and closing, and the headers beside a message.

A message carries the event's headers, without those that would command the broker, and our own. Anyone who may publish chooses an
event's headers. A header such as `Nats-Rollup`, which empties a stream, or `CC`, which routes a copy elsewhere, must not reach the broker;
nor may an event forge the headers by which we find the last delivered position."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import ClassVar, Final, Generic, Self, TypeVar

from headrace.core import JSON
from headrace.relays.targets.options import Option, Options, find_mistakes
from headrace.relays.targets.target import DeliveryError, Message, TargetRefused

Encoded = TypeVar("Encoded")
Client = TypeVar("Client")

RELAY_HEADER: Final = "headrace-relay"
POSITION_HEADER: Final = "headrace-position"
EVENT_ID_HEADER: Final = "headrace-event-id"
DELIVERED_HEADER: Final = "headrace-delivered"
"""The highest position delivered so far: the message's own, or a later one before a redriven dead letter."""
RELAY_UID_HEADER: Final = "headrace-relay-uid"
"""Which relay: another one may have the same name, in another database or after this one was dropped."""
OWN_PREFIX: Final = "headrace-"
CLOSE_S: Final = 5.0
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


class BrokerTarget(ABC, Generic[Client]):
    """A broker, for one relay on one node. Its client serves all partitions, and is opened again after it was dropped.

    The class itself is the kind of target."""

    option_table: ClassVar[Mapping[str, Option]]
    errors: ClassVar[tuple[type[BaseException], ...]]
    """What the library raises where the broker cannot be reached or does not confirm, beside OSError and TimeoutError."""
    needs_user_with_password: ClassVar[bool] = False
    refusals: ClassVar[tuple[type[BaseException], ...]] = (TargetRefused,)
    """Errors after which the client is kept: the broker has answered, and nothing is on its way."""

    def __init__(self, relay: str, options: Options, secrets: Mapping[str, str]) -> None:
        self._relay = relay
        self._options = options
        self._secrets = secrets
        self._timeout_s = options.seconds("timeout_s")
        self._client: Client | None = None
        self._opening = asyncio.Lock()
        """Held while it connects: deliveries of several partitions open it once."""

    @classmethod
    def check_options(cls, options: Mapping[str, JSON]) -> list[str]:
        mistakes = find_mistakes(cls.option_table, options)
        has_user, has_password = (options.get(name) is not None for name in ("user", "password"))
        if cls.needs_user_with_password and has_user != has_password:
            mistakes.append("the options user and password are used together")
        return mistakes

    @classmethod
    def open_target(cls, relay_name: str, options: Mapping[str, JSON], secrets: Mapping[str, str]) -> Self:
        return cls(relay_name, Options(cls.option_table, options), secrets)

    async def open(self) -> None:
        await self._open()

    async def deliver(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        client = await self._open()
        delivered: set[int] = set()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._send(client, messages, delivered)
        except BaseException as error:  # noqa: BLE001 - it is raised again
            if not isinstance(error, self.refusals):
                await self._drop(client)
            raise self._delivery_error(error, delivered) from None

    async def close(self) -> None:
        if self._client is not None:
            await self._drop(self._client)

    async def _open(self) -> Client:
        async with self._opening:
            client = self._client
            if client is None or not self._is_open(client):
                await self.close()
                try:
                    async with asyncio.timeout(self._timeout_s):
                        client = self._client = await self._connect()
                except BaseException as error:  # noqa: BLE001 - it is raised again
                    raise self._delivery_error(error) from None
            return client

    async def _drop(self, client: Client) -> None:
        """Closes a client and forgets it, unless another one has taken its place."""
        if self._client is client:
            self._client = None
            self._forget()
        await self._end(client)

    async def _end(self, client: Client) -> None:
        """Closes a client. That fails, or waits for ever, where the connection is already broken; there is nothing left to close then."""
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                await self._close(client)

    def _delivery_error(self, error: BaseException, delivered: Collection[int] = ()) -> BaseException:
        """The error of a delivery; the error itself if it says nothing of the broker, such as a cancellation."""
        if not isinstance(error, DeliveryError):
            if not isinstance(error, (*self.errors, OSError, TimeoutError)):
                return error
            error = self._failure(error)
        error.delivered |= frozenset(delivered)
        return error

    def _is_open(self, client: Client) -> bool:
        """False once the client has lost its connection, as far as it knows."""
        return True

    def _forget(self) -> None:
        """Forgets what is only known while a client is open."""

    async def _connect(self) -> Client:
        """A connected client. What was opened is closed again if it fails."""
        client = self._new_client()
        try:
            await self._start(client)
        except BaseException:
            await self._end(client)
            raise
        return client

    def _new_client(self) -> Client:
        """A client that is not connected yet. A target whose library connects at once overrides `_connect` instead."""
        raise NotImplementedError

    async def _start(self, client: Client) -> None:
        """Connects a new client."""
        raise NotImplementedError

    @abstractmethod
    async def _close(self, client: Client) -> None:
        """Closes a client."""

    async def _send(self, client: Client, messages: Sequence[Message], delivered: set[int]) -> None:
        """Sends messages of one partition and returns once all are confirmed. A target with a client per partition overrides `deliver`
        instead.

        Where some may be confirmed although the others fail, adds their positions to `delivered`."""
        raise NotImplementedError

    @abstractmethod
    def _failure(self, error: BaseException) -> DeliveryError:
        """What an error of the library or of the connection means, without anything that was sent."""

    @property
    @abstractmethod
    def _destination(self) -> str:
        """The address it delivers to, for messages; it contains no secrets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._relay!r}, {self._destination})"
