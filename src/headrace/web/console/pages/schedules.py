"""Schedules: in words, the next ten runs in local time, history; run now, pause, create."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import TypeVar
from urllib.parse import quote

import msgspec

from headrace import schedules
from headrace.core import UnknownSchedule, decode
from headrace.db import Connection, Shards, Target, fetch_value
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Table, to_row
from headrace.web.console.view import Done, Page, View

T = TypeVar("T")

HISTORY_ROWS = 100
NEXT_TICKS = 10


def list_schedules(view: View) -> Page:
    """All schedules of the namespace."""
    rows = view.collect(lambda conn: schedules.list_schedules(conn, namespace=view.namespace))
    shown = [
        {
            **row,
            "words": schedules.explain_cron(row["cron"]),
            "next_tick_at": row["next_tick_at"] if row["state"] == "active" else None,
        }
        for row in rows
    ]
    columns = (
        Column("name", "schedule", link=lambda row: schedule_url(view, row["name"])),
        Column("words", "when"),
        Column("zone", wide=True),
        Column("state", kind="state"),
        Column("next_tick_at", "next run", kind="time"),
        Column("last_tick_at", "last run", kind="time", wide=True),
        Column("topic", wide=True, link=lambda row: view.url(f"/topics/{quote(row['topic'], safe='')}")),
        Column("type", "event type", wide=True),
        Column("error", wide=True),
    )
    empty = "headrace schedule create nightly '30 2 * * *' --zone Europe/Berlin --topic orders --type report.due"
    values = {"noun": "schedule", "create_url": view.url("/schedules/create")}
    return Page("list.html", "Schedules", tables=(Table("schedules", columns, shown, empty=empty),), values=values)


def show_schedule(view: View) -> Page:
    """One schedule: what it publishes, when, and what it did."""
    name = view.path["schedule"]

    def read_schedule(conn: Connection) -> tuple[schedules.Schedule, list[schedules.Tick], object]:
        schedule = schedules.get_schedule(conn, name, namespace=view.namespace)
        ticks = schedules.list_ticks(conn, name, limit=HISTORY_ROWS, namespace=view.namespace)
        return schedule, ticks, fetch_value(conn, "select headrace.clock()")

    target, (schedule, history, now) = _find(view, read_schedule)
    next_ticks = []
    if schedule.state != "invalid":
        with view.reading(target) as conn:
            next_ticks = schedules.next_ticks(conn, name, count=NEXT_TICKS, namespace=view.namespace)
    columns = (
        Column("local", f"local time, {schedule.zone}"),
        Column("zone", "zone"),
        Column("change", "daylight saving", kind="state"),
        Column("at", "from now", kind="time"),
    )
    local = local_ticks(next_ticks, schedules.check_zone(schedule.zone), now)  # type: ignore[arg-type]
    past = (
        Column("tick_at", "tick", kind="time"),
        Column("outcome", kind="state"),
        Column("fired_at", "fired", kind="time"),
        Column(
            "event_id", "event", kind="code", link=lambda row: view.url(f"/events/{row['event_id']}") if row["event_id"] else None
        ),
    )
    facts = [
        ("Cron", schedule.cron),
        ("Zone", schedule.zone),
        ("Topic", schedule.topic),
        ("Event type", schedule.type),
        ("Key", schedule.key),
        (
            "Missed ticks",
            {"skip": "skipped", "one": "the newest fires late", "all": f"the newest {schedule.missed_max} fire late"}[
                schedule.missed
            ],
        ),
        ("Missed after", f"{schedule.grace_s:g} s"),
        ("Fired by", "pg_cron" if schedule.by_cron else "nodes"),
    ]
    values = {
        "schedule": schedule,
        "words": schedules.explain_cron(schedule.cron),
        "facts": facts,
        "payload": view.mask(schedule.payload),
        "base": f"/schedules/{quote(name, safe='')}",
    }
    tables = (
        Table("runs", columns, [to_row(tick) for tick in local], title="Next runs", empty_text="It never fires."),
        Table("history", past, [to_row(tick) for tick in history], title="History", empty_text="It has not fired yet."),
    )
    return Page("schedule.html", name, tables=tables, values=values)


def run(view: View) -> Done:
    """Publishes the event of a schedule now."""
    name = view.path["schedule"]
    event_id = _change(view, "schedule.run", lambda conn: schedules.run_now(conn, name, namespace=view.namespace))
    return Done(f"schedule {name} published event {event_id}", schedule_url(view, name))


def pause(view: View) -> Done:
    name = view.path["schedule"]
    _change(view, "schedule.pause", lambda conn: schedules.pause_schedule(conn, name, namespace=view.namespace))
    return Done(f"schedule {name} is paused", schedule_url(view, name))


def resume(view: View) -> Done:
    name = view.path["schedule"]
    _change(view, "schedule.resume", lambda conn: schedules.resume_schedule(conn, name, namespace=view.namespace))
    return Done(f"schedule {name} resumed", schedule_url(view, name))


def create_form(view: View) -> Page:
    return Page("schedule_create.html", "Create a schedule", is_live=False)


def create(view: View) -> Done:
    """Creates a schedule on the shard of its key, or else of its name, so that a tick is one event."""
    form = {name: value.strip() for name, value in view.form.items()}
    name, key = form.get("schedule", ""), form.get("key", "") or None
    payload = form.get("payload", "") or "{}"
    decode(payload)

    def act(conn: Connection) -> None:
        schedules.create_schedule(
            conn,
            name,
            cron=form.get("cron", ""),
            zone=form.get("zone", "") or "UTC",
            topic=form.get("topic", ""),
            type=form.get("type", ""),
            payload=msgspec.Raw(payload.encode()),
            key=key,
            namespace=view.namespace,
        )

    target = Shards(view.targets).shard_of(name if key is None else key)
    details = {field: form.get(field) for field in ("cron", "zone", "topic", "type", "payload", "key")}
    view.change("schedule.create", name, act, details=details, targets=[target])
    return Done(f"schedule {name} created", schedule_url(view, name))


def schedule_url(view: View, name: str) -> str:
    return view.url(f"/schedules/{quote(name, safe='')}")


def _change(view: View, what: str, act: Callable[[Connection], T]) -> T:
    name = view.path["schedule"]
    target, _ = _find(view, lambda conn: schedules.get_schedule(conn, name, namespace=view.namespace))

    def state(conn: Connection) -> object:
        schedule = schedules.get_schedule(conn, name, namespace=view.namespace)
        return {"state": schedule.state, "next_tick_at": schedule.next_tick_at}

    [(_, result)] = view.change(what, name, act, state=state, targets=[target])
    return result


def _find(view: View, get: Callable[[Connection], T]) -> tuple[Target, T]:
    """What the shard of the schedule answers; raises UnknownSchedule."""
    missing: UnknownSchedule | None = None
    for target in view.targets:
        try:
            with view.reading(target) as conn:
                return target, get(conn)
        except UnknownSchedule as error:
            missing = error
    raise missing or UnknownSchedule("there is no such schedule")


@dataclass(frozen=True)
class LocalTick:
    """A tick in the time zone of its schedule. `change` says that the clock was changed since the tick before."""

    at: datetime
    local: str
    zone: str
    change: str | None


def local_ticks(ticks: Iterable[datetime], zone: tzinfo, now: datetime) -> list[LocalTick]:
    """Ticks as the clock on the wall shows them, with the changes of daylight saving marked."""
    result: list[LocalTick] = []
    offset = now.astimezone(zone).utcoffset() or timedelta()
    for tick in ticks:
        local = tick.astimezone(zone)
        shift = (local.utcoffset() or timedelta()) - offset
        offset += shift
        hours = abs(shift.total_seconds()) / 3600
        change = f"clock {'forward' if shift > timedelta() else 'back'} {hours:g} h" if shift else None
        if local.fold and change is None:
            change = "second pass of this hour"
        result.append(LocalTick(tick, local.strftime("%a %Y-%m-%d %H:%M:%S"), local.tzname() or "", change))
    return result


ROUTES = (
    read("/schedules", list_schedules),
    read("/schedules/create", create_form),
    change("/schedules/create", create, form=create_form),
    read("/schedules/{schedule}", show_schedule),
    change("/schedules/{schedule}/run", run, form=show_schedule),
    change("/schedules/{schedule}/pause", pause, form=show_schedule),
    change("/schedules/{schedule}/resume", resume, form=show_schedule),
)
