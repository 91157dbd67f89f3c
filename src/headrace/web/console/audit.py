"""Audit: every change made in the console becomes an event of the topic `headrace.audit`, in the transaction of the change.

It is published with the console's own rights, not with those of the person: a person who may pause a consumer need not be allowed to
publish, and a person who may publish cannot forge it here. No event, no change: if it cannot be published, all is rolled back."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from headrace.core import JSON, Forbidden, UnknownTopic
from headrace.db import Connection
from headrace.log.outbox import publish
from headrace.log.topics import create_topic
from headrace.web.console.login import User

TOPIC = "headrace.audit"
PRODUCER = "headrace console"
KEY_BYTES_MAX = 500


@dataclass(frozen=True)
class Change:
    """What somebody changed: `what` is a name such as `consumer.pause`, `before` and `after` show the object."""

    what: str
    subject: str
    before: object = None
    after: object = None
    details: object = None


def record_change(conn: Connection, user: User, change: Change, *, namespace: str) -> None:
    """Writes the audit event in the open transaction; creates the topic at the first use. Leaves the person's role."""
    conn.execute("select set_config('role', 'none', true)")
    payload: dict[str, JSON] = {
        "who": user.name,
        "role": user.role,
        "what": change.what,
        "subject": change.subject,
        "before": _json(change.before),
        "after": _json(change.after),
        "details": _json(change.details),
    }
    try:
        try:
            with conn.transaction():
                _publish(conn, change, payload, namespace)
        except UnknownTopic:
            create_topic(conn, TOPIC, namespace=namespace)
            _publish(conn, change, payload, namespace)
    except Forbidden as error:
        raise Forbidden(
            f"the change was undone, because it could not be recorded in topic {TOPIC} of namespace {namespace}: {error}. "
            "The console's own role must be the owner of headrace or a node's role: see headrace.grant_node"
        ) from error


def _publish(conn: Connection, change: Change, payload: dict[str, JSON], namespace: str) -> None:
    key = change.subject.encode()[:KEY_BYTES_MAX].decode(errors="ignore") or None
    publish(conn, TOPIC, change.what, payload, key=key, producer=PRODUCER, namespace=namespace)


def _json(value: object) -> JSON:
    """Any value as JSON: frozen values of the library, times, intervals."""
    result: JSON = msgspec.to_builtins(value)
    return result
