"""`headrace schedule`: cron expressions that publish events."""

from __future__ import annotations

from typing import Annotated, TypedDict, Unpack

import msgspec
from typer import Argument, BadParameter, Option, Typer

from headrace import schedules
from headrace.cli.changes import Changes
from headrace.cli.options import Yes
from headrace.cli.output import Column, format_value, table
from headrace.cli.publish import raw_json
from headrace.cli.session import Session, command, facts_table
from headrace.core import UnknownSchedule
from headrace.db import Connection, Shards, connect

group = Typer(help="Schedules: publish an event at every tick of a cron expression, in a time zone.")

Name = Annotated[str, Argument(metavar="SCHEDULE", help="Name of the schedule.", show_default=False)]
Count = Annotated[int, Option("-n", min=1, max=1000, help="How many ticks.")]
DEFINITION = ("cron", "zone", "type", "payload", "key", "missed", "missed_max", "grace_s")
CRON = "Five fields, or six with seconds first, or a name such as @daily."


@command(group, "list")
def list_(session: Session) -> None:
    """List schedules: active, paused, failing (will retry) or invalid."""
    rows = session.collect(lambda conn: schedules.list_schedules(conn, namespace=session.namespace))
    next_tick = ("next tick", lambda schedule: schedule.next_tick_at if schedule.state == "active" else None)
    fired_by = ("fired by", lambda schedule: "pg_cron" if schedule.by_cron else "nodes")
    definition: list[Column] = ["schedule", "cron", "zone", "topic", ("event type", "type"), "state"]
    session.show([*definition, next_tick, ("last tick", "last_tick_at"), fired_by, "error"], rows)


@command(group, "show")
def show(session: Session, name: Name) -> None:
    """Show one schedule."""
    target, schedule = session.find(UnknownSchedule, lambda conn: schedules.get_schedule(conn, name, namespace=session.namespace))
    facts: dict[str, object] = msgspec.to_builtins(schedule)
    session.print({"shard": target.name} | facts, facts_table(f"schedule {name}", target, facts))


class Options(TypedDict, total=False):
    """Options of `schedule create` and `schedule alter`."""

    type: Annotated[str, Option(help="Event type.", show_default=False)]
    zone: Annotated[str, Option(help="IANA time zone.")]
    missed: Annotated[schedules.Missed, Option(help="Missed ticks to fire later: none, the newest, or the newest --missed-max.")]
    missed_max: Annotated[int, Option(help="With --missed all: at most this many.")]
    grace_s: Annotated[float, Option(help="A tick counts as missed after this many seconds.")]


@command(group, "create", defaults=schedules.create_schedule)
def create(
    session: Session,
    name: Name,
    cron: Annotated[str, Argument(metavar="CRON", help=CRON, show_default=False)],
    topic: Annotated[str, Option(help="Topic of the event.", show_default=False)],
    payload: Annotated[str | None, Option(help="JSON.", show_default="{}")] = None,
    key: Annotated[str | None, Option(help="Key of the event.")] = None,
    active: Annotated[bool, Option("--active/--paused", help="Start at once, or wait for `resume`.")] = True,
    **options: Unpack[Options],
) -> None:
    """Create a schedule.

    With several shards it lives on one of them, so that a tick is one event: on the shard of its key.

    Example: headrace schedule create daily-report '30 6 * * MON-FRI' --zone Europe/Berlin --topic reports --type report.due
    """
    target = Shards(session.targets).shard_of(name if key is None else key)
    with connect(target) as conn:
        definition = {"cron": cron, "topic": topic, "payload": raw_json(payload), "key": key, "active": active, **options}
        schedules.create_schedule(conn, name, **definition, namespace=session.namespace)  # type: ignore[arg-type]
        first_tick = schedules.next_ticks(conn, name, count=1, namespace=session.namespace)[0]
    zone = schedules.check_zone(options["zone"])
    state = f"its first tick is at {format_value(first_tick.astimezone(zone))}" if active else "it is paused"
    session.done(f"schedule {name} created; {state}", {"schedule": name, "shard": target.name, "next_tick_at": first_tick})


