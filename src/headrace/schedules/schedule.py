"""Schedules: their fields, what is special to them among the kinds of definitions, and their ticks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from headrace.core import JSON, Payload, UnknownSchedule
from headrace.db import Connection, fetch_rows, fetch_value, map_database_errors, query
from headrace.definitions import DefinitionKind, Field
from headrace.schedules.cron import TickPlan, check_cron, check_zone, plan_ticks, ticks

Missed: TypeAlias = Literal["skip", "one", "all"]
"""Which ticks are fired late if nobody fired them in time: none, the newest, or the newest `missed_max`."""

WRITE_PLAN = "select headrace.plan_schedule(%s, %s, %s, %s, %s::timestamptz[], %s, %s)"


@dataclass(frozen=True, kw_only=True)
class ScheduleDefinition:
    """An event at every tick of a cron expression, in a time zone."""

    name: Annotated[str, Field("Name of the schedule.")]
    cron: Annotated[str, Field("Five fields, or six with seconds first, or a name such as @daily.", example="30 6 * * MON-FRI")]
    zone: Annotated[str, Field("IANA time zone.", title="time zone", hint="For example Europe/Berlin.")] = "UTC"
    topic: Annotated[str, Field("Topic of the event.", is_fixed=True)]
    type: Annotated[str, Field("Type of the event.", title="event type")]
    key: Annotated[str | None, Field("Key of the event.", unset="none")] = None
    payload: Annotated[JSON, Field("Payload of the event as JSON.", is_json=True)] = field(default_factory=dict)
    headers: Annotated[Mapping[str, JSON], Field("Headers of the event as JSON.", is_json=True)] = field(default_factory=dict)
    missed: Annotated[
        Missed,
        Field(
            "Missed ticks to fire later: none, the newest, or the newest up to a maximum.",
            title="missed ticks",
            meanings=("skipped", "the newest fires late", "the newest fire late"),
        ),
    ] = "skip"
    missed_max: Annotated[int, Field("Where all missed ticks are fired: at most this many.", title="missed ticks at most")] = 100
    grace_s: Annotated[float, Field("A tick counts as missed after this many seconds.", title="grace period")] = 120
    active: Annotated[bool, Field("Fire the ticks. A schedule that is not active is paused.")] = True


@dataclass(frozen=True, kw_only=True)
class Schedule(ScheduleDefinition):
    """A schedule and its state: `active`, `paused`, `failing` (will be retried) or `invalid` (never fires)."""

    schedule_id: int
    namespace: str
    source: str
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


class ScheduleKind(DefinitionKind[ScheduleDefinition, Schedule, None]):
    """Schedules; each is on one shard, so that a tick is one event."""

    noun = "schedule"
    definition_type = ScheduleDefinition
    state_type = Schedule
    unknown = UnknownSchedule
    usual_fields = "name, cron, topic, type"
    is_on_one_shard = True
    is_recreated = True

    def shard_key(self, definition: ScheduleDefinition) -> str:
        return definition.name if definition.key is None else definition.key

    def check(self, definition: ScheduleDefinition) -> None:
        check_cron(definition.cron)
        check_zone(definition.zone)

    def summary(self, definition: ScheduleDefinition) -> str:
        return f"{definition.cron} ({definition.zone}) → {definition.topic}, {definition.type}"

    def create(
        self, conn: Connection, definition: ScheduleDefinition, *, namespace: str | None = None, source: str = "sql"
    ) -> int:
        """Creates a schedule, plans its first ticks, and returns its id."""
        with map_database_errors(), conn.transaction():
            schedule_id = super().create(conn, definition, namespace=namespace, source=source)
            _plan_now(conn, schedule_id)
        return schedule_id

    def update(
        self, conn: Connection, definition: ScheduleDefinition, *, namespace: str | None, source: str, restart: bool = False
    ) -> None:
        """Writes a schedule, and plans its next ticks."""
        with map_database_errors(), conn.transaction():
            super().update(conn, definition, namespace=namespace, source=source)
            _plan_now(conn, _schedule_id(conn, definition.name, namespace))

    def resume(self, conn: Connection, name: str, *, namespace: str | None = None) -> int:
        """Resumes a paused schedule from now on; ticks that passed meanwhile do not count as missed."""
        with map_database_errors(), conn.transaction():
            count = super().resume(conn, name, namespace=namespace)
            _plan_now(conn, _schedule_id(conn, name, namespace))
        return count

    def definition(self, state: Schedule) -> ScheduleDefinition:
        return ScheduleDefinition(**{field.name: getattr(state, field.name) for field in self.fields})

    def build_state(self, values: dict[str, Any], rest: dict[str, Any]) -> Schedule:
        return Schedule(**values, **rest)


SCHEDULES = ScheduleKind()

drop_schedule = SCHEDULES.drop
get_schedule = SCHEDULES.get
list_schedules = SCHEDULES.list_all
pause_schedule = SCHEDULES.pause
resume_schedule = SCHEDULES.resume


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
    event: dict[str, Any] = {"type": type, "payload": {} if payload is None else payload, "headers": headers or {}}
    rest: dict[str, Any] = {"missed": missed, "missed_max": missed_max, "grace_s": grace_s, "active": active}
    definition = ScheduleDefinition(name=schedule, cron=cron, topic=topic, zone=zone, key=key, **event, **rest)
    return SCHEDULES.create(conn, definition, namespace=namespace)


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
    wanted: dict[str, Any] = {"cron": cron, "zone": zone, "type": type, "payload": payload, "key": key, "headers": headers}
    wanted |= {"missed": missed, "missed_max": missed_max, "grace_s": grace_s}
    state = SCHEDULES.get(conn, schedule, namespace=namespace)
    fields = {name: value for name, value in wanted.items() if value is not None}
    definition = replace(SCHEDULES.definition(state), **fields)
    SCHEDULES.alter(conn, replace(definition, key=definition.key or None), namespace=namespace, source=state.source)


def run_now(conn: Connection, schedule: str, *, namespace: str | None = None) -> UUID:
    """Publishes a schedule's event now, even if it is paused; returns the event's id."""
    return UUID(str(fetch_value(conn, "select headrace.run_schedule_now(%s, %s)", (schedule, namespace))))


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
