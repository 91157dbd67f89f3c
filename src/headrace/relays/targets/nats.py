"""NATS JetStream: exactly once by the expected last sequence of a subject.

A partition has a subject of its own. Every message says which sequence the last message of its subject must have; the server refuses it
otherwise. So what has been stored already cannot be stored again, and a message is never stored before the one it follows. Messages are
sent without waiting for each confirmation: the sequence that each will get is guessed, since it is the next of the stream as long as
nobody else writes to the stream. A wrong guess costs a refusal and a shorter window, nothing else.

The last message of the subject carries its position. It is read after every start and after every failure, so an event that is
delivered again is dropped. A last message of somebody else is an error: a subject belongs to one relay. The stream must keep its last
message (retention `limits`). `Nats-Msg-Id` is not used: its memory ends after the stream's duplicate window. A redriven dead letter is
added at the end, once unless its process ends in between."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import RetentionPolicy

from headrace.core import JSON
from headrace.relays.message import Message
from headrace.relays.targets.broker_headers import (
    DELIVERED_HEADER,
    EVENT_ID_HEADER,
    POSITION_HEADER,
    RELAY_HEADER,
    broker_headers,
)
from headrace.relays.targets.broker_options import TLS_OPTIONS, Option, Options, fill_template, find_mistakes, tls_context
from headrace.relays.targets.target import DeliveryError, TargetRefused

__all__ = ["NatsTarget", "check_options", "open_target"]

OPTIONS: Final[Mapping[str, Option]] = {
    "servers": Option("addresses", required=True),
    "stream": Option("text", required=True),
    "subject": Option("template", default="{topic}.{partition}"),
    "user": Option("text"),
    "password": Option("secret"),
    "token": Option("secret"),
    "timeout_s": Option("seconds", default=30, at_least=0.1),
    **TLS_OPTIONS,
}
EXPECTED_STREAM: Final = "Nats-Expected-Stream"
EXPECTED_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
WRONG_SEQUENCE: Final = (10071, 10164)
"""The server's error codes for a last sequence other than the expected one."""
TOO_LARGE: Final = 10054
WINDOW_MAX: Final = 512
"""Messages that are sent before their confirmations are read."""
HEADER_OVERHEAD_BYTES: Final = 64
HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def check_options(options: Mapping[str, JSON]) -> list[str]:
    mistakes = find_mistakes(OPTIONS, options)
    if options.get("password") is not None and options.get("token") is not None:
        mistakes.append("only one of the options password and token can be used")
    if (options.get("user") is None) != (options.get("password") is None):
        mistakes.append("the options user and password are used together")
    return mistakes


def open_target(relay_name: str, options: Mapping[str, JSON], secrets: Mapping[str, str]) -> NatsTarget:
    return NatsTarget(relay_name, Options(OPTIONS, options), secrets)


@dataclass(frozen=True)
class Tail:
    """The end of a subject: the sequence of its last message in the stream, and the highest position delivered so far."""

    sequence: int = 0
    position: int = -1
    event_id: str = ""
    """The event of the last message."""


@dataclass
class Window:
    """Messages on their way, and the server's replies to them so far."""

    size: int
    replies: dict[int, dict[str, Any]] = field(default_factory=dict)
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def receive(self, index: int, reply: dict[str, Any]) -> None:
        self.replies[index] = reply
        if len(self.replies) == self.size and not self.done.done():
            self.done.set_result(None)


