"""NATS JetStream: exactly once by the expected last sequence of a subject.

A partition has a subject of its own. A message says which sequence the last message of its subject must have, and the server refuses
it otherwise. So what has been stored already cannot be stored again, and a message is never stored before the one it follows, also when
two processes deliver the same events at the same time. Where the stream allows atomic batches (nats-server 2.12 and `allow_atomic`), a
batch is stored as a whole, with the condition on its first message; elsewhere each message waits for the confirmation of the one before
it. Guessing the next sequences, to save that wait, is not safe: a guess may come true by a message of another process.

The last message of the subject carries its position. It is read after every start and after every failure, so an event that is
delivered again is dropped. A last message of somebody else is an error: a subject belongs to one relay. The stream must keep its last
message (retention `limits`). `Nats-Msg-Id` is not used: its memory ends after the stream's duplicate window. A redriven dead letter is
added at the end, once unless its process ends in between."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.api import RetentionPolicy

from headrace.core import JSON
from headrace.relays.targets.broker import (
    DELIVERED_HEADER,
    EVENT_ID_HEADER,
    POSITION_HEADER,
    RELAY_HEADER,
    RELAY_UID_HEADER,
    BrokerTarget,
    HeaderEncoder,
)
from headrace.relays.targets.options import TLS_OPTIONS, Option, Options, fill_template, tls_context
from headrace.relays.targets.target import DeliveryError, Message, TargetRefused

OPTIONS: Final[Mapping[str, Option]] = {
    "servers": Option("addresses", required=True),
    "stream": Option("text", required=True),
    "subject": Option("template", default="{topic}.{partition}"),
    "user": Option("text"),
    "password": Option("secret"),
    "token": Option("secret"),
    "timeout_s": Option("seconds", default=30, at_least=0.1, at_most=40),
    **TLS_OPTIONS,
}
EXPECTED_STREAM: Final = "Nats-Expected-Stream"
BATCH_ID: Final = "Nats-Batch-Id"
BATCH_SEQUENCE: Final = "Nats-Batch-Sequence"
BATCH_COMMIT: Final = "Nats-Batch-Commit"
EXPECTED_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
WRONG_SEQUENCE: Final = (10071, 10164)
"""The server's error codes for a last sequence other than the expected one."""
TOO_LARGE: Final = 10054
BATCH_MAX: Final = 1000
"""The server's limit for an atomic batch."""
HEADER_OVERHEAD_BYTES: Final = 512
"""More than the headers that state conditions and batches take."""
HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


@dataclass(frozen=True)
class Tail:
    """The end of a subject: the sequence of its last message in the stream, and the highest position delivered so far."""

    sequence: int = 0
    position: int = -1
    event_id: str = ""
    """The event of the last message."""


