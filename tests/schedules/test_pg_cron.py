"""pg_cron fires schedules if it is installed: the real one, of Debian's PostgreSQL 15."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import psycopg
import pytest

from headrace.db import Connection, Server, Target, connect_loop
from headrace.log.topics import read_log
from headrace.schedules import create_schedule, drop_schedule, get_schedule, pause_schedule, remove_cron_jobs
from headrace.schedules.pg_cron import ActiveSchedule, sync_cron_jobs
from tests.builders import drain, topic
from tests.schedules.conftest import Start, fire_all, set_clock

pytestmark = pytest.mark.lane("pg15")


@pytest.fixture
def cron(server: Server, database: Target) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection to pg_cron's database; the jobs of the test's database are removed at the end."""
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as home:
        home.execute("create extension if not exists pg_cron")
        yield home
        home.execute("select cron.unschedule(jobid) from cron.job where database = %s", (database.dsn.rsplit("/", 1)[-1],))


def jobs(cron: psycopg.Connection[tuple[object, ...]], conn: Connection) -> list[tuple[object, ...]]:
    return cron.execute(
        "select schedule, command from cron.job where database = %s order by jobid", (conn.info.dbname,)
    ).fetchall()


async def sync(database: Target) -> int | None:
    async with await connect_loop(database) as conn:
        return await sync_cron_jobs(conn, database)


def test_job_runs_at_a_superset_of_the_schedules_minutes() -> None:
    def minutes(cron: str, zone: str = "UTC", cron_zone: str = "GMT") -> str:
        return ActiveSchedule(1, cron, zone, None).minutes(cron_zone)

    assert minutes("0,30 6 * * MON#1") == "0,30 * * * *"
    assert minutes("*/5 6 * * *") == minutes("5/10 * * * *") == "* * * * *"
    assert minutes("0 6 * * *", "Australia/Lord_Howe") == minutes("0 0 6 * * *") == "* * * * *"
    assert (minutes("@daily"), ActiveSchedule(1, "@daily", "UTC", None).has_seconds) == ("0 * * * *", False)
    assert minutes("0 6 * * *", "UTC", "Asia/Kolkata") == "* * * * *"


async def test_every_active_schedule_has_one_job_that_calls_run_schedule(
    reports: Connection, database: Target, cron: psycopg.Connection[tuple[object, ...]]
) -> None:
    first = create_schedule(reports, "a", cron="15 6 * * *", topic="reports", type="due")
    second = create_schedule(reports, "b", cron="15 6 * * *", zone="Europe/Berlin", topic="reports", type="due")
    await sync(database)
    assert await sync(database) == 0
    assert jobs(cron, reports) == [
        ("15 * * * *", f"select headrace.run_schedule({first})"),
        ("* * * * *", f"select headrace.run_schedule({second})"),
    ]
    assert get_schedule(reports, "a").by_cron
    pause_schedule(reports, "a")
    drop_schedule(reports, "b")
    assert await sync(database) == 2
    assert jobs(cron, reports) == []


async def test_command_of_the_job_fires_the_due_tick(
    reports: Connection, database: Target, cron: psycopg.Connection[tuple[object, ...]]
) -> None:
    create_schedule(reports, "a", cron="0 13 * * *", topic="reports", type="due")
    await sync(database)
    [(_, command)] = jobs(cron, reports)
    set_clock(reports, "2026-03-02T13:00:01Z")
    assert reports.execute(str(command)).fetchone() == (1,)
    drain(reports)
    assert len(read_log(reports, "reports")) == 1


async def test_node_stands_by_for_pg_cron_and_fires_late_ticks(
    reports: Connection, database: Target, cron: psycopg.Connection[tuple[object, ...]], start: Start
) -> None:
    create_schedule(reports, "minutes", cron="0 13 * * *", topic="reports", type="due")
    create_schedule(reports, "seconds", cron="0 0 13 * * *", topic="reports", type="due")
    await sync(database)
    assert [get_schedule(reports, name).by_cron for name in ("minutes", "seconds")] == [True, False]
    set_clock(reports, "2026-03-02T13:00:02Z")
    assert await fire_all(await start()) == 1
    set_clock(reports, "2026-03-02T13:00:11Z")
    assert await fire_all(await start()) == 1


async def test_all_jobs_of_a_database_can_be_removed(
    reports: Connection, database: Target, cron: psycopg.Connection[tuple[object, ...]]
) -> None:
    create_schedule(reports, "a", cron="0 13 * * *", topic="reports", type="due")
    await sync(database)
    assert await remove_cron_jobs(database) == 1
    assert jobs(cron, reports) == []
    assert not get_schedule(reports, "a").by_cron


@pytest.mark.lane("pg18")
async def test_nothing_is_compared_without_pg_cron(conn: Connection, database: Target) -> None:
    assert await sync(database) is None


@pytest.mark.slow
@pytest.mark.timeout(200)
async def test_pg_cron_itself_fires_a_real_job(
    conn: Connection, database: Target, cron: psycopg.Connection[tuple[object, ...]]
) -> None:
    topic(conn, "reports")
    create_schedule(conn, "a", cron="* * * * *", topic="reports", type="due")
    await sync(database)
    deadline = time.monotonic() + 150
    while not read_log(conn, "reports"):
        assert time.monotonic() < deadline, cron.execute("select status, return_message from cron.job_run_details").fetchall()
        await asyncio.sleep(0.5)
        drain(conn)
    assert read_log(conn, "reports")[0].producer == "schedule a"
