"""The plans of publishing and capturing: which steps, in which order.

Promises: events are checked before the first step; the sequencer is woken after the rows are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from headrace.core import Envelope, Event, seal
from headrace.outbox.binary_copy import Route, chunks
from headrace.outbox.json_array import as_array, in_ascii
from headrace.outbox.statements import Copy, Plan, Statement


def publish_one(event: Event, namespace: str | None) -> Plan[UUID]:
    sealed = seal(event)
    return _publish_one(sealed, namespace)


def publish_all(events: Iterable[Event], namespace: str | None) -> Plan[list[UUID]]:
    # All are sealed before the first is sent: a bad one leaves nothing behind and the caller's transaction sound,
    # and a generator may read from the same connection, which no query could during a COPY.
    return _publish_all([seal(event) for event in events], namespace)


def _publish_one(sealed: Envelope, namespace: str | None) -> Plan[UUID]:
    yield Statement(
        "outbox/publish",
        {
            "topic": sealed.topic,
            "type": sealed.type,
            "payload": in_ascii(sealed.payload),
            "key": sealed.key,
            "headers": in_ascii(sealed.headers),
            "id": str(sealed.id),
            "emitted_at": sealed.emitted_at.isoformat() if sealed.emitted_at else None,
            "producer": sealed.producer,
            "namespace": namespace,
        },
    )
    return sealed.id


def _publish_all(sealed: Sequence[Envelope], namespace: str | None) -> Plan[list[UUID]]:
    if not sealed:
        return []
    topics = list(dict.fromkeys(envelope.topic for envelope in sealed))
    rows = yield Statement("outbox/copy_route", {"topics": topics, "namespace": namespace})
    route = Route.of(topics, rows) if isinstance(rows, list) and rows else None
    if route is not None and (yield Copy(lambda: chunks(sealed, route))):
        yield Statement("outbox/wake_topics", {"topic_ids": list(route.topic_ids.values())})
    else:
        yield Statement("outbox/publish_many", {"events": as_array(sealed), "namespace": namespace})
    return [envelope.id for envelope in sealed]


def perform_only(name: str, **parameters: str | None | list[str]) -> Plan[None]:
    """A single statement whose rows do not matter."""
    yield Statement(f"outbox/{name}", dict(parameters))
