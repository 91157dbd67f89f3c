"""Tickers: exactly one event per tick, however many tickers run and whatever is killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from headrace.db import Connection, Target, connect, create_namespace
from headrace.log.topics import create_topic, read_log
from headrace.node import Headrace, Node
from headrace.schedules import create_schedule, get_schedule, list_ticks, pause_schedule
from tests.builders import create_outbox_triggers, drain, publish, topic
from tests.schedules.conftest import Start, fire_all, set_clock


def schedule(conn: Connection, name: str = "report", *, cron: str = "0 * * * *", missed: str = "all", zone: str = "UTC") -> int:
    return create_schedule(conn, name, cron=cron, topic="reports", type="due", missed=missed, zone=zone)  # type: ignore[arg-type]


def events(conn: Connection) -> int:
    drain(conn)
    return len(read_log(conn, "reports", limit=100_000))


async def test_schedule_written_by_sql_is_planned_and_fired(reports: Connection, start: Start) -> None:
    reports.execute(
        "insert into headrace.schedule (schedule, cron, topic, type) values ('report', '0 * * * *', 'reports', 'due')"
    )
    ticker = await start()
    assert await fire_all(ticker) == 0
    assert get_schedule(reports, "report").next_tick_at == datetime(2026, 3, 2, 13, tzinfo=UTC)
    set_clock(reports, "2026-03-02T13:00:01Z")
    assert await fire_all(await start()) == 1


@pytest.mark.lane("pg18")
async def test_schedule_that_never_fires_is_marked_and_the_others_go_on(reports: Connection, start: Start) -> None:
    reports.execute(
        "insert into headrace.schedule (schedule, cron, topic, type) values ('never', '0 0 30 2 *', 'reports', 'due')"
    )
    schedule(reports)
    await fire_all(await start())
    never = get_schedule(reports, "never")
    assert never.state == "invalid"
    assert "Bad day-of-month" in str(never.error)
    set_clock(reports, "2026-03-02T13:00:01Z")
    assert await fire_all(await start()) == 1
    reports.execute("update headrace.schedule set cron = '0 0 28 2 *' where schedule = 'never'")
    await fire_all(await start())
    assert get_schedule(reports, "never").state == "active"


@pytest.mark.lane("pg18")
async def test_namespaces_take_turns_and_failed_schedules_come_last(reports: Connection, start: Start) -> None:
    """Whatever one namespace has due, and however slowly it fails, delays another one by one turn."""
    create_namespace(reports, "other")
    create_topic(reports, "reports", namespace="other")
    for n in range(3):
        schedule(reports, f"mine-{n}")
        schedule(reports, f"failed-{n}")
    create_schedule(reports, "yours", cron="15 13 * * *", topic="reports", type="due", namespace="other")
    ticker = await start()
    await ticker.plan_once()
    reports.execute("update headrace_internal.schedule set attempts = 1 where schedule ~ 'failed'")
    set_clock(reports, "2026-03-02T13:30:01Z")
    ticker = await start()
    while await ticker.fire_once():
        pass
    fired = reports.execute(
        "select s.schedule from headrace.schedule_tick t join headrace.schedule s using (schedule_id) order by t.fired_at"
    ).fetchall()
    names = [name.split("-")[0] for (name,) in fired]
    assert names == ["mine", "yours", "mine", "mine", "failed", "failed", "failed"]


@pytest.mark.lane("pg18")
async def test_held_schedule_keeps_no_other_from_being_planned(reports: Connection, second: Connection, start: Start) -> None:
    for name in ("held", "free"):
        reports.execute(
            "insert into headrace.schedule (schedule, cron, topic, type) values (%s, '0 * * * *', 'reports', 'due')", (name,)
        )
    with second.transaction():
        second.execute("select from headrace_internal.schedule where schedule = 'held' for update")
        ticker = await start()
        await ticker.plan_once()
        assert get_schedule(reports, "free").next_tick_at is not None
        assert reports.execute("select kind, name from headrace.failure").fetchall() == [("schedule plan", "held")]
    reports.execute("delete from headrace_internal.failure")
    await ticker.plan_once()
    assert get_schedule(reports, "held").next_tick_at is not None


async def test_concurrent_tickers_make_one_event_per_tick(reports: Connection, start: Start) -> None:
    # Every minute: on a slow machine ten seconds pass while the schedules are created.
    for n in range(10):
        schedule(reports, f"report-{n}", cron="* * * * *")
    set_clock(reports, "2026-03-02T13:00:00Z")
    tickers = [await start() for _ in range(3)]
    fired = await asyncio.gather(*(fire_all(ticker) for ticker in tickers))
    assert sum(fired) == 10 * 60
    assert events(reports) == 10 * 60


@pytest.mark.lane("pg18")
async def test_plan_is_extended_in_time(reports: Connection, start: Start) -> None:
    schedule(reports, cron="* * * * *")
    first = get_schedule(reports, "report").planned_until
    set_clock(reports, "2026-03-03T06:00:00Z")
    await fire_all(await start())
    assert get_schedule(reports, "report").planned_until > first
    assert events(reports) == 100 + 2  # the newest hundred missed ticks, and those on time
    assert len(list_ticks(reports, "report", limit=5000)) == 18 * 60


@pytest.mark.lane("pg18")
async def test_outage_longer_than_the_plan_follows_the_policy(reports: Connection, start: Start) -> None:
    """Nothing ran for a hundred days, and the plan covered 32 of them: the other ticks are computed when a node is back."""
    schedule(reports, "one", cron="0 6 * * *", missed="one")
    schedule(reports, "all", cron="0 6 * * *", missed="all")
    set_clock(reports, "2026-06-10T12:00:00Z")
    await fire_all(await start())
    assert [tick.tick_at for tick in list_ticks(reports, "one") if tick.outcome == "fired"] == [
        datetime(2026, 6, 10, 6, tzinfo=UTC)
    ]
    assert sum(tick.outcome == "fired" for tick in list_ticks(reports, "all", limit=500)) == 100


@pytest.mark.lane("pg18")
async def test_ticks_follow_local_time_across_daylight_saving(reports: Connection, start: Start) -> None:
    schedule(reports, cron="30 2 * * *", zone="Europe/Berlin")
    set_clock(reports, "2026-03-31T12:00:00Z")
    await fire_all(await start())
    fired = [tick.tick_at.isoformat() for tick in list_ticks(reports, "report")][:3]
    assert fired == ["2026-03-31T00:30:00+00:00", "2026-03-30T00:30:00+00:00", "2026-03-29T01:00:00+00:00"]


async def test_schedule_that_cannot_be_fired_is_retried_and_the_others_go_on(reports: Connection, start: Start) -> None:
    """A trigger of a user raises on one of them."""
    schedule(reports, "bad"), schedule(reports, "good")
    reports.execute(
        """create function refuse() returns trigger language plpgsql as
             $$ begin if new.headers ->> 'schedule' = 'bad' then raise 'not today'; end if; return new; end $$"""
    )
    create_outbox_triggers(reports, "refuse")
    set_clock(reports, "2026-03-02T13:00:01Z")
    ticker = await start()
    assert await fire_all(ticker) == 1
    assert (ticker.failures, get_schedule(reports, "bad").state, get_schedule(reports, "bad").error) == (
        1,
        "failing",
        "not today",
    )
    reports.execute("drop function refuse cascade")
    set_clock(reports, "2026-03-02T13:00:10Z")
    assert await fire_all(await start()) == 1
    assert get_schedule(reports, "bad").state == "active"
    assert events(reports) == 2


@pytest.mark.lane("pg18")
async def test_error_of_headrace_while_firing_marks_the_schedule_and_keeps_the_ticker(reports: Connection, start: Start) -> None:
    schedule(reports)
    reports.execute(
        """create function refuse() returns trigger language plpgsql as
             $$ begin raise 'too many' using errcode = 'HR101'; end $$"""
    )
    create_outbox_triggers(reports, "refuse")
    set_clock(reports, "2026-03-02T13:00:01Z")
    ticker = await start()
    assert await fire_all(ticker) == 0
    assert (ticker.failures, get_schedule(reports, "report").state) == (1, "failing")


@pytest.mark.lane("pg18")
async def test_ticker_waits_until_the_next_tick(reports: Connection, start: Start) -> None:
    schedule(reports)
    ticker = await start()
    await fire_all(ticker)
    assert await ticker._wait_s() == 30
    set_clock(reports, "2026-03-02T12:59:50Z")
    wait_s = await (await start())._wait_s()
    assert 8 < wait_s <= 10
    pause_schedule(reports, "report")
    assert await (await start())._wait_s() == 30


@pytest.mark.lane("pg18")
async def test_node_fires_a_schedule_created_while_it_runs(conn: Connection, database: Target) -> None:
    topic(conn, "reports")
    node = Node(Headrace(), [database], grace_s=5)
    running = asyncio.create_task(node.run())
    schedule(conn, cron="* * * * * *")
    async with asyncio.timeout(20):
        while len(read_log(conn, "reports")) < 2:
            await asyncio.sleep(0.05)
    node.stop()
    await running
    drain(conn)
    logged = read_log(conn, "reports")
    assert len({event.headers["scheduled_at"] for event in logged}) == len(logged) == len(list_ticks(conn, "report"))


HANG = """
import psycopg, sys, time
conn = psycopg.connect(sys.argv[1])
print(conn.execute("select headrace.run_schedule(%s)", (sys.argv[2],)).fetchone()[0], flush=True)
time.sleep(60)
"""


def fire_and_hang(database: Target, schedule_id: int) -> subprocess.Popen[str]:
    """A process that has fired a tick and not committed it."""
    process = subprocess.Popen([sys.executable, "-c", HANG, database.dsn, str(schedule_id)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    return process


@pytest.mark.lane("pg18")
async def test_tick_of_a_process_killed_before_commit_fires_once(reports: Connection, database: Target, start: Start) -> None:
    """A process fires, does not commit, and is killed with SIGKILL: the tick is due again and fires once."""
    schedule_id = schedule(reports)
    set_clock(reports, "2026-03-02T13:00:01Z")
    process = fire_and_hang(database, schedule_id)
    ticker = await start()
    assert await fire_all(ticker) == 0  # the other process holds the schedule
    process.kill()
    process.communicate()
    async with asyncio.timeout(20):
        while not await fire_all(ticker):
            await asyncio.sleep(0.02)
    assert await fire_all(await start()) == 0
    assert events(reports) == 1


def test_open_tick_does_not_block_publishing(reports: Connection, database: Target) -> None:
    """Other sessions publish to the topic while one session has fired a tick and not committed."""
    schedule_id = schedule(reports)
    set_clock(reports, "2026-03-02T13:00:01Z")
    with connect(database) as other, other.transaction():
        other.execute("select headrace.run_schedule(%s)", (schedule_id,))
        publish(reports, 1, topic="reports")
        assert events(reports) == 1
    assert events(reports) == 2
