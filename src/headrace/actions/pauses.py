"""Pauses: an operator stops consumers, rules, correlators, relays, schedules, actions or a queue for a while.

Promises: what runs finishes, and nodes start nothing new within a second; nothing is lost meanwhile, and after `resume` everything
goes on exactly once. Only a schedule skips its ticks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from headrace.db import Connection, fetch_rows, fetch_value, query

PauseKind: TypeAlias = Literal["consumer", "rule", "correlator", "relay", "schedule", "action", "queue"]


@dataclass(frozen=True)
class Pause:
    """What is paused. A consumer is named topic/consumer; a queue has no name. Of a schedule only the name is known."""

    namespace: str
    kind: PauseKind
    name: str
    reason: str | None
    paused_at: datetime | None
    paused_by: str | None


def pause(conn: Connection, kind: PauseKind, name: str = "", *, reason: str | None = None, namespace: str | None = None) -> bool:
    """Pauses something until `resume`; returns False if it was paused already.

    A paused rule is still evaluated and recorded, and its actions are held in the queue."""
    return bool(fetch_value(conn, "select headrace.pause(%s, %s, %s, %s)", (kind, name, reason, namespace)))


def resume(conn: Connection, kind: PauseKind, name: str = "", *, namespace: str | None = None) -> int:
    """Lets something go on. Returns how many partitions of a consumer or held actions of a rule or action, else 1; 0 if nothing was
    paused or stopped."""
    return int(fetch_value(conn, "select headrace.resume(%s, %s, %s)", (kind, name, namespace)))


def list_pauses(conn: Connection, *, namespace: str | None = None) -> list[Pause]:
    """What is paused in a namespace."""
    return fetch_rows(conn, Pause, query("actions/pauses"), {"namespace": namespace})
