"""Publishing: the events of one request in one transaction, together with its idempotency key.

Promises: the answer comes after the commit; a repeated key with the same content gives the ids of the first request and publishes
nothing, also if the first answer was lost between commit and client; with other content it is an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from headrace.core import Event, map_database_errors, validate_event
from headrace.db import AsyncConnection
from headrace.log.outbox import json_array, publish_async, publish_many_async
from headrace.web.http.authentication import TokenRights
from headrace.web.http.databases import Database
from headrace.web.http.event_requests import EventRequest


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
