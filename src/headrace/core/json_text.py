"""Strict JSON: what `encode` returns, PostgreSQL stores with the same meaning, and every JSON reader can read.

`encode` reads its own output again with a strict reader. That is cheaper than checking the value piece by piece."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

import msgspec

from headrace.core.errors import Invalid, InvalidNumber, InvalidPayload, InvalidText, PayloadTooDeep
from headrace.core.limits import NUMBER_MAX, PAYLOAD_DEPTH_MAX

JSON: TypeAlias = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
"""A JSON value."""

RawJSON: TypeAlias = msgspec.Raw
"""JSON text that is stored as written, so that every digit is kept."""

_nul = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_long_number = re.compile(r"\d{309}")
_exponent = re.compile(r"\d[eE][+-]?\d")
_large_negative_exponent = re.compile(r"\d[eE]-\d{4}")
_SCALE_MAX = 16383
"""Digits after the decimal point that PostgreSQL's numeric can store."""
_read = msgspec.json.Decoder().decode


def encode(value: JSON | RawJSON) -> str:
    """The JSON text of a value. Raises Invalid for whatever PostgreSQL or a JSON reader would reject."""
    is_raw = isinstance(value, msgspec.Raw)
    try:
        data = bytes(value) if isinstance(value, msgspec.Raw) else _write(value)
        tree = _read(data)
        text = data.decode()
    except (ValueError, TypeError, RecursionError) as error:
        # A decimal that is not finite is written as a bare word, which is not JSON: name the real reason.
        if not is_raw and isinstance(error, msgspec.DecodeError):
            _reject_numbers(_builtins(value))
        raise _invalid(error) from None
    # The encoder writes a float that is not finite as null.
    if not is_raw and "null" in text:
        _reject_numbers(_builtins(value))
    if "\\" in text and _nul.search(text):
        raise InvalidText("payload has a NUL character (\\u0000), which PostgreSQL cannot store; remove or escape it")
    if is_raw and _large_negative_exponent.search(text):
        jsonb_text_bytes(text)
    # 129 levels need 258 brackets, and a number beyond a double needs 309 digits: a shorter text has neither.
    if len(text) > 2 * PAYLOAD_DEPTH_MAX:
        if text.count("{") + text.count("[") > PAYLOAD_DEPTH_MAX:
            _reject_depth(tree)
        if _long_number.search(text):
            _reject_numbers(tree)
    return text


def decode(text: str | bytes) -> JSON:
    """The value of a JSON text. Integers stay exact; NaN, 1e400 and the like are rejected."""
    try:
        value: JSON = _read(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(error) from None
    return value


def fits_in_jsonb(text: str, bytes_max: int) -> bool:
    """True if PostgreSQL prints this JSON with at most `bytes_max` bytes: with a space after every comma and colon, and
    numbers without an exponent."""
    # The most a text can grow: "1e-16383" prints as 16 385 characters, "1e300" as 301, and "[1,1]" less than doubles.
    if len(text) * 2100 <= bytes_max:
        return True
    if len(text) * 64 <= bytes_max and "e-" not in text and "E-" not in text:
        return True
    if len(text.encode()) * 2 <= bytes_max and not _exponent.search(text):
        return True
    return jsonb_text_bytes(text) <= bytes_max


def jsonb_text_bytes(text: str) -> int:
    """The bytes of a JSON text as PostgreSQL's jsonb prints it."""
    quotes = 0

    def print_number(number: str) -> str:
        nonlocal quotes
        quotes += 2
        value = Decimal(number)
        # Checked before formatting: the exponent may stand for gigabytes.
        if int(value.as_tuple().exponent) < -_SCALE_MAX:
            raise InvalidNumber(
                f"payload has a number with more than {_SCALE_MAX} digits after the decimal point; publish it as a string"
            )
        return format(value if value else abs(value), "f")

    value = json.loads(text, parse_float=print_number)
    return len(json.dumps(value, ensure_ascii=False).encode()) - quotes


def _invalid(error: Exception) -> Invalid:
    """Our error for one of the encoder or the reader."""
    if isinstance(error, RecursionError):
        return _too_deep()
    if isinstance(error, UnicodeEncodeError):
        return InvalidText(f"payload has half a surrogate pair at character {error.start}; correct the text")
    if isinstance(error, UnicodeDecodeError):
        return InvalidText(f"payload is not UTF-8 at byte {error.start}; correct the text")
    if isinstance(error, TypeError):
        return InvalidPayload(f"payload is not a JSON value: {error}; convert it first")
    # Besides bad syntax this can only be a number: out of range, or longer than Python converts.
    if "out of range" in str(error) or not isinstance(error, msgspec.DecodeError):
        return InvalidNumber(f"payload has a number that JSON readers reject: {error}; publish it as a string")
    return InvalidPayload(f"payload is not JSON: {error}; correct the text")


def _builtins(value: JSON | RawJSON) -> JSON:
    tree: JSON = msgspec.to_builtins(value, builtin_types=(Decimal,), enc_hook=_builtin)
    return tree


def _builtin(value: object) -> object:
    """Converts what msgspec does not know: subclasses of builtin types, other mappings and other sequences."""
    if type(value) in (list, tuple, dict):
        raise TypeError(f"a {type(value).__name__} cannot be a member name")
    if isinstance(value, msgspec.Raw):
        return None  # Its text is read on its own.
    for builtin in (str, float, int):
        if isinstance(value, builtin):
            return builtin(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_write = msgspec.json.Encoder(decimal_format="number", enc_hook=_builtin).encode


def _too_deep() -> PayloadTooDeep:
    return PayloadTooDeep(
        f"payload nests deeper than {PAYLOAD_DEPTH_MAX} levels, or contains itself; "
        "flatten it, or publish the deep part as a string"
    )


def _reject_depth(tree: JSON) -> None:
    level: list[JSON] = [tree]
    for _ in range(PAYLOAD_DEPTH_MAX):
        level = [child for node in level for child in _children(node) if isinstance(child, dict | list)]
        if not level:
            return
    raise _too_deep()


def _reject_numbers(tree: JSON) -> None:
    nodes: list[JSON] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, int | float | Decimal) and not isinstance(node, bool) and not _is_readable(node):
            raise InvalidNumber("payload has a number that is not finite or beyond 1.8e308; publish it as a string")
        nodes.extend(_children(node))


def _is_readable(number: int | float | Decimal) -> bool:
    if isinstance(number, int):
        return -NUMBER_MAX <= number <= NUMBER_MAX
    if isinstance(number, Decimal):
        return number.is_finite() and math.isfinite(float(number))
    return math.isfinite(number)


def _children(node: JSON) -> Sequence[JSON]:
    if isinstance(node, Mapping):
        return list(node.values())
    return node if isinstance(node, list | tuple) else ()
