"""Schedules: which are rejected, what a run does, and what happens to missed ticks. SQL alone fires, without a ticker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from headrace.core import (
    Invalid,
    InvalidCron,
    InvalidEventType,
    InvalidHeaders,
    InvalidTimeZone,
    ScheduleExists,
    TopicInUse,
    UnknownSchedule,
    UnknownTopic,
)
from headrace.db import Connection, map_database_errors, query
from headrace.log.topics import drop_topic, read_log
from headrace.schedules import (
    Missed,
    alter_schedule,
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
from tests.builders import drain
from tests.schedules.conftest import set_clock


def hourly(
    conn: Connection, name: str = "report", *, missed: Missed = "skip", missed_max: int = 100, cron: str = "0 * * * *"
) -> int:
    return create_schedule(
        conn, name, cron="0 * * * *", topic="reports", type="due", payload={"n": 1}, missed=missed, missed_max=missed_max
    )


def run_schedule(conn: Connection, schedule_id: int) -> int:
    """Fires the due ticks, as a pg_cron job does; returns the number of events."""
    with map_database_errors():
        [(events,)] = conn.execute("select headrace.run_schedule(%s)", (schedule_id,)).fetchall()
    return int(events)


def ticks_in_log(conn: Connection) -> list[str]:
    """The tick times of the events in the log: day and hour."""
    drain(conn)
    return [str(event.headers["scheduled_at"])[8:13] for event in read_log(conn, "reports")]


def test_due_tick_is_one_event_however_often_it_runs(reports: Connection) -> None:
    schedule_id = hourly(reports)
    set_clock(reports, "2026-03-02T13:00:01Z")
    assert [run_schedule(reports, schedule_id) for _ in range(3)] == [1, 0, 0]
    assert ticks_in_log(reports) == ["02T13"]


def test_event_carries_its_schedule_and_its_tick(reports: Connection) -> None:
    schedule_id = create_schedule(
        reports, "report", cron="0 * * * *", topic="reports", type="due", payload={"n": 1}, key="k", headers={"by": "cron"}
    )
    set_clock(reports, "2026-03-02T13:00:05Z")
    reports.execute("set timezone = 'Asia/Tokyo'")
    run_schedule(reports, schedule_id)
    drain(reports)
    [event] = read_log(reports, "reports")
    assert (event.type, event.key, event.payload, event.producer) == ("due", "k", {"n": 1}, "schedule report")
    assert event.headers == {
        "by": "cron",
        "scheduled_task_id": schedule_id,
        "schedule": "report",
        "scheduled_at": "2026-03-02T13:00:00+00:00",
    }
    [tick] = list_ticks(reports, "report")
    assert (tick.outcome, tick.event_id) == ("fired", event.id)


def test_tick_rolled_back_with_its_transaction_is_still_due(reports: Connection) -> None:
    schedule_id = hourly(reports)
    set_clock(reports, "2026-03-02T13:00:01Z")
    with reports.transaction():
        assert run_schedule(reports, schedule_id) == 1
        raise psycopg.Rollback
    assert ticks_in_log(reports) == []
    assert run_schedule(reports, schedule_id) == 1
    assert ticks_in_log(reports) == ["02T13"]


def test_tick_published_twice_is_one_event_in_the_log(reports: Connection) -> None:
    """The second guard: even a tick whose record was lost has the same event id."""
    schedule_id = hourly(reports)
    set_clock(reports, "2026-03-02T13:00:01Z")
    run_schedule(reports, schedule_id)
    reports.execute("select headrace_internal.publish_tick(schedule_id, tick_at) from headrace.schedule_tick")
    assert ticks_in_log(reports) == ["02T13"]


@pytest.mark.lane("pg18")
def test_event_ids_of_ticks_are_distinct_uuids_of_version_8(reports: Connection) -> None:
    rows = reports.execute(
        """select headrace_internal.schedule_event_id(u, now() + n * interval '1 second')::text
           from (values (gen_random_uuid()), (gen_random_uuid())) v (u), generate_series(1, 50) n"""
    ).fetchall()
    assert len(set(rows)) == 100
    assert all(text[14] == "8" and text[19] in "89ab" for (text,) in rows)


@pytest.mark.parametrize(
    ("missed", "missed_max", "expected"),
    [
        ("skip", 100, ["02T17"]),
        ("one", 100, ["02T16", "02T17"]),
        ("all", 100, ["02T13", "02T14", "02T15", "02T16", "02T17"]),
        ("all", 2, ["02T15", "02T16", "02T17"]),
    ],
)
def test_missed_ticks_follow_the_policy_and_are_recorded(
    reports: Connection, missed: Missed, missed_max: int, expected: list[str]
) -> None:
    """Nobody ran from 12:00 to 17:01; the tick of 17:00 is within its grace."""
    schedule_id = hourly(reports, missed=missed, missed_max=missed_max)
    set_clock(reports, "2026-03-02T17:01:00Z")
    run_schedule(reports, schedule_id)
    assert ticks_in_log(reports) == expected
    assert len(list_ticks(reports, "report")) == 5
    assert sum(tick.outcome == "skipped" for tick in list_ticks(reports, "report")) == 5 - len(expected)


def test_paused_schedule_fires_nothing_and_misses_nothing(reports: Connection) -> None:
    schedule_id = hourly(reports, missed="all")
    pause_schedule(reports, "report")
    set_clock(reports, "2026-03-02T17:30:00Z")
    assert run_schedule(reports, schedule_id) == 0
    assert get_schedule(reports, "report").state == "paused"
    resume_schedule(reports, "report")
    set_clock(reports, "2026-03-02T18:00:01Z")
    assert run_schedule(reports, schedule_id) == 1
    assert ticks_in_log(reports) == ["02T18"]


def test_run_now_publishes_an_extra_event_even_while_paused(reports: Connection) -> None:
    schedule_id = hourly(reports)
    pause_schedule(reports, "report")
    event_id = run_now(reports, "report")
    resume_schedule(reports, "report")
    set_clock(reports, "2026-03-02T13:00:01Z")
    run_schedule(reports, schedule_id)
    assert ticks_in_log(reports) == ["02T12", "02T13"]
    assert {tick.outcome for tick in list_ticks(reports, "report")} == {"manual", "fired"}
    assert read_log(reports, "reports")[0].id == event_id


@pytest.mark.lane("pg18")
def test_changed_expression_applies_from_now_on(reports: Connection) -> None:
    hourly(reports)
    alter_schedule(reports, "report", cron="15 8 * * *", zone="Europe/Berlin")
    assert next_ticks(reports, "report", count=1) == [datetime(2026, 3, 3, 7, 15, tzinfo=UTC)]
    assert get_schedule(reports, "report").next_tick_at == datetime(2026, 3, 3, 7, 15, tzinfo=UTC)


def test_changed_expression_keeps_a_tick_that_is_already_due(reports: Connection) -> None:
    schedule_id = hourly(reports)
    set_clock(reports, "2026-03-02T13:00:01Z")
    alter_schedule(reports, "report", cron="30 * * * *", type="other", key="")
    assert run_schedule(reports, schedule_id) == 1


@pytest.mark.lane("pg18")
def test_events_of_a_dropped_schedule_stay_in_the_log(reports: Connection) -> None:
    hourly(reports)
    run_now(reports, "report")
    drop_schedule(reports, "report")
    assert list_schedules(reports) == []
    assert len(ticks_in_log(reports)) == 1


def test_ticks_planned_ahead_are_shown_in_local_time(reports: Connection) -> None:
    create_schedule(reports, "report", cron="30 2 * * *", zone="Europe/Berlin", topic="reports", type="due")
    set_clock(reports, "2026-03-27T12:00:00Z")
    reports.execute("set timezone = 'UTC'")
    rows = reports.execute(
        "select local_time::text from headrace.next_ticks('report', 40) where tick_at > '2026-03-28'"
    ).fetchall()
    assert [text for (text,) in rows][:3] == ["2026-03-28 02:30:00", "2026-03-29 03:00:00", "2026-03-30 02:30:00"]


@pytest.mark.lane("pg18")
def test_second_schedule_of_the_same_name_is_rejected(reports: Connection) -> None:
    hourly(reports)
    with pytest.raises(ScheduleExists, match='schedule "report"'):
        hourly(reports)


@pytest.mark.lane("pg18")
def test_unknown_schedule_names_the_known_ones(reports: Connection) -> None:
    hourly(reports)
    with pytest.raises(UnknownSchedule, match=r'no schedule "reports" .*known schedules: report'):
        pause_schedule(reports, "reports")
    with pytest.raises(UnknownSchedule, match="no schedule with id 77"):
        run_schedule(reports, 77)


@pytest.mark.lane("pg18")
def test_unknown_topic_is_rejected(reports: Connection) -> None:
    with pytest.raises(UnknownTopic, match='no topic "nowhere"'):
        create_schedule(reports, "report", cron="0 * * * *", topic="nowhere", type="due")


def test_topic_with_schedules_cannot_be_dropped(reports: Connection) -> None:
    hourly(reports)
    with pytest.raises(TopicInUse, match='topic "reports" has schedules: report'):
        drop_topic(reports, "reports", force=True)


@pytest.mark.lane("pg18")
def test_invalid_event_is_rejected_when_the_schedule_is_created(reports: Connection) -> None:
    with pytest.raises(InvalidEventType):
        create_schedule(reports, "report", cron="0 * * * *", topic="reports", type="no  name")
    with pytest.raises(InvalidHeaders):
        create_schedule(reports, "report", cron="0 * * * *", topic="reports", type="due", headers={"x": "y" * 16_370})


@pytest.mark.lane("pg18")
def test_invalid_name_is_rejected(reports: Connection) -> None:
    for name in ("", "Report", "re port", "x" * 101):
        with pytest.raises(Invalid, match="invalid schedule name; a name begins with"):
            hourly(reports, name)


WAYS = {
    "insert": "insert into headrace.schedule (schedule, cron, zone, topic, type) values ('other', %s, %s, 'reports', 'due')",
    "update": "update headrace.schedule set cron = %s, zone = %s",
}


def test_invalid_expression_and_zone_are_rejected_by_insert_and_update(reports: Connection) -> None:
    hourly(reports)
    for statement in WAYS.values():
        with pytest.raises(psycopg.Error, match='hour "25"') as bad_cron:
            reports.execute(statement, ("0 25 * * *", "UTC"))
        with pytest.raises(psycopg.Error, match='no time zone "CEST"') as bad_zone:
            reports.execute(statement, ("0 6 * * *", "CEST"))
        assert (bad_cron.value.sqlstate, bad_zone.value.sqlstate) == ("HR330", "HR331"), statement


@pytest.mark.lane("pg18")
def test_invalid_expression_and_zone_are_rejected_by_the_library(reports: Connection) -> None:
    hourly(reports)
    for options in ({"cron": "0 25 * * *"}, {"cron": "0 0 30 2 *"}):
        with pytest.raises(InvalidCron):
            alter_schedule(reports, "report", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidTimeZone):
        alter_schedule(reports, "report", zone="CEST")


@pytest.mark.lane("pg18")
def test_old_ticks_are_trimmed(reports: Connection) -> None:
    schedule_id = hourly(reports, missed="all")
    set_clock(reports, "2026-03-02T15:00:01Z")
    run_schedule(reports, schedule_id)
    set_clock(reports, "2026-03-04T15:00:02Z")
    reports.execute(query("schedules/trim_ticks"), {"keep": timedelta(days=2)})
    assert list_ticks(reports, "report") == []
