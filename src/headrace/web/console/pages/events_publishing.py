"""Publish an event, new or again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast
from uuid import UUID

import msgspec
from starlette.responses import Response
from uuid_utils.compat import uuid7

from headrace.core import JSON, Forbidden, Invalid, InvalidPayload, NotFound, RawJSON, decode
from headrace.db import Connection, Shards, Target
from headrace.definitions import list_event_types
from headrace.lang.condition import decode_json
from headrace.log.archive import REPLAY_HEADER, StoredEvent, find_stored_range, read_stored_events_at
from headrace.log.outbox import publish
from headrace.log.topics import list_topics
from headrace.web.console.pages.events_copies import publish_copies
from headrace.web.console.pages.events_reading import exact_json
from headrace.web.console.routes import change, read
from headrace.web.console.view import Done, Page, View

FIELDS = ("topic", "type", "key", "payload", "headers", "id")
PRODUCER = "headrace console"


def publish_form(view: View) -> Page | Response:
    """The form; with a position it is filled with that event."""
    fields = {name: view.form.get(name, "") for name in FIELDS}
    source = None
    if not view.form:
        fields |= {"topic": view.query.get("topic", ""), "type": view.query.get("type", ""), "payload": "{}"}
        if position := view.query.get("position", ""):
            source = _find_event(view, fields["topic"], position)
            fields |= _fields_of(view, fields["topic"], source)
    # The id is made here: a form that is sent twice publishes one event.
    fields["id"] = fields["id"] or str(uuid7())
    topics = sorted({row["topic"] for row in view.collect(lambda conn: list_topics(conn, namespace=view.namespace))})
    types = sorted({row["name"] for row in view.collect(lambda conn: list_event_types(conn, namespace=view.namespace))})
    copies = publish_copies(view, fields["topic"], fields["type"], fields["key"] or None, _one_line(fields["payload"]))
    values = {
        "fields": fields,
        "topics": topics,
        "types": types,
        "position": source.position if source else None,
        "copies": copies if fields["topic"] and fields["type"] else [],
        "rows": min(24, max(8, fields["payload"].count("\n") + 1)),
    }
    title = "Publish an event" if source is None else "Publish an event again"
    return Page("events_publish.html", title, values=values, is_live=False)


def publish_event(view: View) -> Done:
    """Publishes the event of the form, on the shard of its key."""
    form = view.form
    topic, kind, key = form.get("topic", "").strip(), form.get("type", "").strip(), form.get("key", "") or None
    event_id = _event_id(form.get("id", ""))
    payload, headers = _raw_json(form.get("payload", "")), _headers(form.get("headers", ""))

    def act(conn: Connection) -> UUID:
        return publish(
            conn, topic, kind, payload, key=key, headers=headers, id=event_id, producer=PRODUCER, namespace=view.namespace
        )

    target = _shard(view, key, event_id)
    details = {"topic": topic, "event_id": event_id, "type": kind, "key": key}
    view.change("event.publish", topic, act, details=details, targets=[target])
    chosen = {"shard": target.name} if len(view.shards) > 1 else {}
    return Done(f"event {event_id} published to {topic}", view.url(f"/events/{event_id}", **chosen))


def _find_event(view: View, topic: str, position: str) -> StoredEvent:
    if not position.isascii() or not position.isdigit() or len(position) > 18:
        raise Invalid(f"a position is a whole number, not {position!r}")

    def read_event(conn: Connection) -> StoredEvent | None:
        span = find_stored_range(conn, topic, namespace=view.namespace)
        return read_stored_events_at(conn, span, [int(position)]).get(int(position))

    for _, event in view.each_shard(read_event):
        if event is not None:
            return event
    raise NotFound(f"topic {topic!r} has no event at position {position}, neither in the log nor in the archive")


def _fields_of(view: View, topic: str, event: StoredEvent) -> dict[str, str]:
    payload = decode_json(event.payload)
    if view.mask(cast(JSON, payload)) != payload:
        raise Forbidden("this event has fields that are hidden from you; somebody who sees them must publish it again")
    headers = decode_json(event.headers)
    marked = {**(headers if isinstance(headers, dict) else {}), REPLAY_HEADER: f"{topic}/{event.position}"}
    return {"type": event.type, "key": event.key or "", "payload": exact_json(payload), "headers": exact_json(marked)}


def _one_line(text: str) -> str:
    try:
        return exact_json(decode_json(text), indent=False)
    except Invalid:
        return text


def _raw_json(text: str) -> RawJSON:
    """The payload exactly as it was typed, so that no digit is lost."""
    text = text.strip() or "null"
    decode(text)
    return msgspec.Raw(text.encode())


def _headers(text: str) -> Mapping[str, JSON]:
    headers = decode(text.strip() or "{}")
    if not isinstance(headers, Mapping):
        raise InvalidPayload('headers are a JSON object, such as {"source": "test"}')
    return headers


def _event_id(text: str) -> UUID:
    try:
        return UUID(text) if text.strip() else uuid7()
    except ValueError:
        raise Invalid(f"event id {text!r} is not a UUID; leave it empty for a new one") from None


def _shard(view: View, key: str | None, event_id: UUID) -> Target:
    """The shard of the key, whichever is selected: elsewhere its order would be lost. Without a key a selected shard, or any."""
    if key is not None:
        return Shards(list(view.site.databases.targets.values())).shard_of(key)
    return Shards(view.targets).shard_of(str(event_id))


ROUTES = (read("/events/publish", publish_form), change("/events/publish", publish_event, form=publish_form))
