"""`headrace schedule`: cron expressions that publish events."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, TypeVar

import msgspec
import typer

from headrace import schedules
from headrace.cli.options import Yes
from headrace.cli.output import format_value, table
from headrace.cli.publish import raw_json
from headrace.cli.session import Session, command, facts_table
from headrace.core import UnknownSchedule
from headrace.db import Connection, Shards, Target, connect

group = typer.Typer(help="Schedules: publish an event at every tick of a cron expression, in a time zone.")

T = TypeVar("T")

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name of the schedule.", show_default=False)]
Count = Annotated[int, typer.Option("-n", min=1, max=1000, help="How many ticks.")]
CRON = "Five fields, or six with seconds first."
MISSED = "Which missed ticks to fire later: none, the newest, or the newest --missed-max."
MISSED_MAX = "With --missed all: at most this many."
GRACE_S = "A tick counts as missed after this many seconds."


@command(group, "list")
def list_(session: Session) -> None:
    """List schedules: active, paused, failing (will retry) or invalid."""
    rows = session.collect(lambda conn: schedules.list_schedules(conn, namespace=session.namespace))
    columns = ["schedule", "cron", "zone", "topic", "event type", "state", "next tick", "last tick", "fired by", "error"]
    session.show(columns, rows, _row)


def _row(schedule: schedules.Schedule) -> list[object]:
    next_tick = schedule.next_tick_at if schedule.state == "active" else None
    fired_by = "pg_cron" if schedule.by_cron else "nodes"
    definition = [schedule.schedule, schedule.cron, schedule.zone, schedule.topic, schedule.type]
    return [*definition, schedule.state, next_tick, schedule.last_tick_at, fired_by, schedule.error]


@command(group, "show")
def show(session: Session, name: Name) -> None:
    """Show one schedule."""
    target, schedule = _on_its_shard(session, lambda conn: schedules.get_schedule(conn, name, namespace=session.namespace))
    facts: dict[str, object] = msgspec.to_builtins(schedule)
    session.print({"shard": target.name} | facts, facts_table(f"schedule {name}", target, facts))


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
    missed: Annotated[schedules.Missed, typer.Option(help=MISSED)] = "skip",
    missed_max: Annotated[int, typer.Option(help=MISSED_MAX)] = 100,
    grace_s: Annotated[float, typer.Option(help=GRACE_S)] = 120,
    active: Annotated[bool, typer.Option("--active/--paused", help="Start at once, or wait for `resume`.")] = True,
) -> None:
    """Create a schedule.

    With several shards it lives on one of them, so that a tick is one event: on the shard of its key.

    Example: headrace schedule create daily-report '30 6 * * MON-FRI' --zone Europe/Berlin --topic reports --type report.due
    """
    target = Shards(session.targets).shard_of(name if key is None else key)
    with connect(target) as conn:
        schedules.create_schedule(
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
        first_tick = schedules.next_ticks(conn, name, count=1, namespace=session.namespace)[0]
    state = (
        f"its first tick is at {format_value(first_tick.astimezone(schedules.check_zone(zone)))}" if active else "it is paused"
    )
    session.done(f"schedule {name} created; {state}", {"schedule": name, "shard": target.name, "next_tick_at": first_tick})


@command(group, "alter")
def alter(
    session: Session,
    name: Name,
    cron: Annotated[str | None, typer.Option(help=CRON)] = None,
    zone: Annotated[str | None, typer.Option(help="IANA time zone.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Event type.")] = None,
    payload: Annotated[str | None, typer.Option(help="JSON.")] = None,
    key: Annotated[str | None, typer.Option(help="Key of the event; '' removes it.")] = None,
    missed: Annotated[schedules.Missed | None, typer.Option(help=MISSED)] = None,
    missed_max: Annotated[int | None, typer.Option(help=MISSED_MAX)] = None,
    grace_s: Annotated[float | None, typer.Option(help=GRACE_S)] = None,
) -> None:
    """Change a schedule. Options that you leave out keep their values.

    Example: headrace schedule alter daily-report --cron '0 7 * * *'
    """
    if all(option is None for option in (cron, zone, type_, payload, key, missed, missed_max, grace_s)):
        raise typer.BadParameter("nothing to change; add an option such as --cron")

    def change(conn: Connection) -> None:
        schedules.alter_schedule(
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

    _on_its_shard(session, change)
    session.done(f"schedule {name} changed", {"schedule": name})


@command(group, "pause")
def pause(session: Session, name: Name) -> None:
    """Pause a schedule. Ticks that pass meanwhile do not count as missed."""
    _on_its_shard(session, lambda conn: schedules.pause_schedule(conn, name, namespace=session.namespace))
    session.done(f"schedule {name} is paused", {"schedule": name, "state": "paused"})


@command(group, "resume")
def resume(session: Session, name: Name) -> None:
    """Resume a paused schedule, from now on."""
    _on_its_shard(session, lambda conn: schedules.resume_schedule(conn, name, namespace=session.namespace))
    session.done(f"schedule {name} resumed", {"schedule": name, "state": "active"})


@command(group, "drop")
def drop(session: Session, name: Name, yes: Yes = False) -> None:
    """Drop a schedule with its history. Its events stay in the log."""
    session.confirm(f"Drop schedule {name}?", yes=yes)
    _on_its_shard(session, lambda conn: schedules.drop_schedule(conn, name, namespace=session.namespace))
    session.done(f"schedule {name} dropped", {"schedule": name})


@command(group, "run")
def run(session: Session, name: Name) -> None:
    """Publish the event of a schedule now, and print the event's id.

    This works for a paused schedule, too.
    """
    _, event_id = _on_its_shard(session, lambda conn: schedules.run_now(conn, name, namespace=session.namespace))
    session.done(str(event_id), {"schedule": name, "event_id": event_id})


@command(group, "next")
def next_(session: Session, name: Name, count: Count = 10) -> None:
    """Show the next ticks of a schedule, in its time zone and in UTC."""
    _, (schedule, ticks) = _on_its_shard(
        session,
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

    _, ticks = _on_its_shard(session, read)
    row = attrgetter("tick_at", "outcome", "fired_at", "event_id")
    session.print(ticks, table(["tick", "outcome", "fired at", "event"], map(row, ticks)))


def _on_its_shard(session: Session, action: Callable[[Connection], T]) -> tuple[Target, T]:
    """Runs an action on the shard that has the schedule; raises UnknownSchedule when no shard has it."""
    missing: UnknownSchedule | None = None
    for target, conn in session.shards():
        try:
            return target, action(conn)
        except UnknownSchedule as error:
            missing = error
    assert missing is not None
    raise missing
