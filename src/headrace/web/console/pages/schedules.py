"""Schedules: in words, the next ten runs in local time, history; run now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any

from headrace import schedules
from headrace.core import Forbidden
from headrace.db import Connection, fetch_value
from headrace.schedules import SCHEDULES, Schedule, ScheduleDefinition
from headrace.web.console.pages.definitions import DefinitionPages, Details
from headrace.web.console.routes import change
from headrace.web.console.tables import Column, Row, Table, to_row
from headrace.web.console.view import Done, Page, View

HISTORY_ROWS = 100
NEXT_TICKS = 10


class SchedulePages(DefinitionPages[ScheduleDefinition]):
    kind = SCHEDULES
    listed = ()
    example = "headrace schedule create nightly '30 2 * * *' --zone Europe/Berlin --topic orders --type report.due"
    applied_hint = ""
    drop_hint = "Its past ticks go with it; its events stay in the log."

    def state_word(self, state: Schedule) -> str:
        return state.state

    def columns(self, view: View) -> list[Column | str]:
        return [
            Column("words", "when"),
            Column("zone", "time zone", wide=True),
            Column("next_tick_at", "next run", kind="time"),
            Column("last_tick_at", "last run", kind="time", wide=True),
            Column("topic", link=view.link("/topics", "topic"), wide=True),
            Column("type", "event type", wide=True),
        ]

    def rows(self, view: View, states: Sequence[tuple[str, Schedule]]) -> list[dict[str, Any]]:
        return [
            {
                "words": schedules.explain_cron(state.cron),
                "next_tick_at": state.next_tick_at if state.state == "active" else None,
                "last_tick_at": state.last_tick_at,
            }
            for _, state in states
        ]

    def facts(self, view: View, state: Schedule) -> list[tuple[str, object]]:
        return [("Fired by", "pg_cron" if state.by_cron else "nodes")]

    def show_details(self, view: View, name: str, states: Sequence[tuple[str, Schedule]]) -> Details:
        schedule = states[0][1]

        def read_ticks(conn: Connection) -> tuple[list[schedules.Tick], list[datetime], datetime]:
            ticks = schedules.list_ticks(conn, name, limit=HISTORY_ROWS, namespace=view.namespace)
            is_valid = schedule.state != "invalid"
            following = schedules.next_ticks(conn, name, count=NEXT_TICKS, namespace=view.namespace) if is_valid else []
            return ticks, following, fetch_value(conn, "select headrace.clock()")

        _, (history, following, now) = view.find(read_ticks)
        zone = Column("local", f"local time, {schedule.zone}")
        columns = (zone, "zone", Column("change", "daylight saving", kind="state"), Column("at", "from now"))
        event_link = lambda row: view.url(f"/events/{row['event_id']}") if row["event_id"] else None  # noqa: E731
        event = Column("event_id", "event", kind="code", link=event_link)
        local = local_ticks(following, schedules.check_zone(schedule.zone), now)
        tables = [
            Table("runs", columns, local, title="Next runs", empty_text="It never fires."),
            Table(
                "history",
                ("tick_at outcome fired_at", event),
                [to_row(tick) for tick in history],
                title="History",
                empty_text="It has not fired yet.",
            ),
        ]
        return tables, {"words": schedules.explain_cron(schedule.cron), "payload": view.mask(schedule.payload)}

    def edit_form(self, view: View) -> Page:
        """Only for those who see the whole payload: an edit would lose what is hidden."""
        if view.hidden_fields:
            name = view.form.get("schedule") or view.query.get("schedule", "")
            _, schedule = view.find(view.bind(SCHEDULES.get, name))
            if view.mask(schedule.payload) != schedule.payload:
                raise Forbidden("some fields of this payload are hidden from you; ask somebody who may see them")
        return super().edit_form(view)

    def run(self, view: View) -> Done:
        name, [event_id] = self.change(view, "run", lambda conn, name: schedules.run_now(conn, name, namespace=view.namespace))
        return Done(f"schedule {name} published event {event_id}", self.url(view, name))


def local_ticks(ticks: Iterable[datetime], zone: tzinfo, now: datetime) -> list[Row]:
    """Ticks as the clock on the wall shows them. `change` says that the clock was changed since the tick before."""
    result: list[Row] = []
    offset = now.astimezone(zone).utcoffset() or timedelta()
    for tick in ticks:
        local = tick.astimezone(zone)
        shift = (local.utcoffset() or timedelta()) - offset
        offset += shift
        hours = abs(shift.total_seconds()) / 3600
        change = f"clock {'forward' if shift > timedelta() else 'back'} {hours:g} h" if shift else None
        if local.fold and change is None:
            change = "second pass of this hour"
        text = local.strftime("%a %Y-%m-%d %H:%M:%S")
        result.append({"at": tick, "local": text, "zone": local.tzname() or "", "change": change})
    return result


PAGES = SchedulePages()
ROUTES = (change("/schedules/-/run", PAGES.run, form=PAGES.show), *PAGES.routes())
