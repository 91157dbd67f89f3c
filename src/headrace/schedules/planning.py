"""Plan: which ticks of a schedule are written ahead.

Owns: how far ahead. Promises: always at least the next tick; at most TICKS_MAX and, beyond the first, HORIZON. Of the ticks
that passed while nobody planned, the newest TICKS_MAX are kept, for the schedule's policy to decide on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.core import CronNeverFires
from headrace.schedules.cron import ticks

HORIZON = timedelta(days=32)
TICKS_MAX = 1500
"""More than a day of a schedule that comes every minute; also more than the largest missed_max."""


@dataclass(frozen=True)
class Plan:
    """Ticks to write, up to when that is all of them, and when to plan again: half way there."""

    ticks: tuple[datetime, ...]
    until: datetime
    replan_at: datetime


def plan(cron: str, zone: str, *, planned_until: datetime, now: datetime) -> Plan:
    """What follows a plan that reaches up to `planned_until`; raises NeverComes where nothing does."""
    passed = _passed(cron, zone, planned_until, now)
    coming, until = _coming(cron, zone, max(planned_until, now), now + HORIZON)
    return Plan((*passed, *coming), until, now + (until - now) / 2)


def _coming(cron: str, zone: str, after: datetime, horizon: datetime) -> tuple[list[datetime], datetime]:
    coming: list[datetime] = []
    for tick in ticks(cron, zone, after):
        if coming and tick > horizon:
            return coming, max(horizon, coming[-1])
        coming.append(tick)
        if len(coming) == TICKS_MAX:
            return coming, tick
    if not coming:
        raise CronNeverFires(f"cron expression {cron!r} does not come within fifty years; change the day or the month")
    return coming, max(horizon, coming[-1])


def _passed(cron: str, zone: str, planned_until: datetime, now: datetime) -> list[datetime]:
    """The newest ticks between the end of the plan and now, looked for in growing windows: a long outage of a schedule
    that comes every second must not be gone through from its beginning."""
    window = timedelta(minutes=30)
    while True:
        start = max(planned_until, now - window)
        found: list[datetime] = []
        for tick in ticks(cron, zone, start):
            if tick > now:
                break
            found.append(tick)
        if start == planned_until or len(found) >= TICKS_MAX:
            return found[-TICKS_MAX:]
        window *= 2
