"""Event requests: from headers, URL and body to events, and on to the outbox; webhooks of other systems, too.

Owns the forms of a POST: CloudEvents structured, binary and batch, and plain JSON, whose type, key and id are parameters of the URL
(?type=…&key=…&id=…) or headers (Event-Type, Event-Key, Event-Id; Event-Header-<name> for headers of the event).

Promises: the events of a request are published in one transaction, together with its idempotency key, and the answer comes after the
commit. A repeated key with the same content gives the ids of the first request and publishes nothing, also if the first answer was lost
between commit and client; with other content it is an error.

Nothing is read of a webhook's content before its signature is checked; the same delivery twice is one event, where the mapping names its
id; no answer shows a secret."""

from __future__ import annotations

import logging
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote
from uuid import UUID

import msgspec
from psycopg.rows import class_row

from headrace.core import (
    JSON,
    Event,
    Invalid,
    InvalidPayload,
    PackageMissing,
    RawJSON,
    TokenBuckets,
    derive_event_id,
    from_cloudevent,
    map_database_errors,
    read_secret,
    validate_event,
)
from headrace.db import AsyncConnection
from headrace.log.outbox import json_array, publish_async, publish_many_async
from headrace.web.http.authentication import TokenRights
from headrace.web.http.databases import NOBODY, Database, LookupCache
from headrace.web.http.hooks import Hook
from headrace.web.http.request import Headers, Problem, unavailable
from headrace.web.http.schemes import SCHEMES, EventMapping, SignatureScheme, Webhook, parse_mapping

logger = logging.getLogger(__name__)

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
        try:
            attributes["data"] = body.decode()
        except UnicodeDecodeError as error:
            raise InvalidPayload(f"the body is not UTF-8 at byte {error.start}; correct the text") from None
    elif body:
        attributes["data_base64"] = b64encode(body).decode()
    if content_type and content_type != "application/json":
        attributes["datacontenttype"] = content_type
    return from_cloudevent(cast(Mapping[str, JSON], attributes), topic=topic)


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
    if id is None:
        return event, False
    try:
        return msgspec.structs.replace(event, id=UUID(id)), True
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


async def publish_request(
    database: Database, token: TokenRights, topic: str, request: EventRequest
) -> tuple[Sequence[UUID], bool]:
    """Publishes the events of a request and commits; returns their ids, and whether an earlier request has published them."""
    if request.idempotency_key is None:
        async with database.connection(token.namespace) as conn:
            return await publish_events(conn, request.events, token.namespace), False
    digest = request.digest(topic)
    # Keys of two tokens have nothing to do with each other. With the digest, because otherwise the holder of another token could take the
    # ids of a request beforehand, which would then count as a repetition.
    scope = f"idempotency-key {token.namespace} {token.token_id} {token.digest.hex()}"
    events = request.events_under_key(scope, digest)
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
    return ([event.id for event in events], False) if first_ids is None else (first_ids, True)


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


@dataclass(frozen=True)
class ServedHook(Hook):
    """A hook as servers read it."""

    id_key: UUID = field(repr=False)
    """Random; the ids of its events are derived from it."""


@dataclass(frozen=True)
class ReadyHook:
    hook: ServedHook
    scheme: SignatureScheme
    mapping: EventMapping
    secrets: tuple[str, ...] = field(repr=False)


class Hooks:
    """Knows the hooks of recent requests."""

    def __init__(self, keep_s: float, unknown: TokenBuckets) -> None:
        self._hooks: LookupCache[ReadyHook] = LookupCache(keep_s, unknown)

    async def find(self, database: Database, namespace: str, name: str, *, address: str) -> ReadyHook:
        """Raises Problem: 404 if there is no such hook, 429 if the address asked for too many such, 503 if none of its secrets is there."""

        async def look_up() -> ReadyHook | None:
            hook = await _find_hook(database, namespace, name)
            if hook is None:
                return None
            try:
                scheme, mapping = SCHEMES.load(hook.scheme), parse_mapping(hook.scheme, hook.mapping)
            except PackageMissing as error:
                # The message names packages of the server, which are nothing to whoever sent the request.
                logger.error("hook %s/%s: %s", hook.namespace, hook.hook, error)
                reason = "the server cannot check the signatures of this hook; its log names what is missing"
                raise unavailable(reason) from None
            return ReadyHook(hook, scheme, mapping, _read_secrets(hook))

        ready = await self._hooks.get((database.target.name, namespace, name), look_up, address=address)
        if ready is None or not ready.hook.active:
            raise Problem(404, "there is no such hook, or it is switched off; see: headrace hook list", error="UnknownHook")
        if not ready.secrets:
            raise unavailable("the server has no secret for this hook; its log names what is missing")
        return ready


async def _find_hook(database: Database, namespace: str, name: str) -> ServedHook | None:
    async with database.connection(NOBODY) as conn:
        with map_database_errors():
            cursor = await conn.cursor(row_factory=class_row(ServedHook)).execute(
                """select h.hook_id, h.namespace, h.hook, h.topic, h.scheme, h.secrets, h.mapping, h.window_s, h.active, h.created_at,
                       h.created_by, h.id_key
                   from headrace.find_hook(%s, %s) h""",
                (namespace, name),
            )
            return await cursor.fetchone()


def _read_secrets(hook: Hook) -> tuple[str, ...]:
    """The secrets that are there. While one replaces another, one of them may be missing on a server."""
    secrets = []
    for reference in hook.secrets:
        try:
            secrets.append(read_secret(reference, hook.namespace, os.environ))
        except Invalid as error:
            logger.warning("hook %s/%s: %s", hook.namespace, hook.hook, error)
    return tuple(secrets)


def verify_and_map(ready: ReadyHook, headers: Headers, query: dict[str, str], body: bytes) -> Event:
    """The event of a webhook. Raises Problem, or an error of the event itself."""
    hook = ready.hook
    ready.scheme.verify(ready.secrets, headers.get, body, window_s=hook.window_s)
    webhook = Webhook(hook.hook, headers.get, query.get, _json_body(headers, body))
    type, key, id, payload = ready.mapping.apply(webhook)
    event_headers = {name: value for name in _TRACE if (value := headers.text(name))}
    source = f"/hooks/{hook.namespace}/{hook.hook}"
    if id is not None:
        event_headers["webhook_id"] = id
    event = Event(topic=hook.topic, type=type, payload=payload, key=key, headers=event_headers, producer=source)
    # Derived from a random key of the hook, too: no other sender and no holder of a token can take the id of a webhook's event beforehand,
    # which would then count as a repetition.
    return event if id is None else msgspec.structs.replace(event, id=derive_event_id(f"{source} {hook.id_key}", id))


def _json_body(headers: Headers, body: bytes) -> bytes:
    """The JSON of a request. GitHub may also send it as the field `payload` of a form."""
    content_type = (headers.get("content-type") or "").lower().partition(";")[0].strip()
    if content_type == "application/x-www-form-urlencoded":
        try:
            (payload,) = parse_qs(body.decode("ascii"), max_num_fields=10)["payload"]
        except (ValueError, KeyError):
            raise InvalidPayload("the form has no field `payload` with JSON; let the sender send application/json") from None
        return payload.encode()
    if content_type and content_type != "application/json" and not content_type.endswith("+json"):
        raise Problem(415, f"the content type {content_type!r} is not supported; send JSON", error="UnsupportedMediaType")
    if not body.strip():
        raise InvalidPayload("the body is empty; a webhook has JSON")
    return body
