"""Events: as an application publishes them, as the outbox takes them, and as the log holds them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, LiteralString, NamedTuple
from uuid import UUID

import msgspec
from uuid_utils.compat import uuid7

from headrace.core.errors import (
    Invalid,
    InvalidEventType,
    InvalidHeaders,
    InvalidKey,
    InvalidText,
    InvalidTime,
    PayloadTooLarge,
    UnknownTopic,
)
from headrace.core.json_forms import Payload
from headrace.core.json_text import JSON, encode, fits_in_jsonb, jsonb_text_bytes

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    PayloadType = TypeVar("PayloadType", default=JSON)
    StoredPayload = TypeVar("StoredPayload", default=str)
    StoredHeaders = TypeVar("StoredHeaders", default=str)
else:
    from typing import TypeVar

    PayloadType = TypeVar("PayloadType")
    StoredPayload = TypeVar("StoredPayload")
    StoredHeaders = TypeVar("StoredHeaders")

# SQL enforces the same limits (core/sql/functions/limits.sql), and a test compares them.
PAYLOAD_BYTES_MAX: Final = 1_048_576
"""Bytes of the payload as PostgreSQL prints it. Larger data belongs in a store, with a reference in the event."""

HEADERS_BYTES_MAX: Final = 16_384
KEY_BYTES_MAX: Final = 1024
PRODUCER_BYTES_MAX: Final = 1024
TYPE_CHARS_MAX: Final = 200
EMITTED_AT_MIN: Final = datetime(1, 1, 2, tzinfo=UTC)
EMITTED_AT_MAX: Final = datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)
"""The range of Python's datetime, less a day at both ends, so that a time fits in every time zone."""

ERASED_HEADER: Final = "headrace-erased"
"""Marks an event of which only position, ids, type and times are left; its value is the id of the erasure."""
_type_pattern: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]*( [A-Za-z0-9_.:/-]+)*")


class EventColumn(NamedTuple):
    """A column of an event in PostgreSQL, with its type there."""

    name: LiteralString
    type: Literal["bigint", "integer", "uuid", "text", "jsonb", "timestamptz"]
    nullable: bool = False


EVENT_COLUMNS: Final = (
    EventColumn("position", "bigint"),
    EventColumn("partition", "integer"),
    EventColumn("event_id", "uuid"),
    EventColumn("topic", "text"),
    EventColumn("type", "text"),
    EventColumn("key", "text", nullable=True),
    EventColumn("payload", "jsonb"),
    EventColumn("headers", "jsonb"),
    EventColumn("emitted_at", "timestamptz"),
    EventColumn("appended_at", "timestamptz"),
    EventColumn("producer", "text", nullable=True),
)
"""The columns of an event that this version knows, in the order of the fields of LoggedEvent: headrace.logged_event in SQL. Statements,
files and frames derive theirs from it."""
STORED_COLUMNS: Final = tuple(column for column in EVENT_COLUMNS if column.name != "topic")
"""The columns that a topic's log and archive have: there the topic is the same for every event."""


def select_events(alias: LiteralString, *, stored: bool = False, as_text: bool = False) -> LiteralString:
    """The select list of an event's columns, read from `alias`: all of them, or those `stored` in a log; JSON `as_text` keeps every
    digit. Statements name the columns, because a newer database may have one more."""
    parts: list[LiteralString] = []
    for name, type, _ in STORED_COLUMNS if stored else EVENT_COLUMNS:
        is_text = as_text and type == "jsonb"
        parts.append(alias + "." + name + ("::pg_catalog.text as " + name if is_text else ""))
    return ", ".join(parts)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event to publish. Its id is also the idempotency key: the same id twice in a topic is one event."""

    topic: str
    type: str
    payload: Payload = None
    key: str | None = None
    headers: Mapping[str, JSON] = {}
    id: UUID = msgspec.field(default_factory=uuid7)
    emitted_at: datetime | None = None
    producer: str | None = None


class LoggedEvent(msgspec.Struct, Generic[PayloadType], frozen=True):
    """An event at its position in a topic's log. A handler that asks for `LoggedEvent[Order]` gets the payload as an `Order`."""

    position: int
    partition: int
    id: UUID
    topic: str
    type: str
    key: str | None
    payload: PayloadType
    headers: Mapping[str, JSON]
    emitted_at: datetime
    appended_at: datetime
    producer: str | None


@dataclass(frozen=True)
class StoredEvent(Generic[StoredPayload, StoredHeaders]):
    """An event in the log or the archive of a topic: the fields are STORED_COLUMNS. Payload and headers are JSON text, exactly as stored;
    a class that is made of this one may have them in another form."""

    position: int
    partition: int
    event_id: UUID
    type: str
    key: str | None
    payload: StoredPayload
    headers: StoredHeaders
    emitted_at: datetime
    appended_at: datetime
    producer: str | None

    def values(self) -> dict[str, Any]:
        """The values of STORED_COLUMNS by their names."""
        return {column.name: getattr(self, column.name) for column in STORED_COLUMNS}

    def to_logged(self, topic: str, payload: PayloadType, headers: Mapping[str, JSON]) -> LoggedEvent[PayloadType]:
        """The event of a topic, with its JSON decoded."""
        values = self.values() | {"topic": topic, "payload": payload, "headers": headers}
        return LoggedEvent(*(values[column.name] for column in EVENT_COLUMNS))


