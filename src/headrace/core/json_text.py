"""JSON in and out, strictly: what is written can be stored by PostgreSQL and read by every JSON reader.

Owns the checks of a payload. Promises: what `encode` returns, PostgreSQL accepts and gives back with the same meaning.
Every text is read again by a strict reader before it leaves, which is cheaper than looking at the value piece by piece."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

import msgspec

from headrace.core.errors import BadPayload, BadText, Invalid, NumberRefused, PayloadTooDeep
from headrace.core.limits import NUMBER_MAX, PAYLOAD_DEPTH_MAX

JSON: TypeAlias = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
"""A JSON value."""

RawJSON: TypeAlias = msgspec.Raw
"""JSON text that is passed on as it is, so that every digit stays."""

_nul = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_long_number = re.compile(r"\d{309}")
_exponent = re.compile(r"\d[eE][+-]?\d")
_tiny = re.compile(r"\d[eE]-\d{4}")
_SCALE_MAX = 16383
"""Digits after the point that PostgreSQL's numeric holds."""
_read = msgspec.json.Decoder().decode


def encode(value: JSON | RawJSON) -> str:
    """The JSON text of a value; raises the error that tells what PostgreSQL or a JSON reader would refuse."""
    raw = isinstance(value, msgspec.Raw)
    try:
        data = bytes(value) if isinstance(value, msgspec.Raw) else _write(value)
        read = _read(data)
        text = data.decode()
    except (ValueError, TypeError, RecursionError) as error:
        # A decimal that is not finite comes out as a bare word, which is not JSON: say what it was.
        if not raw and isinstance(error, msgspec.DecodeError):
            _refuse_numbers(_plain_tree(value))
        raise _refusal(error) from None
    # The encoder writes a float that is not finite as null: only where a null stands can one have been.
    if not raw and "null" in text:
        _refuse_numbers(_plain_tree(value))
    if "\\" in text and _nul.search(text):
        raise BadText("payload has a NUL character (\\u0000), which PostgreSQL cannot store; remove or escape it")
    if raw and _tiny.search(text):
        printed_bytes(text)
    # 129 levels take 258 brackets and a number beyond a double 309 digits: short texts are cleared without a walk.
    if len(text) > 2 * PAYLOAD_DEPTH_MAX:
        if text.count("{") + text.count("[") > PAYLOAD_DEPTH_MAX:
            _refuse_depth(read)
        if _long_number.search(text):
            _refuse_numbers(read)
    return text


def decode(text: str | bytes) -> JSON:
    """The value of a JSON text. Integers stay exact; NaN, 1e400 and the like are refused."""
    try:
        value: JSON = _read(text)
    except (ValueError, RecursionError) as error:
        raise _refusal(error) from None
    return value


def fits(text: str, bytes_max: int) -> bool:
    """Whether a JSON text has at most so many bytes when PostgreSQL prints it: with a space after every comma and colon,
    and numbers without an exponent."""
    # The worst a text can grow: "1e-16383" prints as 16 385 characters, "1e300" as 301, and "[1,1]" never doubles.
    if len(text) * 2100 <= bytes_max:
        return True
    if len(text) * 64 <= bytes_max and "e-" not in text and "E-" not in text:
        return True
    if len(text.encode()) * 2 <= bytes_max and not _exponent.search(text):
        return True
    return printed_bytes(text) <= bytes_max


def printed_bytes(text: str) -> int:
    """The bytes of a JSON text as PostgreSQL's jsonb prints it."""
    quoted = 0

    def digits(number: str) -> str:
        nonlocal quoted
        quoted += 2
        value = Decimal(number)
        # Before it is written out: the exponent may stand for gigabytes.
        if int(value.as_tuple().exponent) < -_SCALE_MAX:
            raise NumberRefused(
                f"payload has a number with more than {_SCALE_MAX} digits after the point; publish it as a string"
            )
        return format(value if value else abs(value), "f")

    value = json.loads(text, parse_float=digits)
    return len(json.dumps(value, ensure_ascii=False).encode()) - quoted


def _refusal(error: Exception) -> Invalid:
    """Our error for what the encoder or the reader has refused."""
    if isinstance(error, RecursionError):
        return _too_deep()
    if isinstance(error, UnicodeEncodeError):
        return BadText(f"payload has half a surrogate pair at character {error.start}; repair the text first")
    if isinstance(error, UnicodeDecodeError):
        return BadText(f"payload is not UTF-8 at byte {error.start}; repair the text first")
    if isinstance(error, TypeError):
        return BadPayload(f"payload is not a JSON value: {error}; convert it first")
    # What is left beside bad syntax are numbers: out of range, or longer than Python converts.
    if "out of range" in str(error) or not isinstance(error, msgspec.DecodeError):
        return NumberRefused(f"payload has a number that JSON readers refuse: {error}; publish it as a string")
    return BadPayload(f"payload is not JSON: {error}; correct the text")


def _plain_tree(value: JSON | RawJSON) -> JSON:
    tree: JSON = msgspec.to_builtins(value, builtin_types=(Decimal,), enc_hook=_plain)
    return tree


def _plain(value: object) -> object:
    """What the encoder does not know by itself: subclasses of plain types, and other mappings and sequences."""
    if type(value) in (list, tuple, dict):
        raise TypeError(f"a {type(value).__name__} cannot name a member")
    if isinstance(value, msgspec.Raw):
        # It has been read back by itself; there is no number to look at.
        return None
    for plain in (str, float, int):
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_write = msgspec.json.Encoder(decimal_format="number", enc_hook=_plain).encode


def _too_deep() -> PayloadTooDeep:
    return PayloadTooDeep(
        f"payload nests deeper than {PAYLOAD_DEPTH_MAX} levels, or contains itself; "
        "flatten it, or publish the deep part as a string"
    )


def _refuse_depth(value: JSON) -> None:
    level: list[JSON] = [value]
    for _ in range(PAYLOAD_DEPTH_MAX):
        level = [child for node in level for child in _children(node) if isinstance(child, dict | list)]
        if not level:
            return
    raise _too_deep()


def _refuse_numbers(value: JSON) -> None:
    nodes: list[JSON] = [value]
    while nodes:
        node = nodes.pop()
        if isinstance(node, int | float | Decimal) and not isinstance(node, bool) and not _readable(node):
            raise NumberRefused("payload has a number that is not finite or beyond 1.8e308; publish it as a string")
        nodes.extend(_children(node))


def _readable(number: int | float | Decimal) -> bool:
    if isinstance(number, int):
        return -NUMBER_MAX <= number <= NUMBER_MAX
    if isinstance(number, Decimal):
        return number.is_finite() and math.isfinite(float(number))
    return math.isfinite(number)


def _children(node: JSON) -> Sequence[JSON]:
    if isinstance(node, Mapping):
        return list(node.values())
    return node if isinstance(node, list | tuple) else ()
