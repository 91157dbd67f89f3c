"""The subject of a condition: an event, as Python values.

Owns how JSON is read and written here: numbers stay exact (int or Decimal), and text is printed as PostgreSQL prints
jsonb, so that all engines see the same characters.

Owns timestamps too: RFC 3339 with an offset, years 0001 to 9999, held as microseconds since 1970 in UTC. A text that fits
`MOMENT_PATTERN` can be cast by every engine without an error, since the pattern knows the days of a month and the leap years. Digits of
a second beyond the sixth are cut."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, Protocol

import msgspec

from headrace.core import Invalid

Json = None | bool | int | float | Decimal | str | list["Json"] | dict[str, "Json"]

# jsonb takes numbers of this many digits before and after the point; a longer one is rejected when it is published.
_DIGITS_MAX: Final = 16_383
_DEFAULT_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_EXACT_INT_BOUND: Final = 10**300


class Subject(Protocol):
    """The event as a condition sees it. Numbers are int or Decimal; a float counts as its shortest text."""

    @property
    def type(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, Json]: ...
    @property
    def payload(self) -> Json: ...
    @property
    def emitted_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Sample:
    """A subject that is in no log, for tests of conditions and `explain`."""

    payload: Json
    type: str = ""
    key: str | None = None
    headers: Mapping[str, Json] = field(default_factory=dict)
    emitted_at: datetime = _DEFAULT_MOMENT


def decode_json(text: str) -> Json:
    """JSON with exact numbers. Raises Invalid for what jsonb rejects too: U+0000, lone surrogates, endless numbers."""
    try:
        value: Json = _DECODER.decode(text)
        encoded = jsonb_text(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError, ValueError) as error:
        raise Invalid(f"not a JSON document: {error}") from None
    if "\\u0000" in encoded.replace("\\\\", ""):
        raise Invalid("not a JSON document for PostgreSQL: text holds U+0000; remove it")
    return value


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.adjusted() > _DIGITS_MAX or int(value.as_tuple().exponent) < -_DIGITS_MAX:
        raise ValueError(f"the number {text[:40]} has more than {_DIGITS_MAX} digits before or after the point")
    return value


_DECODER = msgspec.json.Decoder(float_hook=_decimal)


def jsonb_text(value: Json) -> str:
    """The value as PostgreSQL prints jsonb: keys by length, then bytes; a space after colon and comma; all digits."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _quote(value)
        case int() | float() | Decimal():
            return number_text(value)
        case list():
            return "[" + ", ".join(jsonb_text(item) for item in value) + "]"
    return "{" + ", ".join(f"{_quote(key)}: {jsonb_text(value[key])}" for key in sorted(value, key=_key_order)) + "}"


def _key_order(key: str) -> tuple[int, bytes]:
    encoded = key.encode()
    return len(encoded), encoded


def _quote(text: str) -> str:
    text.encode()
    return '"' + _ESCAPED.sub(lambda m: _ESCAPES.get(m.group(), f"\\u{ord(m.group()):04x}"), text) + '"'


def number_text(value: int | float | Decimal) -> str:
    """All digits, no exponent, no negative zero; the zeros at the end of a fraction stay."""
    if type(value) is int:
        # Python does not print very long integers; Decimal does.
        return str(value) if -_EXACT_INT_BOUND < value < _EXACT_INT_BOUND else format(Decimal(value), "f")
    number = decimal_of(value)
    return format(number if number else number.copy_abs(), "f")


def decimal_of(value: int | float | Decimal) -> Decimal:
    """The exact decimal; of a float, its shortest text."""
    return Decimal(repr(value)) if type(value) is float else Decimal(value)


_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY_OF_31 = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
_DAY_OF_30 = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
_DAY = f"(?:{_DAY_OF_31}|{_DAY_OF_30}|02-(?:0[1-9]|1[0-9]|2[0-8]))"
_TIME = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?"
_OFFSET = "(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])"

# It allows only syntax that PostgreSQL and Python read alike.
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
