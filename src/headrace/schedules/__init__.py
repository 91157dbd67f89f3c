"""Schedule: cron → events.

Owns: schedules, the ticks to come and what became of those that are over. Promises: exactly one event per tick, whatever
crashes and however many nodes run, because a tick's record and its event commit together; ticks keep to local time across
daylight saving; what nobody fired in time follows the schedule's policy and is on record.

The cron arithmetic is cronsim's. It runs here and writes ticks ahead into a table; SQL alone fires them, called by pg_cron
where that is installed, else by a node."""

from headrace.schedules.cron import check_cron, check_zone, ticks
from headrace.schedules.pg_cron import CronJobs, remove_cron_jobs, sync_cron_jobs
from headrace.schedules.planning import Plan, plan
from headrace.schedules.schedule import (
    Missed,
    Schedule,
    Tick,
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
from headrace.schedules.ticker import Ticker

__all__ = [
    "CronJobs",
    "Missed",
    "Plan",
    "Schedule",
    "Tick",
    "Ticker",
    "alter_schedule",
    "check_cron",
    "check_zone",
    "create_schedule",
    "drop_schedule",
    "get_schedule",
    "list_schedules",
    "list_ticks",
    "next_ticks",
    "pause_schedule",
    "plan",
    "remove_cron_jobs",
    "resume_schedule",
    "run_now",
    "run_schedule",
    "sync_cron_jobs",
    "ticks",
]
