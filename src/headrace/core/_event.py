"""Events: what an application publishes, and what stands in the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from uuid_utils.compat import uuid7

from headrace.core._errors import BadHeaders, BadKey, BadText, BadType, HeadraceError, PayloadTooLarge
from headrace.core._json import JSON, RawJSON, encode
from headrace.core._limits import HEADERS_BYTES_MAX, KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, TYPE_CHARS_MAX

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


class Envelope(msgspec.Struct, frozen=True):
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
    if len(event.type) > TYPE_CHARS_MAX or not _type_rule.fullmatch(event.type):
        raise BadType(
            f"event type {event.type[:TYPE_CHARS_MAX]!r} is not a name; "
            f"use 1 to {TYPE_CHARS_MAX} letters, digits and _ . : / - and start with a letter or _"
        )
    if event.key is not None:
        _check_key(event.key)
    if event.emitted_at is not None and event.emitted_at.tzinfo is None:
        raise HeadraceError(f"emitted_at {event.emitted_at} has no time zone; use an aware datetime")
    payload = encode(event.payload)
    # The text is ASCII or not; only when it is near the limit does the exact number of bytes matter.
    if len(payload) * 4 > PAYLOAD_BYTES_MAX and len(payload.encode()) > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(
            f"payload has {len(payload.encode())} bytes, at most {PAYLOAD_BYTES_MAX} are allowed; "
            "store the large part elsewhere and publish a reference to it"
        )
    headers = _encode_headers(event.headers) if event.headers else "{}"
    return Envelope(event.topic, event.type, payload, event.key, headers, event.id, event.emitted_at, event.producer)


def _check_key(key: str) -> None:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise BadText("key has half a surrogate pair; repair the text first") from None
    if not 1 <= size <= KEY_BYTES_MAX:
        raise BadKey(f"key has {size} bytes, 1 to {KEY_BYTES_MAX} are allowed; leave it out, or hash a long key")
    if "\0" in key:
        raise BadText("key has a NUL character, which PostgreSQL cannot store; remove it")


def _encode_headers(headers: Mapping[str, JSON]) -> str:
    text = encode(headers)
    if not text.startswith("{") or len(text.encode()) > HEADERS_BYTES_MAX:
        raise BadHeaders(f"headers must be a JSON object of at most {HEADERS_BYTES_MAX} bytes; put data into the payload")
    return text
