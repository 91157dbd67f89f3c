"""Schedules: create, change, pause, resume, drop, run now, list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Literal, TypeAlias
from uuid import UUID

from psycopg.rows import class_row

from headrace.core import JSON, RawJSON, encode
from headrace.db import Connection, map_database_errors, query
from headrace.schedules.cron import check_cron, check_zone, ticks
from headrace.schedules.planning import Plan, plan

Missed: TypeAlias = Literal["skip", "one", "all"]
"""What becomes of ticks nobody fired in time: none is fired, the newest one, or the newest `missed_max`."""


@dataclass(frozen=True)
class Schedule:
    """A schedule and how it does: `active`, `paused`, `failing` (tried again) or `invalid` (never comes)."""

    schedule_id: int
    namespace: str
    schedule: str
    cron: str
    zone: str
    topic: str
    type: str
    payload: JSON
    key: str | None
    headers: Mapping[str, JSON]
    missed: Missed
    missed_max: int
    grace_s: float
    state: str
    error: str | None
    by_cron: bool
    """pg_cron fires it, a node stands by."""
    planned_until: datetime
    next_tick_at: datetime | None
    last_tick_at: datetime | None


@dataclass(frozen=True)
class Tick:
    """A tick that is over: `fired`, `skipped` (missed, and the policy said so) or `manual` (run now)."""

    tick_at: datetime
    outcome: str
    event_id: UUID | None
    fired_at: datetime


@dataclass(frozen=True)
class Unplanned:
    """A schedule whose plan is to be made longer."""

    schedule_id: int
    cron: str
    zone: str
    planned_until: datetime
    now: datetime

    def plan(self) -> Plan:
        return plan(self.cron, self.zone, planned_until=self.planned_until, now=self.now)

    def parameters(self, made: Plan) -> dict[str, object]:
        """The parameters of queries/schedule/plan.sql."""
        return {
            "schedule_id": self.schedule_id,
            "cron": self.cron,
            "zone": self.zone,
            "planned_until": self.planned_until,
            "ticks": list(made.ticks),
            "until": made.until,
            "replan_at": made.replan_at,
        }


def create_schedule(
    conn: Connection,
    schedule: str,
    *,
    cron: str,
    topic: str,
    type: str,
    payload: JSON | RawJSON = None,
    zone: str = "UTC",
    key: str | None = None,
    headers: Mapping[str, JSON] | None = None,
    missed: Missed = "skip",
    missed_max: int = 100,
    grace_s: float = 120,
    active: bool = True,
    namespace: str | None = None,
) -> int:
    """Creates a schedule with its first ticks planned, and returns its id."""
    check_cron(cron)
    check_zone(zone)
    given = {
        "schedule": schedule,
        "cron": cron,
        "topic": topic,
        "type": type,
        "payload": encode({} if payload is None else payload),
        "zone": zone,
        "key": key,
        "headers": encode(headers or {}),
        "missed": missed,
        "missed_max": missed_max,
        "grace_s": grace_s,
        "active": active,
        "namespace": namespace,
    }
    with map_database_errors(), conn.transaction():
        row = conn.execute(query("schedules/create_schedule"), given).fetchone()
        assert row is not None
        _plan_now(conn, int(row[0]))
    return int(row[0])


def alter_schedule(
    conn: Connection,
    schedule: str,
    *,
    cron: str | None = None,
    zone: str | None = None,
    type: str | None = None,
    payload: JSON | RawJSON = None,
    key: str | None = None,
    headers: Mapping[str, JSON] | None = None,
    missed: Missed | None = None,
    missed_max: int | None = None,
    grace_s: float | None = None,
    namespace: str | None = None,
) -> None:
    """Changes a schedule; None leaves a thing as it is, an empty key takes the key away."""
    if cron is not None:
        check_cron(cron)
    if zone is not None:
        check_zone(zone)
    given = {
        "schedule": schedule,
        "cron": cron,
        "zone": zone,
        "type": type,
        "payload": None if payload is None else encode(payload),
        "key": key,
        "headers": None if headers is None else encode(headers),
        "missed": missed,
        "missed_max": missed_max,
        "grace_s": grace_s,
        "namespace": namespace,
    }
    with map_database_errors(), conn.transaction():
        conn.execute(query("schedules/alter_schedule"), given)
        _plan_now(conn, _id(conn, schedule, namespace))


def pause_schedule(conn: Connection, schedule: str, *, namespace: str | None = None) -> None:
    """Stops a schedule; ticks that pass meanwhile do not count as missed."""
    with map_database_errors():
        conn.execute("select headrace.pause_schedule(%s, %s)", (schedule, namespace))


def resume_schedule(conn: Connection, schedule: str, *, namespace: str | None = None) -> None:
    """Lets a paused schedule go on from now."""
    with map_database_errors(), conn.transaction():
        conn.execute("select headrace.resume_schedule(%s, %s)", (schedule, namespace))
        _plan_now(conn, _id(conn, schedule, namespace))


def drop_schedule(conn: Connection, schedule: str, *, namespace: str | None = None) -> None:
    """Drops a schedule with its record of ticks; its events stay in the log."""
    with map_database_errors():
        conn.execute("select headrace.drop_schedule(%s, %s)", (schedule, namespace))


def run_now(conn: Connection, schedule: str, *, namespace: str | None = None) -> UUID:
    """Publishes a schedule's event now, also while it is paused; returns the event's id."""
    with map_database_errors():
        row = conn.execute("select headrace.run_schedule_now(%s, %s)", (schedule, namespace)).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def run_schedule(conn: Connection, schedule_id: int) -> int:
    """Fires the due ticks of a schedule and returns how many events that made. It is what a pg_cron job calls."""
    with map_database_errors():
        row = conn.execute("select headrace.run_schedule(%s)", (schedule_id,)).fetchone()
    assert row is not None
    return int(row[0])


def list_schedules(conn: Connection, *, namespace: str | None = None) -> list[Schedule]:
    """The schedules of a namespace, by name."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Schedule)) as cursor:
        return cursor.execute(query("schedules/schedules"), {"namespace": namespace, "schedule": None}).fetchall()


