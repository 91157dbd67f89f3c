"""Schedules: create, alter, pause, resume, drop, run now, list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Literal, TypeAlias
from uuid import UUID

from headrace.core import JSON, Payload, encode
from headrace.db import Connection, fetch_rows, fetch_value, map_database_errors, query
from headrace.schedules.cron import TickPlan, check_cron, check_zone, plan_ticks, ticks

Missed: TypeAlias = Literal["skip", "one", "all"]
"""Which ticks are fired late if nobody fired them in time: none, the newest, or the newest `missed_max`."""

_CREATE = """select headrace.create_schedule(
    p_schedule => %s, p_cron => %s, p_topic => %s, p_type => %s, p_payload => %s, p_zone => %s, p_key => %s, p_headers => %s,
    p_missed => %s, p_missed_max => %s, p_grace_s => %s, p_active => %s, p_namespace => %s)"""
_ALTER = """select headrace.alter_schedule(
    p_schedule => %s, p_cron => %s, p_zone => %s, p_type => %s, p_payload => %s, p_key => %s, p_headers => %s, p_missed => %s,
    p_missed_max => %s, p_grace_s => %s, p_namespace => %s)"""
WRITE_PLAN = "select headrace.plan_schedule(%s, %s, %s, %s, %s::timestamptz[], %s, %s)"


@dataclass(frozen=True)
class Schedule:
    """A schedule and its state: `active`, `paused`, `failing` (will be retried) or `invalid` (never fires)."""

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
    """pg_cron fires it, and a node stands by."""
    planned_until: datetime
    next_tick_at: datetime | None
    last_tick_at: datetime | None


@dataclass(frozen=True)
class Tick:
    """A past tick: `fired`, `skipped` (missed and not fired late) or `manual` (run now)."""

    tick_at: datetime
    outcome: str
    event_id: UUID | None
    fired_at: datetime


@dataclass(frozen=True)
class UnplannedSchedule:
    """A schedule whose plan must reach further."""

    schedule_id: int
    cron: str
    zone: str
    planned_until: datetime
    now: datetime

    def plan(self) -> TickPlan:
        return plan_ticks(self.cron, self.zone, planned_until=self.planned_until, now=self.now)

    def plan_parameters(self, plan: TickPlan) -> tuple[object, ...]:
        """The parameters of WRITE_PLAN. Cron, zone and planned_until detect that the schedule has changed meanwhile."""
        key = (self.schedule_id, self.cron, self.zone, self.planned_until)
        return (*key, list(plan.ticks), plan.until, plan.replan_at)


def create_schedule(
    conn: Connection,
    schedule: str,
    *,
    cron: str,
    topic: str,
    type: str,
    payload: Payload = None,
    zone: str = "UTC",
    key: str | None = None,
    headers: Mapping[str, JSON] | None = None,
    missed: Missed = "skip",
    missed_max: int = 100,
    grace_s: float = 120,
    active: bool = True,
    namespace: str | None = None,
) -> int:
    """Creates a schedule, plans its first ticks, and returns its id."""
    check_cron(cron)
    check_zone(zone)
    event = (topic, type, encode({} if payload is None else payload), zone, key, encode(headers or {}))
    with map_database_errors(), conn.transaction():
        parameters = (schedule, cron, *event, missed, missed_max, grace_s, active, namespace)
        schedule_id = fetch_value(conn, _CREATE, parameters)
        _plan_now(conn, schedule_id)
    return int(schedule_id)


def alter_schedule(
    conn: Connection,
    schedule: str,
    *,
    cron: str | None = None,
    zone: str | None = None,
    type: str | None = None,
    payload: Payload = None,
    key: str | None = None,
    headers: Mapping[str, JSON] | None = None,
    missed: Missed | None = None,
    missed_max: int | None = None,
    grace_s: float | None = None,
    namespace: str | None = None,
) -> None:
    """Changes a schedule; None leaves an option as it is, an empty key removes the key."""
    if cron is not None:
        check_cron(cron)
    if zone is not None:
        check_zone(zone)
    event = (type, None if payload is None else encode(payload), key, None if headers is None else encode(headers))
    with map_database_errors(), conn.transaction():
        fetch_value(conn, _ALTER, (schedule, cron, zone, *event, missed, missed_max, grace_s, namespace))
        _plan_now(conn, _schedule_id(conn, schedule, namespace))


def pause_schedule(conn: Connection, schedule: str, *, namespace: str | None = None) -> None:
    """Pauses a schedule; ticks that pass meanwhile do not count as missed."""
    fetch_value(conn, "select headrace.pause_schedule(%s, %s)", (schedule, namespace))


def resume_schedule(conn: Connection, schedule: str, *, namespace: str | None = None) -> None:
    """Resumes a paused schedule from now on."""
    with map_database_errors(), conn.transaction():
        fetch_value(conn, "select headrace.resume_schedule(%s, %s)", (schedule, namespace))
        _plan_now(conn, _schedule_id(conn, schedule, namespace))


def drop_schedule(conn: Connection, schedule: str, *, namespace: str | None = None) -> None:
    """Drops a schedule and its past ticks; its events stay in the log."""
    fetch_value(conn, "select headrace.drop_schedule(%s, %s)", (schedule, namespace))


def run_now(conn: Connection, schedule: str, *, namespace: str | None = None) -> UUID:
    """Publishes a schedule's event now, even if it is paused; returns the event's id."""
    return UUID(str(fetch_value(conn, "select headrace.run_schedule_now(%s, %s)", (schedule, namespace))))


def list_schedules(conn: Connection, *, namespace: str | None = None) -> list[Schedule]:
    """The schedules of a namespace, by name."""
    return fetch_rows(conn, Schedule, query("schedules/schedules"), {"namespace": namespace, "schedule": None})


def get_schedule(conn: Connection, schedule: str, *, namespace: str | None = None) -> Schedule:
    """One schedule; raises UnknownSchedule."""
    _schedule_id(conn, schedule, namespace)
    [row] = fetch_rows(conn, Schedule, query("schedules/schedules"), {"namespace": namespace, "schedule": schedule})
    return row


def next_ticks(conn: Connection, schedule: str, *, count: int = 10, namespace: str | None = None) -> list[datetime]:
    """The next ticks of a schedule, in UTC; also beyond its plan, and for a paused one as if it were resumed now."""
    definition = get_schedule(conn, schedule, namespace=namespace)
    now = fetch_value(conn, "select headrace.clock()")
    return list(islice(ticks(definition.cron, definition.zone, now), count))


def list_ticks(conn: Connection, schedule: str, *, limit: int = 100, namespace: str | None = None) -> list[Tick]:
    """The past ticks of a schedule, newest first."""
    return fetch_rows(conn, Tick, query("schedules/ticks"), {"schedule": schedule, "limit": limit, "namespace": namespace})


def _schedule_id(conn: Connection, schedule: str, namespace: str | None) -> int:
    return int(fetch_value(conn, "select headrace.schedule_id(%s, %s)", (schedule, namespace)))


def _plan_now(conn: Connection, schedule_id: int) -> None:
    """Plans a schedule in the transaction that has just changed it, so that it starts without a node."""
    for schedule in fetch_rows(conn, UnplannedSchedule, query("schedules/to_plan"), {"schedule_id": schedule_id}):
        fetch_value(conn, WRITE_PLAN, schedule.plan_parameters(schedule.plan()))
