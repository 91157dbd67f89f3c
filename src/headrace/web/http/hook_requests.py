"""Hook requests: a webhook of another system becomes an event, if its signature is valid.

Promises: nothing is read of a request's content before its signature is checked; the same delivery twice is one event, where the mapping
names its id; no answer shows a secret."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from urllib.parse import parse_qs
from uuid import UUID

import msgspec
from psycopg.rows import class_row

from headrace.core import (
    Event,
    Invalid,
    InvalidPayload,
    PackageMissing,
    TokenBuckets,
    derive_event_id,
    map_database_errors,
    read_secret,
)
from headrace.web.http.databases import NOBODY, Database, LookupCache
from headrace.web.http.hooks import Hook
from headrace.web.http.mapping import Mapping, Webhook, parse_mapping
from headrace.web.http.problems import Problem, unavailable
from headrace.web.http.request import Headers
from headrace.web.http.signatures import SCHEMES, SignatureScheme

logger = logging.getLogger(__name__)

_TRACE = ("traceparent", "tracestate")


@dataclass(frozen=True)
class ServedHook(Hook):
    """A hook as servers read it."""

    id_key: UUID = field(repr=False)
    """Random; the ids of its events are derived from it."""


@dataclass(frozen=True)
class ReadyHook:
    """A hook with its scheme, its mapping and its secrets."""

    hook: ServedHook
    scheme: SignatureScheme
    mapping: Mapping
    secrets: tuple[str, ...] = field(repr=False)


class Hooks:
    """Knows the hooks of recent requests."""

    def __init__(self, keep_s: float, unknown: TokenBuckets) -> None:
        self._hooks: LookupCache[ReadyHook] = LookupCache(keep_s, unknown)

    async def find(self, database: Database, namespace: str, name: str, *, address: str) -> ReadyHook:
        """Raises Problem: 404 if there is no such hook, 429 if the address asked for too many such, 503 if none of its secrets is there."""

        async def look_up() -> ReadyHook | None:
            hook = await _find_hook(database, namespace, name)
            return None if hook is None else _ready_hook(hook)

        ready = await self._hooks.get((database.target.name, namespace, name), look_up, address=address)
        if ready is None or not ready.hook.active:
            raise Problem(404, "there is no such hook, or it is switched off; see: headrace hook list", error="UnknownHook")
        if not ready.secrets:
            raise unavailable("the server has no secret for this hook; its log names what is missing")
        return ready


def _ready_hook(hook: ServedHook) -> ReadyHook:
    try:
        scheme, mapping = SCHEMES.load(hook.scheme), parse_mapping(hook.scheme, hook.mapping)
    except PackageMissing as error:
        # The message names packages of the server, which are nothing to whoever sent the request.
        logger.error("hook %s/%s: %s", hook.namespace, hook.hook, error)
        raise unavailable("the server cannot check the signatures of this hook; its log names what is missing") from None
    return ReadyHook(hook, scheme, mapping, _read_secrets(hook))


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
    mapped = ready.mapping.apply(webhook)
    event_headers = {name: value for name in _TRACE if (value := headers.text(name))}
    source = f"/hooks/{hook.namespace}/{hook.hook}"
    if mapped.id is not None:
        event_headers["webhook_id"] = mapped.id
    event = Event(
        topic=hook.topic, type=mapped.type, payload=mapped.payload, key=mapped.key, headers=event_headers, producer=source
    )
    # Derived from a random key of the hook, too: no other sender and no holder of a token can take the id of a webhook's event beforehand,
    # which would then count as a repetition.
    return (
        event if mapped.id is None else msgspec.structs.replace(event, id=derive_event_id(f"{source} {hook.id_key}", mapped.id))
    )


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