class NatsTarget(BrokerTarget[Client]):
    """The subjects of one relay in one stream."""

    option_table = OPTIONS
    needs_user_with_password = True
    errors = (nats.errors.Error,)

    def __init__(self, relay: str, options: Options, secrets: Mapping[str, str]) -> None:
        super().__init__(relay, options, secrets)
        self._lost = asyncio.Event()
        """Set at the end of the connection, which the library does not tell those who wait for an answer."""
        self._is_atomic = False
        self._tails: dict[str, Tail] = {}

    @classmethod
    def check_options(cls, options: Mapping[str, JSON]) -> list[str]:
        mistakes = super().check_options(options)
        if options.get("password") is not None and options.get("token") is not None:
            mistakes.append("only one of the options password and token can be used")
        return mistakes

    def _new_client(self) -> Client:
        return Client()

    async def _start(self, client: Client) -> None:
        lost = asyncio.Event()

        async def note_end() -> None:
            lost.set()

        await client.connect(**self._connection_arguments(), disconnected_cb=note_end, closed_cb=note_end)
        info = await client.jetstream(timeout=self._timeout_s).stream_info(self._options.text("stream"))
        if info.config.retention not in (RetentionPolicy.LIMITS, None):
            raise DeliveryError(
                f"{self._destination} has the retention {info.config.retention}, which deletes the message that says what was delivered; "
                "use a stream with the retention limits"
            )
        self._lost = lost
        self._is_atomic = info.config.allow_atomic is True

    def _is_open(self, client: Client) -> bool:
        return client.is_connected

    async def _close(self, client: Client) -> None:
        await client.close()

    def _forget(self) -> None:
        self._tails.clear()

    async def _send(self, client: Client, messages: Sequence[Message], delivered: set[int]) -> None:
        subject = fill_template(self._options.text("subject"), messages[0])
        await _unless_lost(self._lost, self._store(client, subject, messages))

    async def _store(self, client: Client, subject: str, messages: Sequence[Message]) -> None:
        """Publishes what is missing in a subject."""
        tail = self._tails.get(subject) or await self._read_tail(client, subject, messages)
        missing = [message for message in messages if _is_missing(message, tail)]
        while missing:
            group, too_large = self._next_group(client, missing, tail)
            stored = await self._publish(client, subject, group, tail) if group else tail
            # None: another process of this relay was faster. What is stored decides.
            tail = self._tails[subject] = stored or await self._read_tail(client, subject, messages)
            missing = missing[len(group) :] if stored else [message for message in missing if _is_missing(message, tail)]
            if stored and too_large is not None:
                raise too_large
        self._tails[subject] = tail

    def _next_group(
        self, client: Client, messages: Sequence[Message], tail: Tail
    ) -> tuple[list[tuple[Message, dict[str, str]]], TargetRefused | None]:
        """The messages that are published next, with their headers, and the error if one after them is too large."""
        group: list[tuple[Message, dict[str, str]]] = []
        for message in messages[: BATCH_MAX if self._is_atomic else 1]:
            headers = self._headers(message, delivered=tail.position)
            # The server ends the connection at a message that is too large, and the library counts only the body.
            size = len(message.body) + HEADER_OVERHEAD_BYTES + sum(len(name) + len(value) + 4 for name, value in headers.items())
            if size > client.max_payload:
                text = f"position {message.position} has {size} bytes with its headers, {self._destination} takes {client.max_payload}"
                return group, TargetRefused(text)
            group.append((message, headers))
        return group, None

    async def _publish(
        self, client: Client, subject: str, group: Sequence[tuple[Message, dict[str, str]]], tail: Tail
    ) -> Tail | None:
        """Publishes messages as a whole; returns the new end of the subject, or none if the subject has another end than expected."""
        group[0][1][EXPECTED_SEQUENCE] = str(tail.sequence)
        last, last_headers = group[-1]
        if len(group) > 1:
            batch_id = uuid4().hex
            for number, (message, headers) in enumerate(group, start=1):
                headers.update({BATCH_ID: batch_id, BATCH_SEQUENCE: str(number)})
                if message is not last:
                    await client.publish(subject, message.body, headers=headers)
            last_headers[BATCH_COMMIT] = "1"
        reply = json.loads((await client.request(subject, last.body, timeout=self._timeout_s, headers=last_headers)).data)
        if "error" not in reply:
            return Tail(int(reply["seq"]), max(tail.position, last.position), str(last.event_id))
        if reply["error"].get("err_code") in WRONG_SEQUENCE:
            return None
        positions = f"position {last.position}" if len(group) == 1 else f"positions {group[0][0].position} to {last.position}"
        text = f"{self._destination} refused {positions}: {reply['error'].get('description', 'unknown reason')}"
        if len(group) == 1 and reply["error"].get("err_code") == TOO_LARGE:
            raise TargetRefused(text)
        raise DeliveryError(text)

    async def _read_tail(self, client: Client, subject: str, messages: Sequence[Message]) -> Tail:
        """The last message of a subject. Raises DeliveryError if it is not of this relay, or if another event has its position."""
        stream = self._options.text("stream")
        try:
            # Ask the stream's leader: a replica may not have the last message yet.
            last = await client.jetstream(timeout=self._timeout_s).get_last_msg(stream, subject)
        except nats.js.errors.NotFoundError:
            return Tail()
        headers = last.headers or {}
        position, delivered = headers.get(POSITION_HEADER, ""), headers.get(DELIVERED_HEADER, "")
        event_id = headers.get(EVENT_ID_HEADER, "")
        owner = (_header_text(self._relay), _header_text(messages[0].relay_uid))
        is_ours = (
            (headers.get(RELAY_HEADER), headers.get(RELAY_UID_HEADER)) == owner and position.isdecimal() and delivered.isdecimal()
        )
        if not is_ours or any(str(m.event_id) != event_id for m in messages if m.position == int(position)):
            raise DeliveryError(
                f"the last message of subject {subject!r} in {self._destination} (sequence {last.seq}) was not written by relay "
                f"{self._relay!r} for these events; a subject belongs to one relay: stop the other writer, or give the relay another subject"
            )
        assert last.seq is not None
        return Tail(last.seq, int(delivered), event_id)

    def _headers(self, message: Message, *, delivered: int) -> dict[str, str]:
        headers = {name: value for name, value in _HEADERS.encode(message) if HEADER_NAME.fullmatch(name)}
        headers[DELIVERED_HEADER] = str(max(delivered, message.position))
        headers[EXPECTED_STREAM] = self._options.text("stream")
        return headers

    def _failure(self, error: BaseException) -> DeliveryError:
        if isinstance(error, nats.errors.NoRespondersError):
            return DeliveryError(
                f"{self._destination} does not take the subject of a message; add it to the stream, or change the option subject"
            )
        if isinstance(error, nats.js.errors.NotFoundError):
            return DeliveryError(f"{self._destination} does not exist; create the stream, with the subjects of the relay")
        reason = error.description if isinstance(error, nats.js.errors.APIError) and error.description else type(error).__name__
        return DeliveryError(f"{self._destination} did not confirm: {reason}")

    @property
    def _destination(self) -> str:
        return f"stream {self._options.text('stream')!r} of NATS at {', '.join(self._options.texts('servers'))}"

    def _connection_arguments(self) -> dict[str, Any]:
        tls = tls_context(self._options, self._secrets)
        scheme = "tls" if tls else "nats"
        arguments: dict[str, Any] = {
            "servers": [f"{scheme}://{address}" for address in self._options.texts("servers")],
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


async def _unless_lost(lost: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Does work that waits for answers. Raises ConnectionClosedError at the end of the connection."""
    tasks = [asyncio.create_task(work), asyncio.create_task(lost.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise nats.errors.ConnectionClosedError
        await tasks[0]
    finally:
        for task in tasks:
            task.cancel()


async def _ignore(error: Exception) -> None:
    """Every failure reaches the caller of the request that it ended; the library would log it once more."""


def _is_missing(message: Message, tail: Tail) -> bool:
    """True for a message above the highest delivered position, and for a redriven dead letter that is not the last message: further
    back nothing tells whether it is there."""
    return message.position > tail.position or (message.is_redriven and str(message.event_id) != tail.event_id)


def _header_text(value: str) -> str:
    """A value as a line of headers carries it: with other than printable ASCII, or with spaces at its ends, in the form %XX."""
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    return quote(value)


_HEADERS: Final = HeaderEncoder(lambda name, value: (name, _header_text(value)), reserved=("nats-", "status", "description"))