def get_schedule(conn: Connection, schedule: str, *, namespace: str | None = None) -> Schedule:
    """One schedule; raises UnknownSchedule."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Schedule)) as cursor:
        _id(conn, schedule, namespace)
        found = cursor.execute(query("schedules/schedules"), {"namespace": namespace, "schedule": schedule}).fetchone()
    assert found is not None
    return found


def next_ticks(conn: Connection, schedule: str, *, count: int = 10, namespace: str | None = None) -> list[datetime]:
    """When a schedule comes next, in UTC; also beyond its plan, and for a paused one as if it were resumed now."""
    found = get_schedule(conn, schedule, namespace=namespace)
    row = conn.execute("select headrace.clock()").fetchone()
    assert row is not None
    return list(islice(ticks(found.cron, found.zone, row[0]), count))


def list_ticks(conn: Connection, schedule: str, *, limit: int = 100, namespace: str | None = None) -> list[Tick]:
    """What became of a schedule's ticks, newest first."""
    with map_database_errors(), conn.cursor(row_factory=class_row(Tick)) as cursor:
        given = {"schedule": schedule, "limit": limit, "namespace": namespace}
        return cursor.execute(query("schedules/ticks"), given).fetchall()


def _id(conn: Connection, schedule: str, namespace: str | None) -> int:
    row = conn.execute("select headrace_internal.schedule_id(%s, %s)", (schedule, namespace)).fetchone()
    assert row is not None
    return int(row[0])


def _plan_now(conn: Connection, schedule_id: int) -> None:
    """Plans a schedule in the transaction that has just changed it, so that it needs no node to begin."""
    with conn.cursor(row_factory=class_row(Unplanned)) as cursor:
        for found in cursor.execute(query("schedules/unplanned"), {"schedule_id": schedule_id}).fetchall():
            conn.execute(query("schedules/plan"), found.parameters(found.plan()))
