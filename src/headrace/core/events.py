"""Events: what an application publishes, and what stands in the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final
from uuid import UUID

import msgspec
from uuid_utils.compat import uuid7

from headrace.core.errors import BadHeaders, BadKey, BadText, BadTime, BadType, Invalid, PayloadTooLarge, UnknownTopic
from headrace.core.json_text import JSON, RawJSON, encode, fits, printed_bytes
from headrace.core.limits import (
    EMITTED_AT_MAX,
    EMITTED_AT_MIN,
    HEADERS_BYTES_MAX,
    KEY_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PRODUCER_BYTES_MAX,
    TYPE_CHARS_MAX,
)

_type_rule: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]*")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event to publish. Its id is also the idempotency key: the same id twice in a topic is one event."""

    topic: str
    type: str
    payload: JSON | RawJSON = None
    key: str | None = None
    headers: Mapping[str, JSON] = {}
    id: UUID = msgspec.field(default_factory=uuid7)
    emitted_at: datetime | None = None
    producer: str | None = None


class LoggedEvent(msgspec.Struct, frozen=True):
    """An event at its position in a topic's log."""

    position: int
    partition: int
    id: UUID
    topic: str
    type: str
    key: str | None
    payload: JSON
    headers: Mapping[str, JSON]
    emitted_at: datetime
    appended_at: datetime
    producer: str | None


# It holds texts only, so the collector of cycles need not look at it: a large batch is sealed in half the time.
class Envelope(msgspec.Struct, frozen=True, gc=False):
    """A checked event in the form in which it is written to the outbox."""

    topic: str
    type: str
    payload: str
    key: str | None
    headers: str
    id: UUID
    emitted_at: datetime | None
    producer: str | None


def seal(event: Event) -> Envelope:
    """Checks an event against every rule and limit, before anything is written."""
    _check_names(event.topic, event.type, event.producer)
    if event.key is not None:
        _check_key(event.key)
    if not isinstance(event.id, UUID):
        raise Invalid(f"event id {event.id!r} is not a UUID; give a uuid.UUID, or leave it out")
    if event.emitted_at is not None:
        _check_time(event.emitted_at)
    payload = encode(event.payload)
    if not fits(payload, PAYLOAD_BYTES_MAX):
        raise PayloadTooLarge(
            f"payload has {printed_bytes(payload)} bytes, at most {PAYLOAD_BYTES_MAX} are allowed; "
            "store the large part elsewhere and publish a reference to it"
        )
    headers = _encode_headers(event.headers) if event.headers else "{}"
    return Envelope(event.topic, event.type, payload, event.key, headers, event.id, event.emitted_at, event.producer)


# Most events share their names with the one before.
@lru_cache(maxsize=1024)
def _check_names(topic: str, type: str, producer: str | None) -> None:
    if not isinstance(type, str) or len(type) > TYPE_CHARS_MAX or not _type_rule.fullmatch(type):
        raise BadType(
            f"event type {str(type)[:TYPE_CHARS_MAX]!r} is not a name; "
            f"use 1 to {TYPE_CHARS_MAX} letters, digits and _ . : / - and start with a letter or _"
        )
    if not isinstance(topic, str) or not topic.isprintable():
        raise UnknownTopic(f"there is no topic {topic!r}; a topic's name has small letters, digits and _ . -")
    if producer is not None and _text_bytes("producer", producer) > PRODUCER_BYTES_MAX:
        raise Invalid(
            f"producer has {_text_bytes('producer', producer)} bytes, at most {PRODUCER_BYTES_MAX} are allowed; shorten the name"
        )


def _check_key(key: str) -> None:
    size = _text_bytes("key", key)
    if not 1 <= size <= KEY_BYTES_MAX:
        raise BadKey(f"key has {size} bytes, 1 to {KEY_BYTES_MAX} are allowed; leave it out, or hash a long key")


def _check_time(at: datetime) -> None:
    if at.tzinfo is None:
        raise Invalid(f"emitted_at {at} has no time zone; use an aware datetime")
    if not EMITTED_AT_MIN <= at <= EMITTED_AT_MAX:
        raise BadTime(f"emitted_at is {at}, 0001-01-02 to 9999-12-30 are allowed; leave it out for the time of now")


def _text_bytes(what: str, text: str) -> int:
    if not isinstance(text, str):
        raise BadKey(f"{what} is {type(text).__name__}, not text; use str({what})")
    if "\0" in text:
        raise BadText(f"{what} has a NUL character, which PostgreSQL cannot store; remove it")
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise BadText(f"{what} has half a surrogate pair; repair the text first") from None


def _encode_headers(headers: Mapping[str, JSON]) -> str:
    try:
        text = encode(headers)
    except BadText:
        raise
    except Invalid as error:
        raise BadHeaders(f"headers: {error}") from None
    if not text.startswith("{") or not fits(text, HEADERS_BYTES_MAX):
        raise BadHeaders(f"headers must be a JSON object of at most {HEADERS_BYTES_MAX} bytes; put data into the payload")
    return text
