"""pg_cron: one job per schedule, in pg_cron's own database, that calls headrace.run_schedule in ours.

pg_cron knows one time zone and whole minutes, so a job only approximates its schedule: it runs at a superset of the schedule's
minutes, and run_schedule fires the ticks that are due. All jobs are compared and updated together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.conninfo import make_conninfo
from psycopg.rows import class_row

from headrace.db import AsyncConnection, Target, connect_loop, query
from headrace.schedules.cron import expand_cron

EVERY_MINUTE = "* * * * *"
_minutes = re.compile(r"\d{1,2}(,\d{1,2})*")
_SET_JOB = "select cron.schedule_in_database(%s, %s, format('select headrace.run_schedule(%%s)', %s::bigint), %s)"


@dataclass(frozen=True)
class ActiveSchedule:
    schedule_id: int
    cron: str
    zone: str
    cron_job_id: int | None

    def minutes(self, cron_zone: str) -> str:
        """When its job runs. Only plain minute numbers in UTC certainly mean the same to pg_cron."""
        fields = expand_cron(self.cron).split()
        is_plain = len(fields) == 5 and _minutes.fullmatch(fields[0])
        return f"{fields[0]} * * * *" if is_plain and self.zone == "UTC" and cron_zone in ("GMT", "UTC") else EVERY_MINUTE

    @property
    def has_seconds(self) -> bool:
        return len(expand_cron(self.cron).split()) != 5


async def sync_cron_jobs(conn: AsyncConnection, target: Target) -> int | None:
    """Gives every active schedule of a database its job and removes the others. Returns how many jobs it created, changed and
    removed; None if pg_cron is not installed. `conn` is a connection to the target; pg_cron's database needs another one."""
    async with conn.cursor(row_factory=class_row(ActiveSchedule)) as cursor:
        schedules = await (await cursor.execute(query("schedules/active_schedules"))).fetchall()
    changes, job_ids = await _compare(conn, target, schedules)
    for schedule in schedules:
        # pg_cron runs once a minute: a schedule with seconds is fired by a node, and its job is only a fallback.
        job_id = None if schedule.has_seconds else job_ids.get(schedule.schedule_id)
        if job_id != schedule.cron_job_id:
            await conn.execute(query("schedules/record_job"), {"schedule_id": schedule.schedule_id, "job_id": job_id})
    return changes


async def remove_cron_jobs(target: Target) -> int:
    """Removes all jobs of a database's schedules, for example before it is dropped; returns how many."""
    async with await connect_loop(target) as conn:
        removed, _ = await _compare(conn, target, [])
        await conn.execute("update headrace_internal.schedule set cron_job_id = null where cron_job_id is not null")
    return removed or 0


async def _compare(
    conn: AsyncConnection, target: Target, schedules: Sequence[ActiveSchedule]
) -> tuple[int | None, dict[int, int]]:
    """Updates the jobs of a database; returns the number of changes, and the job of each schedule."""
    [(cron_database, cron_zone, database)] = await (await conn.execute(query("schedules/cron_home"))).fetchall()
    if cron_database is None:
        return None, {}
    minutes = {schedule.schedule_id: schedule.minutes(cron_zone) for schedule in schedules}
    async with await connect_loop(Target(target.name, make_conninfo(target.dsn, dbname=cron_database))) as home:
        extension = await home.execute("select from pg_extension e where e.extname = 'pg_cron'")
        if await extension.fetchone() is None:
            return None, {}
        async with home.transaction():
            return await _update_jobs(home, database, minutes)


async def _update_jobs(home: AsyncConnection, database: str, schedules: Mapping[int, str]) -> tuple[int, dict[int, int]]:
    """Creates, changes and removes jobs, so that each schedule has one that runs at its minutes."""
    prefix = f"headrace {database} "
    # Two nodes that compare at the same time would create a job twice.
    await home.execute("select pg_advisory_xact_lock(hashtext(%s))", (prefix,))
    cursor = await home.execute(query("schedules/cron_jobs"), {"prefix": prefix, "database": database})
    old_jobs: dict[str, tuple[int, str]] = {name: (job_id, minutes) for job_id, name, minutes in await cursor.fetchall()}
    job_ids: dict[int, int] = {}
    changed = 0
    for schedule_id, minutes in schedules.items():
        name = f"{prefix}{schedule_id}"
        job_id, old_minutes = old_jobs.pop(name, (0, None))
        if old_minutes != minutes:
            changed += 1
            [(job_id,)] = await (await home.execute(_SET_JOB, (name, minutes, schedule_id, database))).fetchall()
        job_ids[schedule_id] = job_id
    for job_id, _ in old_jobs.values():
        await home.execute("select cron.unschedule(%s::bigint)", (job_id,))
    return changed + len(old_jobs), job_ids
