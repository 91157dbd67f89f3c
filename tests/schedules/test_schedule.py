"""Schedules: what they are refused for, what a run does, and what becomes of missed ticks. SQL alone fires; no ticker here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from headrace.core import (
    BadCron,
    BadHeaders,
    BadType,
    BadZone,
    Invalid,
    ScheduleExists,
    TopicInUse,
    UnknownSchedule,
    UnknownTopic,
)
from headrace.db import Connection
from headrace.log import drop_topic, read
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
    run_schedule,
)
from tests.builders import drain
from tests.schedules.conftest import set_clock


def hourly(
    conn: Connection, name: str = "report", *, missed: Missed = "skip", missed_max: int = 100, cron: str = "0 * * * *"
) -> int:
    return create_schedule(
        conn, name, cron="0 * * * *", topic="reports", type="due", payload={"n": 1}, missed=missed, missed_max=missed_max
    )


def ticks_in_log(conn: Connection) -> list[str]:
    """The tick times of the events in the log: day and hour."""
    drain(conn)
    return [str(event.headers["scheduled_at"])[8:13] for event in read(conn, "reports")]


def test_due_tick_is_one_event_however_often_it_is_run(stage: Connection) -> None:
    schedule_id = hourly(stage)
    set_clock(stage, "2026-03-02T13:00:01Z")
    assert [run_schedule(stage, schedule_id) for _ in range(3)] == [1, 0, 0]
    assert ticks_in_log(stage) == ["02T13"]


def test_event_carries_its_schedule_and_its_tick(stage: Connection) -> None:
    schedule_id = create_schedule(
        stage, "report", cron="0 * * * *", topic="reports", type="due", payload={"n": 1}, key="k", headers={"by": "cron"}
    )
    set_clock(stage, "2026-03-02T13:00:05Z")
    stage.execute("set timezone = 'Asia/Tokyo'")
    run_schedule(stage, schedule_id)
    drain(stage)
    [event] = read(stage, "reports")
    assert (event.type, event.key, event.payload, event.producer) == ("due", "k", {"n": 1}, "schedule report")
    assert event.headers == {
        "by": "cron",
        "scheduled_task_id": schedule_id,
        "schedule": "report",
        "scheduled_at": "2026-03-02T13:00:00+00:00",
    }
    [tick] = list_ticks(stage, "report")
    assert (tick.outcome, tick.event_id) == ("fired", event.id)


def test_tick_rolled_back_with_its_transaction_is_still_due(stage: Connection) -> None:
    schedule_id = hourly(stage)
    set_clock(stage, "2026-03-02T13:00:01Z")
    with stage.transaction():
        assert run_schedule(stage, schedule_id) == 1
        raise psycopg.Rollback
    assert ticks_in_log(stage) == []
    assert run_schedule(stage, schedule_id) == 1
    assert ticks_in_log(stage) == ["02T13"]


def test_log_takes_a_tick_published_twice_for_one_event(stage: Connection) -> None:
    """The second guard: even a tick whose record was lost makes the same event id."""
    schedule_id = hourly(stage)
    set_clock(stage, "2026-03-02T13:00:01Z")
    run_schedule(stage, schedule_id)
    stage.execute("select headrace_internal.publish_tick(schedule_id, tick_at) from headrace_internal.schedule_tick")
    assert ticks_in_log(stage) == ["02T13"]


def test_event_ids_of_ticks_differ_and_are_uuids_of_version_8(stage: Connection) -> None:
    rows = stage.execute(
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
def test_missed_ticks_follow_the_policy_and_the_rest_is_on_record(
    stage: Connection, missed: Missed, missed_max: int, expected: list[str]
) -> None:
    """Nobody ran from 12:00 to 17:01; the tick of 17:00 is within its grace."""
    schedule_id = hourly(stage, missed=missed, missed_max=missed_max)
    set_clock(stage, "2026-03-02T17:01:00Z")
    run_schedule(stage, schedule_id)
    assert ticks_in_log(stage) == expected
    assert len(list_ticks(stage, "report")) == 5
    assert sum(tick.outcome == "skipped" for tick in list_ticks(stage, "report")) == 5 - len(expected)


def test_paused_schedule_fires_nothing_and_misses_nothing(stage: Connection) -> None:
    schedule_id = hourly(stage, missed="all")
    pause_schedule(stage, "report")
    set_clock(stage, "2026-03-02T17:30:00Z")
    assert run_schedule(stage, schedule_id) == 0
    assert get_schedule(stage, "report").state == "paused"
    resume_schedule(stage, "report")
    set_clock(stage, "2026-03-02T18:00:01Z")
    assert run_schedule(stage, schedule_id) == 1
    assert ticks_in_log(stage) == ["02T18"]


def test_run_now_is_an_event_beside_the_ticks_also_while_paused(stage: Connection) -> None:
    schedule_id = hourly(stage)
    pause_schedule(stage, "report")
    event_id = run_now(stage, "report")
    resume_schedule(stage, "report")
    set_clock(stage, "2026-03-02T13:00:01Z")
    run_schedule(stage, schedule_id)
    assert ticks_in_log(stage) == ["02T12", "02T13"]
    assert {tick.outcome for tick in list_ticks(stage, "report")} == {"manual", "fired"}
    assert read(stage, "reports")[0].id == event_id


def test_changed_expression_counts_from_now(stage: Connection) -> None:
    hourly(stage)
    alter_schedule(stage, "report", cron="15 8 * * *", zone="Europe/Berlin")
    assert next_ticks(stage, "report", count=1) == [datetime(2026, 3, 3, 7, 15, tzinfo=UTC)]
    assert get_schedule(stage, "report").next_tick_at == datetime(2026, 3, 3, 7, 15, tzinfo=UTC)


def test_changed_expression_leaves_a_tick_already_due(stage: Connection) -> None:
    schedule_id = hourly(stage)
    set_clock(stage, "2026-03-02T13:00:01Z")
    alter_schedule(stage, "report", cron="30 * * * *", type="other", key="")
    assert run_schedule(stage, schedule_id) == 1


def test_dropped_schedule_leaves_its_events(stage: Connection) -> None:
    hourly(stage)
    run_now(stage, "report")
    drop_schedule(stage, "report")
    assert list_schedules(stage) == []
    assert len(ticks_in_log(stage)) == 1


def test_ticks_planned_ahead_are_shown_in_local_time(stage: Connection) -> None:
    create_schedule(stage, "report", cron="30 2 * * *", zone="Europe/Berlin", topic="reports", type="due")
    set_clock(stage, "2026-03-27T12:00:00Z")
    stage.execute("set timezone = 'UTC'")
    rows = stage.execute("select local_time::text from headrace.next_ticks('report', 40) where tick_at > '2026-03-28'").fetchall()
    assert [text for (text,) in rows][:3] == ["2026-03-28 02:30:00", "2026-03-29 03:00:00", "2026-03-30 02:30:00"]


def test_second_schedule_of_a_name_is_refused(stage: Connection) -> None:
    hourly(stage)
    with pytest.raises(ScheduleExists, match='schedule "report" is already there'):
        hourly(stage)


def test_unknown_schedule_names_the_known_ones(stage: Connection) -> None:
    hourly(stage)
    with pytest.raises(UnknownSchedule, match=r'no schedule "reports" .*known schedules: report'):
        pause_schedule(stage, "reports")
    with pytest.raises(UnknownSchedule, match="no schedule with id 77"):
        run_schedule(stage, 77)


def test_unknown_topic_is_refused(stage: Connection) -> None:
    with pytest.raises(UnknownTopic, match='no topic "nowhere"'):
        create_schedule(stage, "report", cron="0 * * * *", topic="nowhere", type="due")


def test_topic_with_schedules_is_not_dropped(stage: Connection) -> None:
    hourly(stage)
    with pytest.raises(TopicInUse, match='topic "reports" has schedules: report'):
        drop_topic(stage, "reports", force=True)


def test_bad_event_is_refused_when_the_schedule_is_made(stage: Connection) -> None:
    with pytest.raises(BadType):
        create_schedule(stage, "report", cron="0 * * * *", topic="reports", type="no name")
    with pytest.raises(BadHeaders):
        create_schedule(stage, "report", cron="0 * * * *", topic="reports", type="due", headers={"x": "y" * 16_370})


@pytest.mark.parametrize("name", ["", "Report", "re port", "x" * 101])
def test_name_rule(stage: Connection, name: str) -> None:
    with pytest.raises(Invalid, match="schedule_name_rule"):
        hourly(stage, name)


WAYS = {
    "function": "select headrace.create_schedule('report', %s, 'reports', 'due', p_zone => %s)",
    "insert": "insert into headrace.schedule (schedule, cron, zone, topic_id, type) "
    "select 'report', %s, %s, headrace_internal.topic_id('reports'), 'due'",
    "update": "update headrace.schedule set cron = %s, zone = %s",
}


@pytest.mark.parametrize("way", WAYS)
def test_bad_expression_and_zone_are_refused_on_every_way_in(stage: Connection, way: str) -> None:
    if way == "update":
        hourly(stage)
    with pytest.raises(psycopg.Error, match='bad hour "25"') as bad_cron:
        stage.execute(WAYS[way], ("0 25 * * *", "UTC"))
    with pytest.raises(psycopg.Error, match='no time zone "CEST"') as bad_zone:
        stage.execute(WAYS[way], ("0 6 * * *", "CEST"))
    assert (bad_cron.value.sqlstate, bad_zone.value.sqlstate) == ("HR330", "HR331")


def test_bad_expression_and_zone_are_refused_by_the_library(stage: Connection) -> None:
    hourly(stage)
    for refused in ({"cron": "0 25 * * *"}, {"cron": "0 0 30 2 *"}):
        with pytest.raises(BadCron):
            alter_schedule(stage, "report", **refused)  # type: ignore[arg-type]
    with pytest.raises(BadZone):
        alter_schedule(stage, "report", zone="CEST")


def test_ticks_of_two_days_ago_are_forgotten_when_asked(stage: Connection) -> None:
    schedule_id = hourly(stage, missed="all")
    set_clock(stage, "2026-03-02T15:00:01Z")
    run_schedule(stage, schedule_id)
    set_clock(stage, "2026-03-04T15:00:02Z")
    stage.execute("select headrace_internal.trim_schedule_ticks(%s)", (timedelta(days=2),))
    assert list_ticks(stage, "report") == []