class NatsTarget:
    """The subjects of one relay in one stream. One batch at a time: two would spoil each other's guesses."""

    def __init__(self, relay: str, options: Options, secrets: Mapping[str, str]) -> None:
        self._relay = relay
        self._options = options
        self._secrets = secrets
        self._timeout_s = options.seconds("timeout_s")
        self._lock = asyncio.Lock()
        self._client: Client | None = None
        self._tails: dict[str, Tail] = {}
        self._stream_sequence = 0
        """The last sequence of the stream, over all subjects, as far as we know."""
        self._inbox = ""
        self._windows: dict[int, Window] = {}
        self._windows_sent = 0
        self._window_size = WINDOW_MAX

    def __repr__(self) -> str:
        return f"NatsTarget({self._relay!r}, {self._place})"

    async def open(self) -> None:
        if self._client is not None and self._client.is_connected:
            return
        await self._disconnect()
        client = Client()
        try:
            async with asyncio.timeout(self._timeout_s):
                await client.connect(**self._connection_arguments())
                info = await client.jetstream(timeout=self._timeout_s).stream_info(self._options.text("stream"))
                self._inbox = client.new_inbox()
                await client.subscribe(f"{self._inbox}.*.*", cb=self._receive)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            await _close(client)
            raise self._failure(error) from None
        if info.config.retention not in (RetentionPolicy.LIMITS, None):
            await _close(client)
            raise DeliveryError(
                f"{self._place} has the retention {info.config.retention}, which deletes the message that says what was delivered; "
                "use a stream with the retention limits"
            )
        self._client = client
        self._stream_sequence = info.state.last_seq

    async def deliver(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        async with self._lock:
            await self.open()
            assert self._client is not None
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._store(self._client, fill_template(self._options.text("subject"), messages[0]), messages)
            except TargetRefused:
                raise
            except BaseException as error:
                await self._disconnect()
                if isinstance(error, (nats.errors.Error, OSError, TimeoutError)):
                    raise self._failure(error) from None
                raise

    async def close(self) -> None:
        await self._disconnect()

    async def _store(self, client: Client, subject: str, messages: Sequence[Message]) -> None:
        """Publishes what is missing in a subject, a window at a time."""
        tail = self._tails.get(subject) or await self._read_tail(client, subject, messages)
        waiting = [message for message in messages if message.position > tail.position or _is_missing(message, tail)]
        while waiting:
            window = waiting[: self._window_size]
            stored, tail = await self._publish(client, subject, window, tail)
            self._tails[subject] = tail
            if stored < len(window):
                self._window_size = max(1, self._window_size // 2)
                tail = self._tails[subject] = await self._read_tail(client, subject, messages)
                self._stream_sequence = (await client.jetstream().stream_info(self._options.text("stream"))).state.last_seq
            else:
                self._window_size = min(WINDOW_MAX, self._window_size * 2)
            waiting = (
                waiting[stored:]
                if stored == len(window)
                else [m for m in waiting if m.position > tail.position or _is_missing(m, tail)]
            )

    async def _publish(self, client: Client, subject: str, messages: Sequence[Message], tail: Tail) -> tuple[int, Tail]:
        """Publishes a window; returns how many messages were stored before the first wrong guess, and the new tail."""
        self._windows_sent += 1
        number, window = self._windows_sent, Window(len(messages))
        self._windows[number] = window
        before = self._stream_sequence
        too_large: TargetRefused | None = None
        try:
            for index, message in enumerate(messages):
                headers = self._headers(message, before + index if index else tail.sequence, delivered=tail.position)
                too_large = self._size_problem(client, message, headers)
                if too_large is not None:
                    window.size = index
                    break
                await client.publish(subject, message.body, reply=f"{self._inbox}.{number}.{index}", headers=headers)
            if len(window.replies) < window.size:
                await self._wait(client, window)
        finally:
            del self._windows[number]
        stored = 0
        for index, message in enumerate(messages[: window.size]):
            reply = window.replies[index]
            if "error" in reply:
                if reply["error"].get("err_code") in WRONG_SEQUENCE:
                    return stored, tail
                raise self._refusal(message, reply["error"])
            tail = Tail(int(reply["seq"]), max(tail.position, message.position), str(message.event_id))
            self._stream_sequence = tail.sequence
            stored += 1
        if too_large is not None:
            self._tails[subject] = tail
            raise too_large
        return stored, tail

    async def _wait(self, client: Client, window: Window) -> None:
        """Waits for the replies of a window, or for the end of the connection."""
        while not window.done.done():
            await asyncio.wait([window.done], timeout=0.2)
            if not client.is_connected:
                raise nats.errors.ConnectionClosedError

    async def _receive(self, reply: Msg) -> None:
        number, index = reply.subject.rsplit(".", 2)[1:]
        window = self._windows.get(int(number))
        if window is None:
            return
        if reply.headers and reply.headers.get("Status") == "503":
            window.receive(int(index), {"error": {"description": "no stream takes this subject"}})
        else:
            window.receive(int(index), json.loads(reply.data))

    async def _read_tail(self, client: Client, subject: str, messages: Sequence[Message]) -> Tail:
        """The last message of a subject. Raises DeliveryError if it is not of this relay, or if it is of another log."""
        stream = self._options.text("stream")
        try:
            # From the stream's leader: a replica may not have the last message yet.
            last = await client.jetstream(timeout=self._timeout_s).get_last_msg(stream, subject)
        except nats.js.errors.NotFoundError:
            return Tail()
        headers = last.headers or {}
        position, delivered = headers.get(POSITION_HEADER, ""), headers.get(DELIVERED_HEADER, "")
        event_id = headers.get(EVENT_ID_HEADER, "")
        is_ours = headers.get(RELAY_HEADER) == _header_text(self._relay) and position.isdecimal() and delivered.isdecimal()
        if not is_ours or any(str(m.event_id) != event_id for m in messages if m.position == int(position)):
            raise DeliveryError(
                f"the last message of subject {subject!r} in {self._place} (sequence {last.seq}) was not written by relay "
                f"{self._relay!r} for this log; a subject belongs to one relay: stop the other writer, or give the relay another subject"
            )
        assert last.seq is not None
        return Tail(last.seq, int(delivered), event_id)

    def _headers(self, message: Message, sequence: int, *, delivered: int) -> dict[str, str]:
        headers = broker_headers(message, reserved=("nats-", "status", "description"))
        headers[DELIVERED_HEADER] = str(max(delivered, message.position))
        headers = {name: _header_text(value) for name, value in headers.items() if HEADER_NAME.fullmatch(name)}
        return headers | {EXPECTED_STREAM: self._options.text("stream"), EXPECTED_SEQUENCE: str(sequence)}

    def _size_problem(self, client: Client, message: Message, headers: Mapping[str, str]) -> TargetRefused | None:
        """The server ends the connection at a message that is too large, and the library counts only the body."""
        size = len(message.body) + HEADER_OVERHEAD_BYTES + sum(len(name) + len(value) + 4 for name, value in headers.items())
        if size <= client.max_payload:
            return None
        return TargetRefused(
            f"position {message.position} has {size} bytes with its headers, {self._place} takes {client.max_payload}"
        )

    def _refusal(self, message: Message, error: Mapping[str, Any]) -> DeliveryError:
        text = f"{self._place} refused position {message.position}: {error.get('description', 'unknown reason')}"
        return TargetRefused(text) if error.get("err_code") == TOO_LARGE else DeliveryError(text)

    def _failure(self, error: BaseException) -> DeliveryError:
        if isinstance(error, nats.js.errors.NotFoundError):
            return DeliveryError(f"{self._place} does not exist; create the stream, with the subjects of the relay")
        reason = error.description if isinstance(error, nats.js.errors.APIError) and error.description else type(error).__name__
        return DeliveryError(f"{self._place} did not confirm: {reason}")

    @property
    def _place(self) -> str:
        return f"stream {self._options.text('stream')!r} of NATS at {', '.join(self._options.addresses('servers'))}"

    def _connection_arguments(self) -> dict[str, Any]:
        tls = tls_context(self._options, self._secrets)
        scheme = "tls" if tls else "nats"
        arguments: dict[str, Any] = {
            "servers": [f"{scheme}://{address}" for address in self._options.addresses("servers")],
            "name": f"headrace relay {self._relay}",
            # The relay tries again. A connection that comes back on its own would send what we no longer know of.
            "allow_reconnect": False,
            "connect_timeout": self._timeout_s,
            "error_cb": _ignore,
        }
        optional: dict[str, Any] = {
            "tls": tls,
            "user": self._secrets.get("user") or self._options.optional_text("user"),
            "password": self._secrets.get("password"),
            "token": self._secrets.get("token"),
        }
        return arguments | {name: value for name, value in optional.items() if value is not None}

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        self._tails.clear()
        if client is not None:
            await _close(client)


async def _close(client: Client) -> None:
    # Closing fails where the connection is already broken; there is nothing left to close then.
    with suppress(Exception):
        await client.close()


async def _ignore(error: Exception) -> None:
    """Every failure reaches the caller of the request that it ended; the library would log it once more."""


def _is_missing(message: Message, tail: Tail) -> bool:
    """A redriven dead letter that is not the last message. Further back nothing tells whether it is there."""
    return message.is_redriven and str(message.event_id) != tail.event_id


def _header_text(value: str) -> str:
    """A value as a line of headers carries it: with other than printable ASCII, or with spaces at its ends, in the form %XX."""
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    return quote(value)
