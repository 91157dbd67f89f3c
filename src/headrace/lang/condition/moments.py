"""Timestamps: RFC 3339 with an offset, years 0001 to 9999, held as microseconds since 1970 in UTC.

Promises: a text that fits `MOMENT_PATTERN` can be cast by every engine without an error, since the pattern knows the
days of a month and the leap years. Digits of a second beyond the sixth are cut.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY_OF_31 = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
_DAY_OF_30 = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
_DAY = f"(?:{_DAY_OF_31}|{_DAY_OF_30}|02-(?:0[1-9]|1[0-9]|2[0-8]))"
_TIME = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?"
_OFFSET = "(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])"

# Only syntax that PostgreSQL, Java and Python read alike; the anchors differ and are added by each printer.
MOMENT_PATTERN: Final = f"(?:{_YEAR}-{_DAY}|{_LEAP_YEAR}-02-29)[T ]{_TIME}{_OFFSET}"
_MOMENT = re.compile(MOMENT_PATTERN)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY_US = 86_400_000_000
_EPOCH_ORDINAL = _EPOCH.toordinal()


def micros_of_text(text: str) -> int | None:
    """Microseconds since 1970; None if the text is not an RFC 3339 timestamp."""
    if _MOMENT.fullmatch(text) is None:
        return None
    clock, offset_minutes = (text[11:-1], 0) if text[-1] == "Z" else (text[11:-6], _offset_minutes(text[-6:]))
    # Counted in integers: a datetime would overflow where the offset carries the first or last day out of its years.
    day = datetime(int(text[0:4]), int(text[5:7]), int(text[8:10]), tzinfo=UTC).toordinal() - _EPOCH_ORDINAL
    seconds = int(clock[0:2]) * 3600 + int(clock[3:5]) * 60 + int(clock[6:8]) - offset_minutes * 60
    return day * _DAY_US + seconds * 1_000_000 + int(clock[9:15].ljust(6, "0"))


def _offset_minutes(offset: str) -> int:
    minutes = int(offset[1:3]) * 60 + int(offset[4:6])
    return -minutes if offset[0] == "-" else minutes


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970; a moment without a zone is read as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(micros: int) -> datetime | None:
    """The moment; None beyond the years 1 to 9999 (in UTC)."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def moment_text(micros: int) -> str:
    """RFC 3339 in UTC, with as many digits of a second as needed."""
    moment = moment_of(micros)
    if moment is None:
        return f"{micros} microseconds since 1970"
    return moment.isoformat().replace("+00:00", "Z")
