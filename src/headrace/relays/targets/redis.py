"""Redis Streams: exactly once by explicit ids.

The event at position n becomes the entry `n-0` of the partition's stream. Redis rejects an id that is not above the stream's last one,
and it keeps the last id when entries are trimmed, so an event that is delivered again cannot be stored twice. The entries of a batch are
one transaction: an event that Redis refuses for lack of memory takes those after it along, and nothing is stored out of order.

A stream belongs to one relay. An entry of somebody else at the end of the stream, or in the place of one of ours, is an error: with it
we could not tell what we have delivered. Redis confirms before its replicas have the data, and its settings `appendonly` and
`appendfsync` decide what a crash loses: see docs/relay-targets.md.

A redriven dead letter comes after the last entry `n-0` as `n-1`; it is added once, unless its process ends in between."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from redis.asyncio import Connection, ConnectionPool, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from headrace.core import encode
from headrace.relays.targets.broker import BrokerTarget
from headrace.relays.targets.options import TLS_OPTIONS, Option, Options, fill_template, tls_context
from headrace.relays.targets.target import DeliveryError, Message

OPTIONS: Final[Mapping[str, Option]] = {
    "host": Option("text", required=True),
    "port": Option("integer", default=6379, at_least=1, at_most=65535),
    "database": Option("integer", default=0, at_least=0),
    "user": Option("text"),
    "password": Option("secret"),
    "stream": Option("template", default="{topic}.{partition}"),
    "maxlen": Option("integer", at_least=1),
    "timeout_s": Option("seconds", default=30, at_least=0.1, at_most=40),
    **TLS_OPTIONS,
}
"""`maxlen`: a stream keeps about this many entries; without it, all of them."""
COUNTER_MAX: Final = 2**64 - 1
"""The last possible id of a position."""


class TLSConnection(SSLConnection):
    """A connection by TLS with our context: the library's own takes certificates only as files."""

    def __init__(self, *, context: ssl.SSLContext, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.ssl_context.context = context


class RedisTarget(BrokerTarget[Redis]):
    """The streams of one relay in one Redis database."""

    option_table = OPTIONS
    errors = (RedisError,)

    def __init__(self, relay: str, options: Options, secrets: Mapping[str, str]) -> None:
        super().__init__(relay, options, secrets)
        self._last: dict[str, int] = {}
        """The last delivered position of each stream, as long as nothing has failed since it was read."""

    def _new_client(self) -> Redis:
        return Redis(connection_pool=ConnectionPool(**self._connection_arguments()))

    async def _start(self, client: Redis) -> None:
        await client.ping()

    async def _close(self, client: Redis) -> None:
        await client.aclose(close_connection_pool=True)

    def _forget(self) -> None:
        self._last.clear()

    async def _send(self, client: Redis, messages: Sequence[Message], delivered: set[int]) -> None:
        stream = fill_template(self._options.text("stream"), messages[0])
        self._last[stream] = await self._store(client, stream, messages)

    async def _store(self, client: Redis, stream: str, messages: Sequence[Message]) -> int:
        """Adds what is missing in a stream; returns the last position in it."""
        if messages[0].is_redriven:
            return await self._append(client, stream, messages)
        last = self._last.get(stream)
        if last is None:
            last = await self._read_last(client, stream, messages)
        new = [message for message in messages if message.position > last]
        if not new:
            return last
        if await self._add(client, stream, new):
            return new[-1].position
        # Another process of this relay was faster, or somebody else writes to the stream: what is stored decides.
        last = await self._read_last(client, stream, messages)
        if last < messages[-1].position:
            raise DeliveryError(f"stream {stream!r} of {self._destination} changed while events were added; they are tried again")
        return last

    async def _add(self, client: Redis, stream: str, messages: Sequence[Message]) -> bool:
        """Adds entries in one transaction. False if Redis has rejected an id because the stream's last id is not below it."""
        pipeline = client.pipeline(transaction=True)
        maxlen = self._options.optional_integer("maxlen")
        for message in messages:
            entry_id = f"{message.position}-0"
            pipeline.xadd(stream, cast(Any, _fields(message)), id=entry_id, maxlen=maxlen, approximate=maxlen is not None)
        results = await pipeline.execute(raise_on_error=False)
        errors = [result for result in results if isinstance(result, Exception)]
        for error in errors:
            if not (isinstance(error, ResponseError) and "equal or smaller" in str(error)):
                raise error
        return not errors

    async def _append(self, client: Redis, stream: str, messages: Sequence[Message]) -> int:
        """Adds redriven dead letters after the last entry, in the same position: `n-1`, `n-2` and so on."""
        last = await self._read_last(client, stream, messages)
        for message in messages:
            entries = cast(list[Any], await client.xrange(stream, f"{message.position}-0", f"{message.position}-0"))
            if not entries:
                await client.xadd(stream, cast(Any, _fields(message)), id=f"{max(last, message.position)}-*")
                last = max(last, message.position)
        return last

    async def _read_last(self, client: Redis, stream: str, messages: Sequence[Message]) -> int:
        """The last delivered position of a stream, 0 for a new one. Checks that its end, and these messages, are ours."""
        if not await client.exists(stream):
            return 0
        info = await client.xinfo_stream(stream)
        position, counter = _split_id(info["last-generated-id"])
        tail = cast(list[Any], await client.xrevrange(stream, count=1))
        if any(not self._is_ours(fields, messages[0].relay_uid) for _, fields in tail):
            raise self._other_writer(stream, f"{position}-{counter}")
        ids = {message.position: str(message.event_id).encode() for message in messages if message.position <= position}
        if ids:
            entries = cast(list[Any], await client.xrange(stream, f"{min(ids)}-0", f"{max(ids)}-{COUNTER_MAX}"))
            for entry_id, fields in entries:
                number, counter = _split_id(entry_id)
                is_repeat = counter == 0 and number in ids
                if not self._is_ours(fields, messages[0].relay_uid) or (is_repeat and fields.get(b"event_id") != ids[number]):
                    raise self._other_writer(stream, f"{number}-{counter}")
        return position

    def _is_ours(self, fields: Mapping[bytes, bytes], relay_uid: str) -> bool:
        return (fields.get(b"relay"), fields.get(b"relay_uid")) == (self._relay.encode(), relay_uid.encode())

    def _other_writer(self, stream: str, entry_id: str) -> DeliveryError:
        return DeliveryError(
            f"entry {entry_id} of stream {stream!r} in {self._destination} was not written by relay {self._relay!r} for these events; "
            "a stream belongs to one relay: stop the other writer, or give the relay another stream"
        )

    def _failure(self, error: BaseException) -> DeliveryError:
        # The library quotes the command, and with it the event, before what the server said.
        reason = str(error).rpartition("caused error: ")[2] if isinstance(error, ResponseError) else type(error).__name__
        return DeliveryError(f"Redis at {self._destination} did not confirm: {reason}")

    @property
    def _destination(self) -> str:
        return f"{self._options.text('host')}:{self._options.integer('port')}"

    def _connection_arguments(self) -> dict[str, Any]:
        options = self._options
        arguments: dict[str, Any] = {
            "host": options.text("host"),
            "port": options.integer("port"),
            "db": options.integer("database"),
            "username": self._secrets.get("user") or options.optional_text("user"),
            "password": self._secrets.get("password"),
            "socket_timeout": options.seconds("timeout_s"),
            "socket_connect_timeout": options.seconds("timeout_s"),
            # A repeated transaction would only meet its own entries; the relay tries again, with what is stored in mind.
            "retry": Retry(NoBackoff(), 0),
            "connection_class": Connection,
        }
        if context := tls_context(options, self._secrets):
            arguments |= {"connection_class": TLSConnection, "context": context}
        return arguments


def _fields(message: Message) -> dict[str, str | bytes]:
    """The fields of an entry."""
    fields: dict[str, str | bytes] = {
        "relay": message.relay,
        "relay_uid": message.relay_uid,
        "event_id": str(message.event_id),
        "event_type": message.event_type,
        "content_type": message.content_type,
        "headers": encode(dict(message.headers)),
        "body": message.body,
    }
    if message.key is not None:
        fields["key"] = message.key
    if message.is_redriven:
        fields["position"] = str(message.position)
    return fields


def _split_id(entry_id: bytes | str) -> tuple[int, int]:
    text = entry_id.decode() if isinstance(entry_id, bytes) else entry_id
    position, counter = text.split("-")
    return int(position), int(counter)
