"""Schedules: cron → events.

Owns: schedules, their planned ticks and their past ones. Promises: exactly one event per tick, whatever crashes and however
many nodes run, because a tick's record and its event commit together; ticks follow local time across daylight saving; missed
ticks follow the schedule's policy and are on record.

The cron arithmetic is cronsim's. It runs in Python and writes ticks ahead into a table; SQL alone fires them, called by pg_cron
if it is installed, else by a node."""

from headrace.schedules.cron import (
    check_cron as check_cron,
    check_zone as check_zone,
    explain_cron as explain_cron,
    ticks as ticks,
)
from headrace.schedules.pg_cron import remove_cron_jobs as remove_cron_jobs
from headrace.schedules.schedule import (
    SCHEDULES as SCHEDULES,
    Missed as Missed,
    Schedule as Schedule,
    ScheduleDefinition as ScheduleDefinition,
    Tick as Tick,
    alter_schedule as alter_schedule,
    create_schedule as create_schedule,
    drop_schedule as drop_schedule,
    get_schedule as get_schedule,
    list_schedules as list_schedules,
    list_ticks as list_ticks,
    next_ticks as next_ticks,
    pause_schedule as pause_schedule,
    resume_schedule as resume_schedule,
    run_now as run_now,
)
from headrace.schedules.ticker import Ticker as Ticker
