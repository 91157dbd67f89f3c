"""Event requests: from headers, URL and body to events, and on to the outbox.

Owns the forms of a POST: CloudEvents structured, binary and batch, and plain JSON, whose type, key and id are parameters of the URL
(?type=…&key=…&id=…) or headers (Event-Type, Event-Key, Event-Id; Event-Header-<name> for headers of the event).

Promises: the events of a request are published in one transaction, together with its idempotency key, and the answer comes after the
commit. A repeated key with the same content gives the ids of the first request and publishes nothing, also if the first answer was lost
between commit and client; with other content it is an error."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, cast
from urllib.parse import unquote
from uuid import UUID

import msgspec

from headrace.core import (
    JSON,
    Event,
    InvalidPayload,
    RawJSON,
    derive_event_id,
    from_cloudevent,
    map_database_errors,
    validate_event,
)
from headrace.db import AsyncConnection
from headrace.log.outbox import json_array, publish_async, publish_many_async
from headrace.web.http.authentication import TokenRights
from headrace.web.http.databases import Database
from headrace.web.http.problems import Problem
from headrace.web.http.request import Headers

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
KEY_CHARS_MAX: Final = 255
_PARAMETERS: Final = frozenset({"type", "key", "id", "shard"})
_TRACE: Final = ("traceparent", "tracestate")


@dataclass(frozen=True)
class EventRequest:
    """What a POST asks for."""

    events: Sequence[Event]
    has_ids: bool
    """Did the client choose the ids?"""
    idempotency_key: str | None

    def digest(self, topic: str) -> bytes:
        """What the request means: two with the same digest ask for the same. The trace context and ids of ours are left out."""
        parts = [
            (
                event.type,
                event.payload,
                event.key,
                {name: value for name, value in event.headers.items() if name not in _TRACE},
                event.emitted_at,
                event.producer,
                event.id if self.has_ids else None,
            )
            for event in self.events
        ]
        return sha256(msgspec.json.encode((topic, parts))).digest()

    def events_under_key(self, scope: str, digest: bytes) -> Sequence[Event]:
        """The events with ids that follow from the idempotency key, unless the client chose them."""
        if self.has_ids or self.idempotency_key is None:
            return self.events
        source = f"{scope}\n{self.idempotency_key}"
        return [
            msgspec.structs.replace(event, id=derive_event_id(source, f"{number} {digest.hex()}"))
            for number, event in enumerate(self.events)
        ]


def parse_request(
    topic: str, headers: Headers, query: Mapping[str, str], body: bytes, *, batch_max: int, producer: str
) -> EventRequest:
    """Raises Problem, or an error of the events themselves. `producer` is that of plain events."""
    content_type, charset = _content_type(headers.get("content-type"))
    if charset not in ("", "utf-8", "us-ascii"):
        raise Problem(415, f"the charset {charset!r} is not supported; send UTF-8", error="UnsupportedMediaType")
    has_ids = True
    if content_type == STRUCTURED:
        events = [from_cloudevent(body, topic=topic)]
    elif content_type == BATCH:
        events = _parse_batch(topic, body, batch_max)
    elif headers.get("ce-specversion") is not None:
        events = [_parse_binary(topic, headers, content_type, body)]
    elif _is_json(content_type):
        event, has_ids = _parse_plain(topic, headers, query, body, producer)
        events = [event]
    else:
        state = f"{content_type!r} is not supported" if content_type else "is missing"
        raise Problem(
            415, f"the content type {state}; send application/json, {STRUCTURED} or {BATCH}", error="UnsupportedMediaType"
        )
    return EventRequest(_with_trace(events, headers), has_ids, _idempotency_key(headers))


def _content_type(value: str | None) -> tuple[str, str]:
    """The media type and its charset, in lower case."""
    media_type, *parameters = (value or "").lower().split(";")
    pairs = (parameter.strip().partition("=") for parameter in parameters)
    charset = next((text.strip("\"' ") for name, _, text in pairs if name == "charset"), "")
    return media_type.strip(), charset


def _is_json(content_type: str) -> bool:
    return content_type == "application/json" or (content_type.startswith("application/") and content_type.endswith("+json"))


def _parse_batch(topic: str, body: bytes, batch_max: int) -> list[Event]:
    try:
        items = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidPayload(f"the batch is not a JSON array: {error}; send an array of CloudEvents") from None
    if not items:
        raise Problem(422, "the batch has no events; send at least one", error="Invalid")
    if len(items) > batch_max:
        raise Problem(
            413, f"the batch has {len(items)} events, at most {batch_max} are allowed; send smaller ones", error="BatchTooLarge"
        )
    return [from_cloudevent(bytes(item), topic=topic) for item in items]


def _parse_binary(topic: str, headers: Headers, content_type: str, body: bytes) -> Event:
    attributes: dict[str, Any] = {}
    for name in headers.names_with("ce-"):
        # The binding of CloudEvents to HTTP percent-encodes what is not printable ASCII.
        attributes[name] = unquote(headers.text(f"ce-{name}") or "", errors="strict")
    if body and _is_json(content_type or "application/json"):
        attributes["data"] = msgspec.Raw(body)
    elif body and content_type.startswith("text/"):
        attributes["data"] = _decode_text(body)
    elif body:
        attributes["data_base64"] = b64encode(body).decode()
    if content_type and content_type != "application/json":
        attributes["datacontenttype"] = content_type
    return from_cloudevent(cast(Mapping[str, JSON], attributes), topic=topic)


def _decode_text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidPayload(f"the body is not UTF-8 at byte {error.start}; correct the text") from None


def _parse_plain(topic: str, headers: Headers, query: Mapping[str, str], body: bytes, producer: str) -> tuple[Event, bool]:
    if unknown := sorted(set(query) - _PARAMETERS):
        raise Problem(400, f"there is no parameter {unknown[0]!r}; use type, key, id and shard", error="InvalidParameter")
    type = query.get("type") or headers.text("event-type")
    if not type:
        raise Problem(422, "the event has no type; add ?type=… to the URL, or the header Event-Type", error="InvalidEventType")
    id = query.get("id") or headers.text("event-id")
    own_headers: dict[str, JSON] = {name: headers.text(f"event-header-{name}") for name in headers.names_with("event-header-")}
    payload: RawJSON | None = msgspec.Raw(body) if body.strip() else None
    if payload is None:
        raise InvalidPayload("the body is empty; send JSON, at least null")
    key = query.get("key") or headers.text("event-key")
    event = Event(topic=topic, type=type, payload=payload, key=key, headers=own_headers, producer=producer)
    return (event, False) if id is None else (msgspec.structs.replace(event, id=_uuid(id)), True)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Problem(422, "the event id is not a UUID; send one, or an Idempotency-Key with any text", error="Invalid") from None


def _with_trace(events: Sequence[Event], headers: Headers) -> Sequence[Event]:
    """The events with the trace context of the request, where they have none of their own."""
    trace: dict[str, JSON] = {name: value for name in _TRACE if (value := headers.text(name))}
    if "traceparent" not in trace:
        return events
    return [
        event if "traceparent" in event.headers else msgspec.structs.replace(event, headers={**event.headers, **trace})
        for event in events
    ]


def _idempotency_key(headers: Headers) -> str | None:
    key = headers.text("idempotency-key")
    if key is None:
        return None
    # The draft of the standard sends it in quotes, most clients without.
    key = key.strip().removeprefix('"').removesuffix('"')
    if not 1 <= len(key) <= KEY_CHARS_MAX:
        raise Problem(
            400, f"the Idempotency-Key has {len(key)} characters, 1 to {KEY_CHARS_MAX} are allowed", error="InvalidIdempotencyKey"
        )
    return key


@dataclass(frozen=True)
class Publication:
    """The ids of the events, and whether an earlier request has published them."""

    ids: Sequence[UUID]
    is_replayed: bool = False


async def publish_request(database: Database, token: TokenRights, topic: str, request: EventRequest) -> Publication:
    """Publishes the events of a request and commits."""
    if request.idempotency_key is None:
        async with database.connection(token.namespace) as conn:
            return Publication(await publish_events(conn, request.events, token.namespace))
    digest = request.digest(topic)
    events = request.events_under_key(key_scope(token), digest)
    # One statement, which is a transaction of its own.
    parameters = (
        token.token_id,
        sha256(request.idempotency_key.encode()).digest(),
        digest,
        json_array([validate_event(event) for event in events]),
    )
    async with database.connection(token.namespace) as conn:
        with map_database_errors():
            row = await (await conn.execute("select headrace.publish_once(%s, %s, %s, %s::text::jsonb)", parameters)).fetchone()
    first_ids = row and row[0]
    return Publication([event.id for event in events]) if first_ids is None else Publication(first_ids, is_replayed=True)


def key_scope(token: TokenRights) -> str:
    """Keys of two tokens have nothing to do with each other. With the digest, because otherwise the holder of another token could take
    the ids of a request beforehand, which would then count as a repetition."""
    return f"idempotency-key {token.namespace} {token.token_id} {token.digest.hex()}"


async def publish_events(conn: AsyncConnection, events: Sequence[Event], namespace: str) -> list[UUID]:
    """One event by the shortest way, several as a batch."""
    if len(events) > 1:
        return await publish_many_async(conn, events, namespace=namespace)
    (event,) = events
    id = await publish_async(
        conn,
        event.topic,
        event.type,
        event.payload,
        key=event.key,
        headers=event.headers,
        id=event.id,
        emitted_at=event.emitted_at,
        producer=event.producer,
        namespace=namespace,
    )
    return [id]
