"""pg_cron fires schedules where it is installed: the real one, of Debian's PostgreSQL 15."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import psycopg
import pytest

from headrace.db import Connection, Server, Target
from headrace.log import read
from headrace.schedules import create_schedule, drop_schedule, get_schedule, pause_schedule, remove_cron_jobs, sync_cron_jobs
from headrace.schedules.pg_cron import Wanted
from tests.builders import drain, topic
from tests.schedules.conftest import Start, fire_all, set_clock

pytestmark = pytest.mark.lane("pg15")


@pytest.fixture
def cron(server: Server, database: Target) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection to pg_cron's database; the jobs of the test's database are taken away at the end."""
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as home:
        home.execute("create extension if not exists pg_cron")
        yield home
        home.execute("select cron.unschedule(jobid) from cron.job where database = %s", (database.dsn.rsplit("/", 1)[-1],))


def jobs(cron: psycopg.Connection[tuple[object, ...]], conn: Connection) -> list[tuple[object, ...]]:
    return cron.execute(
        "select schedule, command from cron.job where database = %s order by jobid", (conn.info.dbname,)
    ).fetchall()


def test_job_comes_at_a_superset_of_the_schedules_minutes() -> None:
    def minutes(cron: str, zone: str = "UTC", cron_zone: str = "GMT") -> str:
        return Wanted(1, cron, zone, None).minutes(cron_zone)

    assert minutes("0,30 6 * * MON#1") == "0,30 * * * *"
    assert minutes("*/5 6 * * *") == minutes("5/10 * * * *") == "* * * * *"
    assert minutes("0 6 * * *", "Australia/Lord_Howe") == minutes("0 0 6 * * *") == "* * * * *"
    assert minutes("0 6 * * *", "UTC", "Asia/Kolkata") == "* * * * *"


async def test_every_active_schedule_has_one_job_that_calls_run_schedule(
    stage: Connection, database: Target, cron: psycopg.Connection[tuple[object, ...]]
) -> None:
    first = create_schedule(stage, "a", cron="15 6 * * *", topic="reports", type="due")
    second = create_schedule(stage, "b", cron="15 6 * * *", zone="Europe/Berlin", topic="reports", type="due")
    await sync_cron_jobs(database)
    again = await sync_cron_jobs(database)
    assert again is not None
    assert (again.jobs, again.changed, again.removed) == (2, 0, 0)
    assert jobs(cron, stage) == [
        ("15 * * * *", f"select headrace.run_schedule({first})"),
        ("* * * * *", f"select headrace.run_schedule({second})"),
    ]
    assert get_schedule(stage, "a").by_cron
    pause_schedule(stage, "a")
    drop_schedule(stage, "b")
    await sync_cron_jobs(database)
    assert jobs(cron, stage) == []


async def test_what_the_job_calls_fires_the_due_tick(
    stage: Connection, database: Target, cron: psycopg.Connection[tuple[object, ...]]
) -> None:
    create_schedule(stage, "a", cron="0 13 * * *", topic="reports", type="due")
    await sync_cron_jobs(database)
    [(_, command)] = jobs(cron, stage)
    set_clock(stage, "2026-03-02T13:00:01Z")
    assert stage.execute(str(command)).fetchone() == (1,)
    drain(stage)
    assert len(read(stage, "reports")) == 1


async def test_node_stands_by_where_pg_cron_fires_and_takes_what_it_leaves(
    stage: Connection, database: Target, cron: psycopg.Connection[tuple[object, ...]], start: Start
) -> None:
    create_schedule(stage, "minutes", cron="0 13 * * *", topic="reports", type="due")
    create_schedule(stage, "seconds", cron="0 0 13 * * *", topic="reports", type="due")
    await sync_cron_jobs(database)
    assert [get_schedule(stage, name).by_cron for name in ("minutes", "seconds")] == [True, False]
    set_clock(stage, "2026-03-02T13:00:02Z")
    assert await fire_all(await start()) == 1
    set_clock(stage, "2026-03-02T13:00:11Z")
    assert await fire_all(await start()) == 1


async def test_jobs_are_taken_away_as_a_whole(
    stage: Connection, database: Target, cron: psycopg.Connection[tuple[object, ...]]
) -> None:
    create_schedule(stage, "a", cron="0 13 * * *", topic="reports", type="due")
    await sync_cron_jobs(database)
    assert await remove_cron_jobs(database) == 1
    assert jobs(cron, stage) == []
    assert not get_schedule(stage, "a").by_cron


@pytest.mark.lane("pg18")
async def test_without_pg_cron_there_is_nothing_to_bring_up_to_date(conn: Connection, database: Target) -> None:
    assert await sync_cron_jobs(database) is None


@pytest.mark.slow
@pytest.mark.timeout(200)
async def test_pg_cron_itself_fires_a_real_job(
    conn: Connection, database: Target, cron: psycopg.Connection[tuple[object, ...]]
) -> None:
    topic(conn, "reports")
    create_schedule(conn, "a", cron="* * * * *", topic="reports", type="due")
    await sync_cron_jobs(database)
    deadline = time.monotonic() + 150
    while not read(conn, "reports"):
        assert time.monotonic() < deadline, cron.execute("select status, return_message from cron.job_run_details").fetchall()
        await asyncio.sleep(0.5)
        drain(conn)
    assert read(conn, "reports")[0].producer == "schedule a"
