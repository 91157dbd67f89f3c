"""Schedules: cron → events.

Owns: schedules, their planned ticks and their past ones. Promises: exactly one event per tick, whatever crashes and however
many nodes run, because a tick's record and its event commit together; ticks follow local time across daylight saving; missed
ticks follow the schedule's policy and are on record.

The cron arithmetic is cronsim's. It runs in Python and writes ticks ahead into a table; SQL alone fires them, called by pg_cron
if it is installed, else by a node."""

from headrace.schedules.cron import check_cron, check_zone, explain_cron, ticks
from headrace.schedules.pg_cron import remove_cron_jobs
from headrace.schedules.schedule import (
    SCHEDULES,
    Missed,
    Schedule,
    ScheduleDefinition,
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
)
from headrace.schedules.ticker import Ticker

__all__ = [
    "SCHEDULES",
    "Missed",
    "Schedule",
    "ScheduleDefinition",
    "Tick",
    "Ticker",
    "alter_schedule",
    "check_cron",
    "check_zone",
    "create_schedule",
    "drop_schedule",
    "explain_cron",
    "get_schedule",
    "list_schedules",
    "list_ticks",
    "next_ticks",
    "pause_schedule",
    "remove_cron_jobs",
    "resume_schedule",
    "run_now",
    "ticks",
]
