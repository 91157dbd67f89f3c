"""Cron expressions: when they fire, and which ticks are planned ahead. Pure; the arithmetic is cronsim's.

Daylight saving follows cronsim, which follows Debian's cron. An expression of five fields whose minute and hour do not begin
with `*` means a time of day: one that does not exist fires at the first minute that does, one that exists twice fires the
first time only. All other expressions, and those with seconds, follow elapsed time: nothing is moved, and they fire in both
passes of an hour that exists twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from itertools import takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from headrace.core import CronNeverFires, InvalidCron, InvalidTimeZone

CRON_CHARS_MAX = 200
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""The names that crontab(5) has for common expressions. Not @reboot, which is no time."""
HORIZON = timedelta(days=32)
TICKS_MAX = 1500
"""More than a day of a schedule that fires every minute; also more than the largest missed_max."""


def expand_cron(cron: str) -> str:
    """The fields of an expression: `0 0 * * *` for `@daily`."""
    return NICKNAMES.get(cron.strip().lower(), cron)


def check_cron(cron: str) -> None:
    """Raises InvalidCron for an invalid cron expression."""
    if len(cron) > CRON_CHARS_MAX:
        raise InvalidCron(f"cron expression has {len(cron)} characters, at most {CRON_CHARS_MAX} are allowed")
    try:
        CronSim(expand_cron(cron), datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        fields = len(cron.split())
        is_nickname = cron.lstrip().startswith("@")
        reason = "there is no such name" if is_nickname else f"it has {fields} fields" if fields not in (5, 6) else str(error)
        raise InvalidCron(
            f"cron expression {cron!r}: {reason}; write 5 fields (minute hour day-of-month month day-of-week), "
            f"or 6 with seconds first, for example 30 6 * * MON-FRI, or one of {', '.join(NICKNAMES)}"
        ) from None


def explain_cron(cron: str) -> str:
    """An expression in words, such as `At 06:30 on Monday through Friday`; an invalid one as it is written."""
    try:
        return CronSim(expand_cron(cron), datetime(2000, 1, 1, tzinfo=UTC)).explain()
    except CronSimError:
        return cron


def check_zone(zone: str) -> tzinfo:
    """The time zone of an IANA name; raises InvalidTimeZone."""
    if zone not in _zones():
        raise InvalidTimeZone(f"there is no time zone {zone[:100]!r}; use an IANA name such as Europe/Berlin, or UTC")
    return UTC if zone == "UTC" else ZoneInfo(zone)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones() - {"localtime", "Factory"})


def ticks(cron: str, zone: str, after: datetime) -> Iterator[datetime]:
    """The moments (in UTC) at which an expression fires after a moment, rising; ends after fifty years without one."""
    check_cron(cron)
    last = after.astimezone(UTC)
    for local_tick in CronSim(expand_cron(cron), after.astimezone(check_zone(zone))):
        tick = local_tick.astimezone(UTC)
        # In the second pass of an hour that exists twice, cronsim starts with ticks of the first pass, which is over.
        if tick > last:
            last = tick
            yield tick


@dataclass(frozen=True)
class TickPlan:
    """The ticks to write ahead: all up to `until`. Plan again at `replan_at`, halfway there.

    It has at least the next tick, at most TICKS_MAX and, beyond the first, none after HORIZON. Of the ticks that passed while
    nobody planned, it has the newest TICKS_MAX; the schedule's policy for missed ticks decides about them."""

    ticks: tuple[datetime, ...]
    until: datetime
    replan_at: datetime


def plan_ticks(cron: str, zone: str, *, planned_until: datetime, now: datetime) -> TickPlan:
    """The plan after one that reaches to `planned_until`; raises CronNeverFires if there is no further tick."""
    past = _past_ticks(cron, zone, planned_until, now)
    future, until = _future_ticks(cron, zone, max(planned_until, now), now + HORIZON)
    return TickPlan((*past, *future), until, now + (until - now) / 2)


def _future_ticks(cron: str, zone: str, after: datetime, horizon: datetime) -> tuple[list[datetime], datetime]:
    """The next ticks, and up to when they are complete."""
    future: list[datetime] = []
    for tick in ticks(cron, zone, after):
        if future and tick > horizon:
            break
        future.append(tick)
        if len(future) == TICKS_MAX:
            return future, tick
    if not future:
        raise CronNeverFires(f"cron expression {cron!r} does not fire within fifty years; change the day or the month")
    return future, max(horizon, future[-1])


def _past_ticks(cron: str, zone: str, planned_until: datetime, now: datetime) -> list[datetime]:
    """The newest ticks between the end of the plan and now. Searched in growing windows that end now: a long outage of a
    schedule that fires every second must not be walked from its start."""
    window = timedelta(minutes=30)
    while True:
        start = max(planned_until, now - window)
        past = list(takewhile(lambda tick: tick <= now, ticks(cron, zone, start)))
        if start == planned_until or len(past) >= TICKS_MAX:
            return past[-TICKS_MAX:]
        window *= 2
