"""Durations: text ↔ whole microseconds, exactly."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_NAMES = {
    "us": ("us", "microsecond", "microseconds"),
    "ms": ("ms", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_UNIT_OF = {name: unit for unit, names in _NAMES.items() for name in names}
UNITS = ", ".join(_UNITS_US)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def parse_duration(text: str) -> int:
    """`10 s`, `1.5h`, `2 days`, `1h 30min` → microseconds. ValueError says what is wrong with the text."""
    total = Fraction(0)
    end = 0
    for part in _PART.finditer(text):
        if text[end : part.start()].strip():
            break
        unit = _UNIT_OF.get(part[2])
        if unit is None:
            raise ValueError(f"unknown unit {part[2]!r}; units are {UNITS}")
        total += Fraction(part[1]) * _UNITS_US[unit]
        end = part.end()
    if not end or text[end:].strip():
        raise ValueError(f"{text!r} is not a duration; write a number and a unit ({UNITS})")
    if total.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of microseconds")
    return int(total)


def print_duration(duration_us: int) -> str:
    """The largest unit that divides evenly; weeks stay days, since few count in weeks."""
    for unit in ("d", "h", "min", "s", "ms"):
        if duration_us % _UNITS_US[unit] == 0:
            return f"{duration_us // _UNITS_US[unit]} {unit}"
    return f"{duration_us} us"
