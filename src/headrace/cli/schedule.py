"""`headrace schedule`: cron expressions that publish events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from typer import Argument, Option

from headrace import schedules
from headrace.cli.definition import DefinitionGroup
from headrace.cli.output import format_value, table
from headrace.cli.session import Session, command
from headrace.core import UnknownSchedule
from headrace.db import Connection
from headrace.schedules import SCHEDULES, ScheduleDefinition


def _first_tick(session: Session, conn: Connection, definition: ScheduleDefinition) -> tuple[str, Mapping[str, object]]:
    """When a new schedule ticks for the first time."""
    first_tick = schedules.next_ticks(conn, definition.name, count=1, namespace=session.namespace)[0]
    text = f"its first tick is at {format_value(first_tick.astimezone(schedules.check_zone(definition.zone)))}"
    return text if definition.active else "it is paused", {"next_tick_at": first_tick}


Name = Annotated[str, Argument(metavar="SCHEDULE", help="Name of the schedule.", show_default=False)]
Count = Annotated[int, Option("-n", min=1, max=1000, help="How many ticks.")]
group = DefinitionGroup(
    kind=SCHEDULES,
    help="Schedules: publish an event at every tick of a cron expression, in a time zone.",
    listed=("cron", "zone", "topic", "type"),
    states=(
        "state",
        ("next tick", lambda schedule: schedule.next_tick_at if schedule.state == "active" else None),
        ("last tick", "last_tick_at"),
        ("fired by", lambda schedule: "pg_cron" if schedule.by_cron else "nodes"),
        "error",
    ),
    arguments=("cron",),
    created=_first_tick,
    texts={
        "list": "It is active, paused, failing (will retry) or invalid.",
        "create": """With several shards it lives on the shard of its key, so that a tick is one event.

        Example: headrace schedule create daily-report '30 6 * * MON-FRI' --zone Europe/Berlin --topic reports --type report.due""",
        "alter": "Example: headrace schedule alter daily-report --cron '0 7 * * *'",
        "drop": "Its past ticks go with it; its events stay in the log.",
        "pause": "Ticks that pass meanwhile do not count as missed.",
    },
).build()


@command(group, "run")
def run(session: Session, name: Name) -> None:
    """Publish the event of a schedule now, and print the event's id.

    This works for a paused schedule, too.
    """
    _, event_id = session.find(UnknownSchedule, session.bind(schedules.run_now, name))
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
