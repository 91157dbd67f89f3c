"""Fields → Python functions: a place in the event's values, and what is taken there. Never raises; unknown is None."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

from headrace.lang.condition.like import ascii_lower
from headrace.lang.condition.limits import INT_MAX, INT_MIN, INTEGER_MAX, NUMERIC_BOUND, NUMERIC_SCALE
from headrace.lang.condition.moments import micros_of, micros_of_text
from headrace.lang.condition.postgres_printer import FALSE_TEXTS, INTEGER_TEXT, NUMERIC_TEXT, TRUE_TEXTS
from headrace.lang.condition.subject import Json, Subject, decimal_of, jsonb_text
from headrace.lang.condition.tree import Either, Field, Step, Take, Value

Read = Callable[[Subject], "Value | None"]


class _Missing:
    """Nothing stands at the place; a JSON null does (None)."""


_MISSING: Final = _Missing()
_Found = Json | Mapping[str, Json] | _Missing
# Wide enough for every digit jsonb can hold, so that nothing rounds but what is rounded on purpose.
EXACT: Final = Context(prec=40_000, rounding=ROUND_HALF_UP)
_QUANTA: Final = {scale: Decimal(1).scaleb(-scale) for scale in range(40)}
_INTEGER_TEXT = re.compile(INTEGER_TEXT.replace("$", r"\Z"))
_NUMERIC_TEXT = re.compile(NUMERIC_TEXT.replace("$", r"\Z"))
_TRUTH = {**dict.fromkeys(TRUE_TEXTS, True), **dict.fromkeys(FALSE_TEXTS, False)}


def reader_of(field: Field) -> Read:
    """A function from the event to the field's value."""
    if field.take is Take.MOMENT:
        return lambda subject: micros_of(subject.emitted_at)
    if field.root in ("type", "key"):
        return _column_reader(field)
    find = _finder(field.root, field.path)
    if field.take is Take.HAS:
        key = field.key or ""
        return lambda subject: _has(find(subject), key)
    taker = _TAKERS[field.take]
    return lambda subject: taker(find(subject))


def _column_reader(field: Field) -> Read:
    name = field.root
    if field.take is Take.TEXT:
        return (lambda subject: subject.type) if name == "type" else (lambda subject: subject.key)
    convert = _TEXT_CASTS[field.take]

    def read(subject: Subject) -> Value | None:
        text = subject.type if name == "type" else subject.key
        return None if text is None else convert(text)

    return read


def _finder(root: str, path: tuple[Step, ...]) -> Callable[[Subject], _Found]:
    if root == "headers":
        return lambda subject: _followed(subject.headers, path)
    if len(path) == 1 and isinstance(path[0], str):
        key = path[0]

        def top(subject: Subject) -> _Found:
            payload = subject.payload
            return payload.get(key, _MISSING) if type(payload) is dict else _MISSING

        return top
    return lambda subject: _followed(subject.payload, path)


def _followed(value: _Found, path: tuple[Step, ...]) -> _Found:
    for step in path:
        if isinstance(value, list):
            index = step.number if isinstance(step, Either) else step
            if type(index) is not int or not -len(value) <= index < len(value):
                return _MISSING
            value = value[index]
        elif isinstance(value, Mapping):
            key = str(step.number) if isinstance(step, Either) else step
            if type(key) is not str or key not in value:
                return _MISSING
            value = value[key]
        else:
            return _MISSING
    return value


def _text(found: _Found) -> str | None:
    if type(found) is str:
        return found
    if found is None or isinstance(found, _Missing):
        return None
    return jsonb_text(dict(found) if isinstance(found, Mapping) else found)


def _number(found: _Found) -> int | Decimal | None:
    if type(found) is int or type(found) is Decimal:
        return found
    return decimal_of(found) if type(found) is float else None


def rounded(value: int | Decimal, scale: int) -> Decimal:
    """Half away from zero, as PostgreSQL and Spark round decimals."""
    return Decimal(value).quantize(_QUANTA[scale], context=EXACT)


def to_int(value: int | Decimal | None) -> int | None:
    """`::int` of a number."""
    whole = _whole(value)
    return whole if whole is not None and INT_MIN <= whole <= INT_MAX else None


def to_bigint(value: int | Decimal | None) -> int | None:
    """`::bigint` of a number, and the bound of all integer arithmetic."""
    whole = _whole(value)
    return whole if whole is not None and -INTEGER_MAX <= whole <= INTEGER_MAX else None


def _whole(value: int | Decimal | None) -> int | None:
    if type(value) is Decimal:
        # A number far outside is not written out as an integer first.
        return int(rounded(value, 0)) if abs(value) < NUMERIC_BOUND else None
    return value if type(value) is int else None


def to_numeric(value: int | Decimal | None) -> Decimal | int | None:
    """`::numeric` of a number, and the bound of all numeric arithmetic."""
    if value is None or not -NUMERIC_BOUND < value < NUMERIC_BOUND:
        return None
    if type(value) is int:
        return value
    near = rounded(value, NUMERIC_SCALE)
    return near if -NUMERIC_BOUND < near < NUMERIC_BOUND else None


def _boolean(found: _Found) -> bool | None:
    return found if type(found) is bool else None


def _typeof(found: _Found) -> str | None:
    match found:
        case _Missing():
            return None
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case int() | float() | Decimal():
            return "number"
    return "object"


def _array_length(found: _Found) -> int | None:
    return len(found) if isinstance(found, list) else None


def _has(found: _Found, key: str) -> bool | None:
    if isinstance(found, _Missing):
        return None
    if isinstance(found, list):
        return any(type(item) is str and item == key for item in found)
    return key in found if isinstance(found, Mapping) else type(found) is str and found == key


def _text_number(text: str, pattern: re.Pattern[str]) -> Decimal | None:
    return Decimal(text) if pattern.match(text) else None


_TEXT_CASTS: Final[Mapping[Take, Callable[[str], Value | None]]] = {
    Take.TEXT_INT: lambda text: to_int(_text_number(text, _INTEGER_TEXT)),
    Take.TEXT_BIGINT: lambda text: to_bigint(_text_number(text, _INTEGER_TEXT)),
    Take.TEXT_NUMERIC: lambda text: to_numeric(_text_number(text, _NUMERIC_TEXT)),
    Take.TEXT_BOOLEAN: lambda text: _TRUTH.get(ascii_lower(text)),
    Take.TEXT_TIMESTAMPTZ: micros_of_text,
}


def _text_taker(convert: Callable[[str], Value | None]) -> Callable[[_Found], Value | None]:
    def take(found: _Found) -> Value | None:
        text = _text(found)
        return None if text is None else convert(text)

    return take


_TAKERS: Final[Mapping[Take, Callable[[_Found], Value | None]]] = {
    Take.TEXT: _text,
    Take.INT: lambda found: to_int(_number(found)),
    Take.BIGINT: lambda found: to_bigint(_number(found)),
    Take.NUMERIC: lambda found: to_numeric(_number(found)),
    Take.BOOLEAN: _boolean,
    Take.TYPEOF: _typeof,
    Take.ARRAY_LENGTH: _array_length,
    **{take: _text_taker(convert) for take, convert in _TEXT_CASTS.items()},
}
