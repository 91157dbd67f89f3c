"""Cron expressions: when they come, by cronsim. Pure.

Daylight saving, as cronsim defines it after Debian's cron. An expression of five fields whose minute and hour do not begin
with `*` means a time of day: one that does not exist comes at the first minute that does, one that exists twice comes the
first time only. All others, also those with seconds, follow elapsed time: nothing is moved, and the hour that exists twice
is gone through twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from headrace.core import BadCron, BadZone

CRON_CHARS_MAX = 200


def check_cron(cron: str) -> None:
    """Raises BadCron for a text that is not a cron expression."""
    if len(cron) > CRON_CHARS_MAX:
        raise BadCron(f"cron expression has {len(cron)} characters, at most {CRON_CHARS_MAX} are allowed")
    try:
        CronSim(cron, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        fields = len(cron.split())
        reason = f"it has {fields} fields" if fields not in (5, 6) else str(error)
        raise BadCron(
            f"cron expression {cron!r}: {reason}; write 5 fields (minute hour day-of-month month day-of-week), "
            "or 6 with seconds first, for example 30 6 * * MON-FRI"
        ) from None


def check_zone(zone: str) -> tzinfo:
    """The time zone of an IANA name; raises BadZone."""
    if zone not in _zones():
        raise BadZone(f"there is no time zone {zone[:100]!r}; use an IANA name such as Europe/Berlin, or UTC")
    return UTC if zone == "UTC" else ZoneInfo(zone)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones() - {"localtime", "Factory"})


def ticks(cron: str, zone: str, after: datetime) -> Iterator[datetime]:
    """The moments (in UTC) at which an expression comes after a moment, rising; ends if it does not come for fifty years."""
    check_cron(cron)
    last = after.astimezone(UTC)
    for found in CronSim(cron, after.astimezone(check_zone(zone))):
        tick = found.astimezone(UTC)
        # Asked during the second pass of an hour that exists twice, cronsim answers with the first pass, which is over.
        if tick > last:
            last = tick
            yield tick
