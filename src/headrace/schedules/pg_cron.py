"""pg_cron: one job per schedule, in pg_cron's own database, that calls headrace.run_schedule in ours.

pg_cron thinks in one time zone and in minutes, so a job is not the schedule: it comes at a superset of the schedule's
minutes, and run_schedule fires the ticks that are due. Jobs are compared and brought up to date as a whole."""

from __future__ import annotations

import re
from dataclasses import dataclass

from psycopg.conninfo import make_conninfo
from psycopg.rows import class_row

from headrace.db import AsyncConnection, Target, connect_async, query

EVERY_MINUTE = "* * * * *"
_minutes = re.compile(r"\d{1,2}(,\d{1,2})*")


@dataclass(frozen=True)
class CronJobs:
    """What a comparison did: jobs that are there now, jobs made or changed, jobs taken away."""

    jobs: int
    changed: int
    removed: int


@dataclass(frozen=True)
class Home:
    """Where pg_cron lives."""

    home: str | None
    zone: str
    database: str

    @property
    def prefix(self) -> str:
        return f"headrace {self.database} "


@dataclass(frozen=True)
class Wanted:
    """A schedule that wants a job."""

    schedule_id: int
    cron: str
    zone: str
    cron_job_id: int | None

    def minutes(self, cron_zone: str) -> str:
        """When its job comes. Only minutes that are plain numbers, in UTC, mean the same to pg_cron for certain."""
        fields = self.cron.split()
        plain = len(fields) == 5 and _minutes.fullmatch(fields[0])
        return f"{fields[0]} * * * *" if plain and self.zone == "UTC" and cron_zone in ("GMT", "UTC") else EVERY_MINUTE

    @property
    def by_the_minute(self) -> bool:
        return len(self.cron.split()) == 5


async def sync_cron_jobs(target: Target) -> CronJobs | None:
    """Gives every active schedule of a database its job and takes the others away; None where there is no pg_cron."""
    async with await connect_async(target) as conn:
        async with conn.cursor(row_factory=class_row(Wanted)) as cursor:
            wanted = await (await cursor.execute(query("schedules/wanted_jobs"))).fetchall()
        done, job_ids = await _compare(conn, target, wanted)
        for schedule in wanted:
            # pg_cron comes once a minute: where seconds matter a node fires, and the job is there for when none runs.
            job_id = job_ids.get(schedule.schedule_id) if schedule.by_the_minute else None
            if job_id != schedule.cron_job_id:
                given = {"schedule_id": schedule.schedule_id, "job_id": job_id}
                await conn.execute(query("schedules/record_job"), given)
    return done


async def remove_cron_jobs(target: Target) -> int:
    """Takes away all jobs of a database's schedules, for instance before it is dropped; returns how many."""
    async with await connect_async(target) as conn:
        done, _ = await _compare(conn, target, [])
        await conn.execute("update headrace.schedule set cron_job_id = null where cron_job_id is not null")
    return done.removed if done else 0


async def _compare(conn: AsyncConnection, target: Target, wanted: list[Wanted]) -> tuple[CronJobs | None, dict[int, int]]:
    async with conn.cursor(row_factory=class_row(Home)) as cursor:
        home = await (await cursor.execute(query("schedules/cron_home"))).fetchone()
    assert home is not None
    if home.home is None:
        return None, {}
    async with await connect_async(Target(target.name, make_conninfo(target.dsn, dbname=home.home))) as cron:
        installed = await cron.execute("select from pg_extension e where e.extname = 'pg_cron'")
        if await installed.fetchone() is None:
            return None, {}
        async with cron.transaction():
            return await _rewrite(cron, home, wanted)


async def _rewrite(cron: AsyncConnection, home: Home, wanted: list[Wanted]) -> tuple[CronJobs, dict[int, int]]:
    # Two nodes that compare at once would make a job twice.
    await cron.execute("select pg_advisory_xact_lock(hashtext(%s))", (home.prefix,))
    found = await cron.execute(query("schedules/cron_jobs"), {"prefix": home.prefix, "database": home.database})
    known: dict[str, tuple[int, str]] = {row[1]: (row[0], row[2]) for row in await found.fetchall()}
    job_ids: dict[int, int] = {}
    changed = 0
    for schedule in wanted:
        name, minutes = f"{home.prefix}{schedule.schedule_id}", schedule.minutes(home.zone)
        job_id, had = known.pop(name, (None, None))
        if job_id is None or had != minutes:
            changed += 1
            given = {"name": name, "minutes": minutes, "schedule_id": schedule.schedule_id, "database": home.database}
            made = await cron.execute(query("schedules/make_job"), given)
            job_id = (await made.fetchone() or (0,))[0]
        job_ids[schedule.schedule_id] = job_id
    for job_id, _ in known.values():
        await cron.execute("select cron.unschedule(%s::bigint)", (job_id,))
    return CronJobs(len(job_ids), changed, len(known)), job_ids
