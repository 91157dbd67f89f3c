"""`headrace schedule`: cron expressions that become events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
import typer

from headrace.cli.output import console, json_line, shown, table, to_json
from headrace.cli.publish import raw_json
from headrace.cli.session import Session, command
from headrace.core import UnknownSchedule
from headrace.db import Connection, Shards, Target, connect
from headrace.schedules import (
    Missed,
    Schedule,
    alter_schedule,
    check_zone,
    create_schedule,
    drop_schedule,
    get_schedule,
    list_schedules,
    list_ticks,
    next_ticks,
    pause_schedule,
    resume_schedule,
    run_now,
)

group = typer.Typer(help="Schedules: an event at every tick of a cron expression, in a time zone.")

T = TypeVar("T")

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name of the schedule.", show_default=False)]
Count = Annotated[int, typer.Option("-n", min=1, max=1000, help="So many.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
MISSED = "What becomes of ticks nobody fired in time: none, the newest, or the newest --missed-max."
CRON = "Five fields, or six with seconds first."


@command(group, "list")
def list_(session: Session) -> None:
    """List schedules: active, paused, failing (tried again) or invalid (never comes)."""
    found = session.found(lambda conn: list_schedules(conn, namespace=session.namespace))
    columns = ["schedule", "cron", "zone", "topic", "event type", "state", "next tick", "last tick", "fired by", "error"]
    session.show(columns, found, _row)


def _row(one: Schedule) -> list[object]:
    upcoming = one.next_tick_at if one.state == "active" else None
    fired_by = "pg_cron" if one.by_cron else "nodes"
    event = [one.topic, one.type]
    return [one.schedule, one.cron, one.zone, *event, one.state, upcoming, one.last_tick_at, fired_by, one.error]


@command(group, "show")
def show(session: Session, name: Name) -> None:
    """Show one schedule."""
    target, found = _where_it_is(session, lambda conn: get_schedule(conn, name, namespace=session.namespace))
    facts: dict[str, object] = msgspec.to_builtins(found)
    if session.json:
        json_line({"shard": target.name} | facts)
        return
    rows = [
        (field.replace("_", " "), to_json(value) if isinstance(value, dict | list) else shown(value))
        for field, value in facts.items()
    ]
    console().print(table([f"schedule {name}", f"on {target}"], rows))


@command(group, "create")
def create(
    session: Session,
    name: Name,
    cron: Annotated[str, typer.Argument(metavar="CRON", help=CRON, show_default=False)],
    topic: Annotated[str, typer.Option(help="Topic of the event.", show_default=False)],
    type_: Annotated[str, typer.Option("--type", help="Event type.", show_default=False)],
    payload: Annotated[str | None, typer.Option(help="JSON.", show_default="{}")] = None,
    zone: Annotated[str, typer.Option(help="IANA time zone.")] = "UTC",
    key: Annotated[str | None, typer.Option(help="Key of the event.")] = None,
    missed: Annotated[Missed, typer.Option(help=MISSED)] = "skip",
    missed_max: Annotated[int, typer.Option(help="With --missed all: at most so many.")] = 100,
    grace_s: Annotated[float, typer.Option(help="After so many seconds a tick is missed.")] = 120,
    active: Annotated[bool, typer.Option("--active/--paused", help="Begin at once, or wait for `resume`.")] = True,
) -> None:
    """Create a schedule. With several shards it is on one of them, so that a tick is one event: where its key belongs.

    Example: headrace schedule create daily-report '30 6 * * MON-FRI' --zone Europe/Berlin --topic reports --type report.due
    """
    target = Shards(session.targets).shard_of(name if key is None else key)
    with connect(target) as conn:
        create_schedule(
            conn,
            name,
            cron=cron,
            topic=topic,
            type=type_,
            payload=raw_json(payload),
            zone=zone,
            key=key,
            missed=missed,
            missed_max=missed_max,
            grace_s=grace_s,
            active=active,
            namespace=session.namespace,
        )
        upcoming = next_ticks(conn, name, count=1, namespace=session.namespace)[0]
    when = f"comes first at {shown(upcoming.astimezone(check_zone(zone)))}" if active else "is paused"
    session.done(f"schedule {name} created; it {when}", {"schedule": name, "shard": target.name, "next_tick_at": upcoming})


@command(group, "alter")
def alter(
    session: Session,
    name: Name,
    cron: Annotated[str | None, typer.Option(help=CRON)] = None,
    zone: Annotated[str | None, typer.Option(help="IANA time zone.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Event type.")] = None,
    payload: Annotated[str | None, typer.Option(help="JSON.")] = None,
    key: Annotated[str | None, typer.Option(help="Key of the event; '' takes it away.")] = None,
    missed: Annotated[Missed | None, typer.Option(help=MISSED)] = None,
    missed_max: Annotated[int | None, typer.Option(help="With --missed all: at most so many.")] = None,
    grace_s: Annotated[float | None, typer.Option(help="After so many seconds a tick is missed.")] = None,
) -> None:
    """Change a schedule; what is not named stays.

    Example: headrace schedule alter daily-report --cron '0 7 * * *'
    """
    if all(one is None for one in (cron, zone, type_, payload, key, missed, missed_max, grace_s)):
        raise typer.BadParameter("say what to change, such as --cron")

    def change(conn: Connection) -> None:
        alter_schedule(
            conn,
            name,
            cron=cron,
            zone=zone,
            type=type_,
            payload=raw_json(payload),
            key=key,
            missed=missed,
            missed_max=missed_max,
            grace_s=grace_s,
            namespace=session.namespace,
        )

    _where_it_is(session, change)
    session.done(f"schedule {name} changed", {"schedule": name})


@command(group, "pause")
def pause(session: Session, name: Name) -> None:
    """Stop a schedule; ticks that pass meanwhile do not count as missed."""
    _where_it_is(session, lambda conn: pause_schedule(conn, name, namespace=session.namespace))
    session.done(f"schedule {name} is paused", {"schedule": name, "state": "paused"})


@command(group, "resume")
def resume(session: Session, name: Name) -> None:
    """Let a paused schedule go on from now."""
    _where_it_is(session, lambda conn: resume_schedule(conn, name, namespace=session.namespace))
    session.done(f"schedule {name} goes on", {"schedule": name, "state": "active"})


@command(group, "drop")
def drop(session: Session, name: Name, yes: Yes = False) -> None:
    """Drop a schedule with its record of ticks. Its events stay in the log."""
    session.confirm(f"Drop schedule {name}?", yes=yes)
    _where_it_is(session, lambda conn: drop_schedule(conn, name, namespace=session.namespace))
    session.done(f"schedule {name} dropped", {"schedule": name})


@command(group, "run")
def run(session: Session, name: Name) -> None:
    """Publish a schedule's event now, also while it is paused, and tell the event's id."""
    _, event_id = _where_it_is(session, lambda conn: run_now(conn, name, namespace=session.namespace))
    session.done(str(event_id), {"schedule": name, "event_id": event_id})


@command(group, "next")
def next_(session: Session, name: Name, count: Count = 10) -> None:
    """Show when a schedule comes next, in its own time zone and in UTC."""

    def look(conn: Connection) -> tuple[Schedule, list[datetime]]:
        ticks = next_ticks(conn, name, count=count, namespace=session.namespace)
        return get_schedule(conn, name, namespace=session.namespace), ticks

    _, (found, ticks) = _where_it_is(session, look)
    if session.json:
        json_line(ticks)
        return
    zone = check_zone(found.zone)
    if found.zone == "UTC":
        console().print(table(["UTC"], [[tick] for tick in ticks]))
    else:
        console().print(table([found.zone, "UTC"], [[tick.astimezone(zone), tick] for tick in ticks]))
    if found.state != "active":
        console().print(f"the schedule is {found.state}; these ticks come only when it goes on")


@command(group, "history")
def history(session: Session, name: Name, count: Count = 20) -> None:
    """Show what became of a schedule's ticks, newest first: fired, skipped (missed) or manual (run by hand)."""

    def look(conn: Connection) -> list[list[object]]:
        get_schedule(conn, name, namespace=session.namespace)  # An unknown one is an error, not an empty list.
        ticks = list_ticks(conn, name, limit=count, namespace=session.namespace)
        return [[one.tick_at, one.outcome, one.fired_at, one.event_id] for one in ticks]

    _, rows = _where_it_is(session, look)
    if session.json:
        names = ("tick_at", "outcome", "fired_at", "event_id")
        json_line([dict(zip(names, row, strict=True)) for row in rows])
        return
    console().print(table(["tick", "outcome", "fired at", "event"], rows))


def _where_it_is(session: Session, act: Callable[[Connection], T]) -> tuple[Target, T]:
    """Does something on the shard that has the schedule; raises UnknownSchedule where none has."""
    missing: UnknownSchedule | None = None
    for target, conn in session.shards():
        try:
            return target, act(conn)
        except UnknownSchedule as error:
            missing = error
    assert missing is not None
    raise missing
