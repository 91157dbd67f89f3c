"""Retention: drops old time partitions, but nothing that a consumer has not passed, unless forced."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.db import Connection, fetch_rows


@dataclass(frozen=True)
class ExpiredPartition:
    """A time partition that is old enough to be dropped: dropped, or kept for the consumers named."""

    topic: str
    name: str
    events: int
    dropped: bool
    kept_for: str | None


def maintain_log(conn: Connection) -> list[ExpiredPartition]:
    """Creates time partitions ahead and applies the retention of every topic."""
    return fetch_rows(conn, ExpiredPartition, "select topic, name, events, dropped, kept_for from headrace.maintain_log()")


def drop_expired(
    conn: Connection, topic: str, *, before: datetime, force: bool = False, namespace: str | None = None
) -> list[ExpiredPartition]:
    """Drops a topic's time partitions that ended before a time. `force` also drops what consumers have not passed."""
    statement = """select %(topic)s::text as topic, d.name, d.events, d.dropped, d.kept_for
        from headrace.drop_expired(headrace.topic_id(%(topic)s, %(namespace)s), %(before)s, %(force)s) d"""
    parameters = {"topic": topic, "namespace": namespace, "before": before, "force": force}
    return fetch_rows(conn, ExpiredPartition, statement, parameters)
