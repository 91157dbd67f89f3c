"""The subject of a condition: an event, as Python values.

Owns how JSON is read and written here: numbers stay exact (int or Decimal), and text is printed as PostgreSQL prints
jsonb, so that all engines see the same characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
