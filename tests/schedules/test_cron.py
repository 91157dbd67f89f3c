"""Cron expressions: local time across daylight saving, clear errors, and how far a plan reaches."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from headrace.core import CronNeverFires, InvalidCron, InvalidTimeZone
from headrace.db import Connection
from headrace.schedules import check_cron, check_zone, ticks
from headrace.schedules.cron import HORIZON, NICKNAMES, TICKS_MAX, plan_ticks


def local(cron: str, zone: str, after: str, count: int) -> list[str]:
    """The next ticks in local time, with the UTC offset."""
    start = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone))
    return [tick.astimezone(ZoneInfo(zone)).strftime("%d %H:%M%z") for tick in islice(ticks(cron, zone, start), count)]


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00", ["29 03:00+0200", "30 02:30+0200"]),
        ("America/New_York", "30 2 * * *", "2026-03-07T12:00", ["08 03:00-0400", "09 02:30-0400"]),
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00", ["04 02:30+1100", "05 02:15+1100"]),
    ],
)
def test_time_of_day_that_does_not_exist_fires_at_the_first_minute_that_does(
    zone: str, cron: str, after: str, expected: list[str]
) -> None:
    assert local(cron, zone, after, 2) == expected


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00", ["25 02:30+0200", "26 02:30+0100"]),
        ("America/New_York", "30 1 * * *", "2026-10-31T12:00", ["01 01:30-0400", "02 01:30-0500"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00", ["05 01:45+1100", "06 01:45+1030"]),
    ],
)
def test_time_of_day_that_exists_twice_fires_the_first_time_only(zone: str, cron: str, after: str, expected: list[str]) -> None:
    assert local(cron, zone, after, 2) == expected


def test_plan_made_in_the_second_pass_of_an_hour_does_not_go_back_to_the_first() -> None:
    second_pass = datetime(2026, 10, 25, 2, 15, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    assert next(ticks("30 2 * * *", "Europe/Berlin", second_pass)) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "after"),
    [
        ("Europe/Berlin", "2026-03-28T12:00"),
        ("Europe/Berlin", "2026-10-24T12:00"),
        ("America/New_York", "2026-10-31T12:00"),
        ("Australia/Lord_Howe", "2026-04-04T12:00"),
        ("Australia/Lord_Howe", "2026-10-03T12:00"),
    ],
)
@pytest.mark.parametrize("cron", ["*/10 * * * *", "0 */10 * * * *"])
def test_expression_of_elapsed_time_keeps_its_interval_across_the_change(zone: str, after: str, cron: str) -> None:
    start = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone))
    moments = list(islice(ticks(cron, zone, start), 200))
    assert {later - earlier for earlier, later in pairwise(moments)} == {timedelta(minutes=10)}


def test_seconds_make_an_expression_of_elapsed_time() -> None:
    """Debian's cron has no seconds: no time is moved, and the hour that exists twice counts twice."""
    assert local("0 30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 1) == ["30 02:30+0200"]
    assert local("0 30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == ["25 02:30+0200", "25 02:30+0100"]


def test_listed_minutes_all_fire_on_the_day_of_a_half_hour_shift() -> None:
    assert local("0,30 2 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", 2) == ["05 02:00+1030", "05 02:30+1030"]


@given(
    minutes=st.sampled_from(["*", "*/7", "0", "30", "0,30", "5-50/5"]),
    hours=st.sampled_from(["*", "*/2", "0", "1", "2", "1-3", "23"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu"]),
    after=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),
)
def test_ticks_rise_and_are_after_the_given_moment(minutes: str, hours: str, zone: str, after: datetime) -> None:
    moments = [after, *islice(ticks(f"{minutes} {hours} * * *", zone, after), 30)]
    assert all(earlier < later for earlier, later in pairwise(moments))


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "61 * * * *", "* * * * * * *", "@reboot", "@daily @daily", "*/0 * * * *", "5-1 * * * *"]
)
def test_invalid_expression_is_rejected_with_advice(cron: str) -> None:
    with pytest.raises(InvalidCron, match="write 5 fields"):
        check_cron(cron)


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("name", [*NICKNAMES, "@DAILY", " @hourly ", "@reboot", "@daily 5", "@", "@dailyx"])
def test_names_of_crontab_mean_the_same_in_sql_and_library(conn: Connection, name: str) -> None:
    valid = name.strip().lower() in NICKNAMES
    for check in (check_cron, lambda cron: conn.execute("select headrace_internal.check_cron(%s)", (cron,))):
        with nullcontext() if valid else pytest.raises((InvalidCron, psycopg.Error), match="no such name"):
            check(name)


def test_name_of_crontab_follows_the_time_zone() -> None:
    after = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert [tick.isoformat() for tick in islice(ticks("@daily", "Europe/Berlin", after), 2)] == [
        "2026-03-28T23:00:00+00:00",
        "2026-03-29T22:00:00+00:00",
    ]


def test_very_long_expression_is_rejected() -> None:
    with pytest.raises(InvalidCron, match="at most 200"):
        check_cron("0," * 200 + "0 * * * *")


@pytest.mark.parametrize("zone", ["", "Berlin", "europe/berlin", "UTC+1", "CEST-2", "../etc/passwd", "localtime", "posix/UTC"])
def test_zone_that_is_not_an_iana_name_is_rejected(zone: str) -> None:
    with pytest.raises(InvalidTimeZone, match="IANA name"):
        check_zone(zone)


FIELD = st.text(alphabet="0123456789*/-,LW#MONJUL ", min_size=1, max_size=7) | st.sampled_from(
    [
        "*",
        "5",
        "1-5",
        "*/3",
        "MON",
        "MON-FRI",
        "L",
        "LW",
        "5L",
        "MON#2",
        "0,3",
        "JAN-MAR/2",
        "7",
        "31",
        "59",
        "*,1",
        "1/2",
        "FRI-MON",
    ]
)


@pytest.mark.lane("pg18")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cron=st.lists(FIELD, min_size=4, max_size=7).map(" ".join))
def test_sql_and_library_accept_the_same_expressions(conn: Connection, cron: str) -> None:
    """Except days that no month has, which SQL leaves to planning."""
    try:
        conn.execute("select headrace_internal.check_cron(%s)", (cron,))
        in_sql = True
    except psycopg.Error as error:
        assert error.sqlstate == "HR330"
        in_sql = False
    try:
        check_cron(cron)
    except InvalidCron as error:
        assert not in_sql or "Bad day-of-month" in str(error)
    else:
        assert in_sql


NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_plan_has_at_least_the_next_tick_however_late() -> None:
    plan = plan_ticks("0 0 29 2 *", "UTC", planned_until=NOON, now=NOON)
    assert plan.ticks == (datetime(2028, 2, 29, tzinfo=UTC),)
    assert plan.until == plan.ticks[-1]


@pytest.mark.parametrize(("cron", "count"), [("0 6 * * *", 32), ("* * * * *", TICKS_MAX), ("* * * * * *", TICKS_MAX)])
def test_plan_ends_at_the_horizon_or_the_most_ticks(cron: str, count: int) -> None:
    plan = plan_ticks(cron, "UTC", planned_until=NOON, now=NOON)
    assert len(plan.ticks) == count
    assert plan.until <= NOON + HORIZON
    assert NOON < plan.replan_at < plan.until


def test_consecutive_plans_have_no_gap_and_no_overlap() -> None:
    first = plan_ticks("* * * * *", "Europe/Berlin", planned_until=NOON, now=NOON)
    second = plan_ticks("* * * * *", "Europe/Berlin", planned_until=first.until, now=first.replan_at)
    planned = [*first.ticks, *second.ticks]
    assert planned == list(islice(ticks("* * * * *", "Europe/Berlin", NOON), len(planned)))


def test_plan_after_a_long_outage_has_the_newest_ticks() -> None:
    """A year of seconds is not walked one by one."""
    plan = plan_ticks("* * * * * *", "UTC", planned_until=NOON - timedelta(days=365), now=NOON)
    passed = [tick for tick in plan.ticks if tick <= NOON]
    assert len(passed) == TICKS_MAX
    assert (passed[0], passed[-1]) == (NOON - timedelta(seconds=TICKS_MAX - 1), NOON)


def test_plan_after_a_long_outage_has_rare_ticks() -> None:
    plan = plan_ticks("0 0 1 1 *", "UTC", planned_until=NOON - timedelta(days=500), now=NOON)
    assert plan.ticks[:2] == (datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))


def test_expression_that_never_fires_is_rejected() -> None:
    """The first of February is never the fifth Monday."""
    with pytest.raises(CronNeverFires, match="fifty years"):
        plan_ticks("0 0 */31 2 1#5", "UTC", planned_until=NOON, now=NOON)
