"""Fields → Python functions that extract a value from an event. They never raise; unknown is None."""

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
from headrace.lang.condition.tree import Extraction, Field, KeyOrIndex, Step, Value

NodeFunction = Callable[[Subject], "Value | None"]


class _Missing:
    """The path leads to nothing. A JSON null is None."""


_MISSING: Final = _Missing()
_JsonValue = Json | Mapping[str, Json] | _Missing
# Wide enough for every digit that jsonb can hold, so that nothing is rounded by accident.
EXACT: Final = Context(prec=40_000, rounding=ROUND_HALF_UP)
_QUANTA: Final = {scale: Decimal(1).scaleb(-scale) for scale in range(40)}
_INTEGER_TEXT = re.compile(INTEGER_TEXT.replace("$", r"\Z"))
_NUMERIC_TEXT = re.compile(NUMERIC_TEXT.replace("$", r"\Z"))
_TRUTH = {**dict.fromkeys(TRUE_TEXTS, True), **dict.fromkeys(FALSE_TEXTS, False)}


def compile_field(field: Field) -> NodeFunction:
    """A function from the event to the field's value."""
    if field.extraction is Extraction.COLUMN:
        return lambda subject: micros_of(subject.emitted_at)
    if field.root in ("type", "key"):
        return _compile_column(field)
    find = _compile_path(field.root, field.path)
    if field.extraction is Extraction.HAS_KEY:
        key = field.key or ""
        return lambda subject: _has(find(subject), key)
    extract = _EXTRACTIONS[field.extraction]
    return lambda subject: extract(find(subject))


def _compile_column(field: Field) -> NodeFunction:
    name = field.root
    if field.extraction is Extraction.TEXT:
        return (lambda subject: subject.type) if name == "type" else (lambda subject: subject.key)
    convert = _TEXT_CASTS[field.extraction]

    def read(subject: Subject) -> Value | None:
        text = subject.type if name == "type" else subject.key
        return None if text is None else convert(text)

    return read


def _compile_path(root: str, path: tuple[Step, ...]) -> Callable[[Subject], _JsonValue]:
    if root == "headers":
        return lambda subject: _follow(subject.headers, path)
    if len(path) == 1 and isinstance(path[0], str):
        key = path[0]

        def top(subject: Subject) -> _JsonValue:
            payload = subject.payload
            return payload.get(key, _MISSING) if type(payload) is dict else _MISSING

        return top
    return lambda subject: _follow(subject.payload, path)


def _follow(value: _JsonValue, path: tuple[Step, ...]) -> _JsonValue:
    for step in path:
        if isinstance(value, list):
            index = step.number if isinstance(step, KeyOrIndex) else step
            if type(index) is not int or not -len(value) <= index < len(value):
                return _MISSING
            value = value[index]
        elif isinstance(value, Mapping):
            key = str(step.number) if isinstance(step, KeyOrIndex) else step
            if type(key) is not str or key not in value:
                return _MISSING
            value = value[key]
        else:
            return _MISSING
    return value


def _text(value: _JsonValue) -> str | None:
    if type(value) is str:
        return value
    if value is None or isinstance(value, _Missing):
        return None
    return jsonb_text(dict(value) if isinstance(value, Mapping) else value)


def _number(value: _JsonValue) -> int | Decimal | None:
    if type(value) is int or type(value) is Decimal:
        return value
    return decimal_of(value) if type(value) is float else None


def round_half_up(value: int | Decimal, scale: int) -> Decimal:
    """Half away from zero, as PostgreSQL and Spark round decimals."""
    return Decimal(value).quantize(_QUANTA[scale], context=EXACT)


def to_int(value: int | Decimal | None) -> int | None:
    """`::int` of a number."""
    integer = _round_to_int(value)
    return integer if integer is not None and INT_MIN <= integer <= INT_MAX else None


def to_bigint(value: int | Decimal | None) -> int | None:
    """`::bigint` of a number, and the bound of all integer arithmetic."""
    integer = _round_to_int(value)
    return integer if integer is not None and -INTEGER_MAX <= integer <= INTEGER_MAX else None


def _round_to_int(value: int | Decimal | None) -> int | None:
    if type(value) is Decimal:
        # Do not write out a number far outside as an integer first.
        return int(round_half_up(value, 0)) if abs(value) < NUMERIC_BOUND else None
    return value if type(value) is int else None


def to_numeric(value: int | Decimal | None) -> Decimal | int | None:
    """`::numeric` of a number, and the bound of all numeric arithmetic."""
    if value is None or not -NUMERIC_BOUND < value < NUMERIC_BOUND:
        return None
    if type(value) is int:
        return value
    rounded = round_half_up(value, NUMERIC_SCALE)
    return rounded if -NUMERIC_BOUND < rounded < NUMERIC_BOUND else None


def _typeof(value: _JsonValue) -> str | None:
    match value:
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


def _has(value: _JsonValue, key: str) -> bool | None:
    if isinstance(value, _Missing):
        return None
    if isinstance(value, list):
        return any(type(item) is str and item == key for item in value)
    return key in value if isinstance(value, Mapping) else type(value) is str and value == key


def _text_number(text: str, pattern: re.Pattern[str]) -> Decimal | None:
    return Decimal(text) if pattern.match(text) else None


_TEXT_CASTS: Final[Mapping[Extraction, Callable[[str], Value | None]]] = {
    Extraction.TEXT_INT: lambda text: to_int(_text_number(text, _INTEGER_TEXT)),
    Extraction.TEXT_BIGINT: lambda text: to_bigint(_text_number(text, _INTEGER_TEXT)),
    Extraction.TEXT_NUMERIC: lambda text: to_numeric(_text_number(text, _NUMERIC_TEXT)),
    Extraction.TEXT_BOOLEAN: lambda text: _TRUTH.get(ascii_lower(text)),
    Extraction.TEXT_TIMESTAMPTZ: micros_of_text,
}


def _text_cast(convert: Callable[[str], Value | None]) -> Callable[[_JsonValue], Value | None]:
    def extract(value: _JsonValue) -> Value | None:
        text = _text(value)
        return None if text is None else convert(text)

    return extract


_EXTRACTIONS: Final[Mapping[Extraction, Callable[[_JsonValue], Value | None]]] = {
    Extraction.TEXT: _text,
    Extraction.INT: lambda value: to_int(_number(value)),
    Extraction.BIGINT: lambda value: to_bigint(_number(value)),
    Extraction.NUMERIC: lambda value: to_numeric(_number(value)),
    Extraction.BOOLEAN: lambda value: value if type(value) is bool else None,
    Extraction.TYPEOF: _typeof,
    Extraction.ARRAY_LENGTH: lambda value: len(value) if isinstance(value, list) else None,
    **{extraction: _text_cast(convert) for extraction, convert in _TEXT_CASTS.items()},
}