@command(group, "alter")
def alter(
    session: Session,
    name: Name,
    cron: Annotated[str | None, Option(help=CRON)] = None,
    payload: Annotated[str | None, Option(help="JSON.")] = None,
    key: Annotated[str | None, Option(help="Key of the event; '' removes it.")] = None,
    **options: Unpack[Options],
) -> None:
    """Change a schedule. Options that you leave out keep their values.

    Example: headrace schedule alter daily-report --cron '0 7 * * *'
    """
    if not options and cron is None and payload is None and key is None:
        raise BadParameter("nothing to change; add an option such as --cron")
    wanted = {"cron": cron, "payload": raw_json(payload), "key": key, **options, "namespace": session.namespace}

    def alter_and_compare(conn: Connection) -> tuple[schedules.Schedule, schedules.Schedule]:
        before = schedules.get_schedule(conn, name, namespace=session.namespace)
        schedules.alter_schedule(conn, name, **wanted)  # type: ignore[arg-type]
        return before, schedules.get_schedule(conn, name, namespace=session.namespace)

    target, states = session.find(UnknownSchedule, alter_and_compare)
    changes = Changes(session)
    before, after = ({field: getattr(state, field) for field in DEFINITION} for state in states)
    changes.add(target, before, after)
    changes.done(f"schedule {name} changed", {"schedule": name})


@command(group, "pause")
def pause(session: Session, name: Name) -> None:
    """Pause a schedule. Ticks that pass meanwhile do not count as missed."""
    session.find(UnknownSchedule, lambda conn: schedules.pause_schedule(conn, name, namespace=session.namespace))
    session.done(f"schedule {name} is paused", {"schedule": name, "state": "paused"})


@command(group, "resume")
def resume(session: Session, name: Name) -> None:
    """Resume a paused schedule, from now on."""
    session.find(UnknownSchedule, lambda conn: schedules.resume_schedule(conn, name, namespace=session.namespace))
    session.done(f"schedule {name} resumed", {"schedule": name, "state": "active"})


@command(group, "drop")
def drop(session: Session, name: Name, yes: Yes = False) -> None:
    """Drop a schedule with its history. Its events stay in the log."""
    session.confirm(f"Drop schedule {name}?", yes=yes)
    session.find(UnknownSchedule, lambda conn: schedules.drop_schedule(conn, name, namespace=session.namespace))
    session.done(f"schedule {name} dropped", {"schedule": name})


@command(group, "run")
def run(session: Session, name: Name) -> None:
    """Publish the event of a schedule now, and print the event's id.

    This works for a paused schedule, too.
    """
    _, event_id = session.find(UnknownSchedule, lambda conn: schedules.run_now(conn, name, namespace=session.namespace))
    session.done(str(event_id), {"schedule": name, "event_id": event_id})


@command(group, "next")
def next_(session: Session, name: Name, count: Count = 10) -> None:
    """Show the next ticks of a schedule, in its time zone and in UTC."""
    _, (schedule, ticks) = session.find(
        UnknownSchedule,
        lambda conn: (
            schedules.get_schedule(conn, name, namespace=session.namespace),
            schedules.next_ticks(conn, name, count=count, namespace=session.namespace),
        ),
    )
    zones = dict.fromkeys((schedule.zone, "UTC"))
    rows = [[tick.astimezone(schedules.check_zone(zone)) for zone in zones] for tick in ticks]
    remark = [f"the schedule is {schedule.state}; it ticks only while it is active"] * (schedule.state != "active")
    session.print(ticks, table(list(zones), rows), *remark)


@command(group, "history")
def history(session: Session, name: Name, count: Count = 20) -> None:
    """Show past ticks, newest first: fired, skipped (missed) or manual."""

    def read(conn: Connection) -> list[schedules.Tick]:
        schedules.get_schedule(conn, name, namespace=session.namespace)  # An unknown schedule is an error, not an empty list.
        return schedules.list_ticks(conn, name, limit=count, namespace=session.namespace)

    _, ticks = session.find(UnknownSchedule, read)
    session.print(ticks, table([("tick", "tick_at"), "outcome", "fired_at", ("event", "event_id")], ticks))