# gc=False: it holds no cycles, and without the collector a large batch is validated in half the time.
class ValidatedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that passed every check, as the outbox stores it: payload and headers are JSON text."""

    topic: str
    type: str
    payload: str
    key: str | None
    headers: str
    id: UUID
    emitted_at: datetime | None
    producer: str | None
    schemas_digest: str | None = None
    """By which schemas of its namespace the payload was checked, if it was."""


def derive_event_id(source: str, id: str) -> UUID:
    """The event id for an id that means something to its source only: the same two texts always give the same id."""
    # Version 8, not 5: SQL must derive the same id, and PostgreSQL has SHA-256 but no SHA-1.
    digest = bytearray(sha256(f"{source}\n{id}".encode()).digest()[:16])
    digest[6] = digest[6] & 15 | 128
    digest[8] = digest[8] & 63 | 128
    return UUID(bytes=bytes(digest))


def validate_event(event: Event) -> ValidatedEvent:
    """Checks an event against every rule and limit, before anything is written. Raises Invalid or UnknownTopic."""
    if not isinstance(event, Event):
        raise Invalid(f"publish_many takes events, not {type(event).__name__}; write Event(topic=…, type=…, payload=…)")
    return validate_fields(
        event.topic, event.type, event.payload, event.key, event.headers, event.id, event.emitted_at, event.producer
    )


def validate_fields(
    topic: str,
    type: str,
    payload: Payload,
    key: str | None,
    headers: Mapping[str, JSON] | None,
    id: UUID,
    emitted_at: datetime | None,
    producer: str | None,
) -> ValidatedEvent:
    """As `validate_event`, of an event in its parts: publish() passes here for every event, and an Event would be made for nothing."""
    _check_names(topic, type, producer)
    if key is not None:
        _check_key(key)
    if not isinstance(id, UUID):
        raise Invalid(f"event id {id!r} is not a UUID; pass a uuid.UUID, or leave it out")
    if emitted_at is not None:
        _check_time(emitted_at)
    text = encode(payload)
    if not fits_in_jsonb(text, PAYLOAD_BYTES_MAX):
        raise PayloadTooLarge(
            f"payload has {jsonb_text_bytes(text)} bytes, at most {PAYLOAD_BYTES_MAX} are allowed; "
            "store the large part elsewhere and publish a reference to it"
        )
    return ValidatedEvent(topic, type, text, key, _encode_headers(headers) if headers else "{}", id, emitted_at, producer)


# Cached: most events have the names of the event before.
@lru_cache(maxsize=1024)
def _check_names(topic: str, type: str, producer: str | None) -> None:
    if not isinstance(type, str) or len(type) > TYPE_CHARS_MAX or not _type_pattern.fullmatch(type):
        raise InvalidEventType(
            f"event type {str(type)[:TYPE_CHARS_MAX]!r} is not a name; "
            f"use 1 to {TYPE_CHARS_MAX} letters, digits, single spaces and _ . : / - and start with a letter or _"
        )
    if not isinstance(topic, str) or not topic.isprintable():
        raise UnknownTopic(f"there is no topic {topic!r}; a topic name has lower-case letters, digits and _ . -")
    if producer is not None and _text_bytes("producer", producer) > PRODUCER_BYTES_MAX:
        raise Invalid(
            f"producer has {_text_bytes('producer', producer)} bytes, at most {PRODUCER_BYTES_MAX} are allowed; shorten the name"
        )


def _check_key(key: str) -> None:
    size = _text_bytes("key", key)
    if not 1 <= size <= KEY_BYTES_MAX:
        raise InvalidKey(f"key has {size} bytes, 1 to {KEY_BYTES_MAX} are allowed; leave it out, or hash a long key")


def _check_time(at: datetime) -> None:
    if at.tzinfo is None:
        raise Invalid(f"emitted_at {at} has no time zone; use an aware datetime")
    if not EMITTED_AT_MIN <= at <= EMITTED_AT_MAX:
        raise InvalidTime(f"emitted_at is {at}, 0001-01-02 to 9999-12-30 are allowed; leave it out to use the current time")


def _text_bytes(field: str, text: str) -> int:
    if not isinstance(text, str):
        raise InvalidKey(f"{field} is {type(text).__name__}, not text; use str({field})")
    if "\0" in text:
        raise InvalidText(f"{field} has a NUL character, which PostgreSQL cannot store; remove it")
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidText(f"{field} has half a surrogate pair; correct the text") from None


def _encode_headers(headers: Mapping[str, JSON]) -> str:
    try:
        text = encode(headers, "headers")
    except InvalidText:
        raise
    except Invalid as error:
        raise InvalidHeaders(str(error)) from None
    if not text.startswith("{") or not fits_in_jsonb(text, HEADERS_BYTES_MAX):
        raise InvalidHeaders(f"headers must be a JSON object of at most {HEADERS_BYTES_MAX} bytes; put data into the payload")
    return text
