"""Cron expressions in words, and ticks in local time with the changes of daylight saving."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

NICKNAMES = {"@yearly": "every year", "@annually": "every year", "@monthly": "every month", "@weekly": "every week"}
NICKNAMES |= {"@daily": "every day at 00:00", "@midnight": "every day at 00:00", "@hourly": "every hour"}
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY_NAMES = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def cron_words(cron: str) -> str:
    """An expression in words, such as `at 06:30, Monday to Friday`; rare parts are shown as they are written."""
    nickname = NICKNAMES.get(cron.strip().lower())
    fields = cron.split()
    if nickname or len(fields) not in (5, 6):
        return nickname or cron
    seconds = fields.pop(0) if len(fields) == 6 else ""
    minute, hour, day, month, weekday = fields
    parts = [_time(minute, hour)]
    if seconds and seconds != "0":
        parts = [_seconds(seconds) + ("" if (minute, hour) == ("*", "*") else f", {parts[0]}")]
    if weekday != "*":
        parts.append(_list(weekday, _weekday))
    if day != "*":
        parts.append(f"on the last day of the month" if day == "L" else f"on day {_list(day, str)} of the month")  # noqa: F541
    if month != "*":
        parts.append(f"in {_list(month, _month)}")
    if (day, month, weekday) == ("*", "*", "*") and minute.isdigit() and hour.isdigit():
        parts.append("every day")
    return ", ".join(parts)


def _time(minute: str, hour: str) -> str:
    if minute.isdigit() and hour.isdigit():
        return f"at {int(hour):02}:{int(minute):02}"
    if minute.isdigit() and all(part.isdigit() for part in hour.split(",")):
        return "at " + _join(f"{int(part):02}:{int(minute):02}" for part in hour.split(","))
    minutes = (
        "every minute"
        if minute == "*"
        else f"every {minute[2:]} minutes"
        if minute.startswith("*/")
        else f"at minute {_list(minute, str)}"
    )
    if hour == "*":
        return "every hour" if minute == "0" else minutes if minute.startswith("*") else f"{minutes} of every hour"
    hours = f"every {hour[2:]} hours" if hour.startswith("*/") else f"during the hours {_list(hour, str)}"
    return hours if minute == "0" and hour.startswith("*/") else f"{minutes}, {hours}"


def _seconds(seconds: str) -> str:
    if seconds == "*":
        return "every second"
    return f"every {seconds[2:]} seconds" if seconds.startswith("*/") else f"at second {_list(seconds, str)}"


def _list(field: str, name: object) -> str:
    to_text = name if callable(name) else str
    return _join(_range(part, to_text) for part in field.split(","))


def _range(part: str, to_text: object) -> str:
    assert callable(to_text)
    span, _, step = part.partition("/")
    first, dash, last = span.partition("-")
    text = "any" if span == "*" else f"{to_text(first)} to {to_text(last)}" if dash else str(to_text(first))
    return f"{text}, every {step}.".rstrip(".") if step else text


def _weekday(text: str) -> str:
    number = DAY_NAMES.get(text.upper()[:3])
    number = int(text) if text.isdigit() and int(text) <= 7 else number
    return text if number is None else DAYS[number]


def _month(text: str) -> str:
    names = [month for month in MONTHS if month[:3].upper() == text.upper()]
    return names[0] if names else MONTHS[int(text) - 1] if text.isdigit() and 1 <= int(text) <= 12 else text


def _join(parts: Iterable[str]) -> str:
    words = list(parts)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


@dataclass(frozen=True)
class LocalTick:
    """A tick in the time zone of its schedule. `change` says that the clock was changed since the tick before."""

    at: datetime
    local: str
    zone: str
    change: str | None


def local_ticks(ticks: Iterable[datetime], zone: tzinfo, now: datetime) -> list[LocalTick]:
    """Ticks as the clock on the wall shows them, with the changes of daylight saving marked."""
    result: list[LocalTick] = []
    offset = now.astimezone(zone).utcoffset() or timedelta()
    for tick in ticks:
        local = tick.astimezone(zone)
        shift = (local.utcoffset() or timedelta()) - offset
        offset += shift
        hours = abs(shift.total_seconds()) / 3600
        change = f"clock {'forward' if shift > timedelta() else 'back'} {hours:g} h" if shift else None
        if local.fold and change is None:
            change = "second pass of this hour"
        result.append(LocalTick(tick, local.strftime("%a %Y-%m-%d %H:%M:%S"), local.tzname() or "", change))
    return result
