"""JSON in and out, strictly: what is written can be stored by PostgreSQL and read by every JSON reader.

Owns the checks of a payload. Promises: what `encode` returns, PostgreSQL accepts and gives back with the same meaning.
Every text is read again by a strict reader before it leaves, which is cheaper than looking at the value piece by piece."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NoReturn, TypeAlias

import msgspec

from headrace.core._errors import BadPayload, BadText, NumberRefused, PayloadTooDeep
from headrace.core._limits import NUMBER_MAX, PAYLOAD_DEPTH_MAX

JSON: TypeAlias = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
"""A JSON value."""

RawJSON: TypeAlias = msgspec.Raw
"""JSON text that is passed on as it is, so that every digit stays."""

_nul = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_INTEGER_MAX = int(NUMBER_MAX)
_long_number = re.compile(r"\d{309}")
_exponent = re.compile(r"\d[eE]\+?\d")
_read = msgspec.json.Decoder().decode


def encode(value: JSON | RawJSON) -> str:
    """The JSON text of a value; raises the error that tells what PostgreSQL or a JSON reader would refuse."""
    if isinstance(value, msgspec.Raw):
        text = _decoded(bytes(value))
        read = decode(text)
    else:
        text = _decoded(_encode_value(value))
        # The encoder writes a float that is not finite as null: only where a null stands can one have been.
        if "null" in text:
            _refuse_numbers(msgspec.to_builtins(value, builtin_types=(Decimal,), enc_hook=_plain))
        read = _read_back(text, value)
    if "\\" in text and _nul.search(text):
        raise BadText("payload has a NUL character (\\u0000), which PostgreSQL cannot store; remove or escape it")
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
    except msgspec.DecodeError as error:
        if "out of range" in str(error):
            raise NumberRefused(f"{error}; publish the number as a string") from None
        raise BadPayload(f"not JSON: {error}") from None
    except RecursionError:
        _too_deep()
    except UnicodeDecodeError as error:
        raise BadText(f"not UTF-8 at byte {error.start}; repair the text first") from None
    except ValueError as error:  # an integer longer than Python converts
        raise NumberRefused(f"{error}; publish the number as a string") from None
    return value


def fits(text: str, bytes_max: int) -> bool:
    """Whether a JSON text has at most so many bytes when PostgreSQL prints it: with a space after every comma and colon,
    and numbers without an exponent."""
    # "1e300" prints as 301 digits, which is the worst of all; without exponents a text at most doubles.
    if len(text) * 64 <= bytes_max or (len(text.encode()) * 2 <= bytes_max and not _exponent.search(text)):
        return True
    return printed_bytes(text) <= bytes_max


def printed_bytes(text: str) -> int:
    """The bytes of a JSON text as PostgreSQL's jsonb prints it."""
    quoted = 0

    def digits(number: str) -> str:
        nonlocal quoted
        quoted += 2
        value = Decimal(number)
        return format(value if value else abs(value), "f")

    value = json.loads(text, parse_float=digits)
    return len(json.dumps(value, ensure_ascii=False).encode()) - quoted


def _encode_value(value: JSON) -> bytes:
    try:
        return _write(value)
    except UnicodeEncodeError as error:
        raise BadText(f"payload has half a surrogate pair: {error.reason}; repair the text first") from None
    except RecursionError:
        _too_deep()
    except ValueError as error:
        raise NumberRefused(f"payload has a number that JSON readers refuse: {error}; publish it as a string") from None
    except (TypeError, msgspec.MsgspecError) as error:
        raise BadPayload(f"payload is not a JSON value: {error}; convert it first") from None


def _read_back(text: str, value: JSON) -> JSON:
    try:
        return decode(text)
    except BadPayload:
        # A decimal that is not finite comes out as a bare word.
        _refuse_numbers(msgspec.to_builtins(value, builtin_types=(Decimal,), enc_hook=_plain))
        raise


def _plain(value: object) -> object:
    """What the encoder does not know by itself: subclasses of plain types, and other mappings and sequences."""
    for plain in (str, float, int):
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_write = msgspec.json.Encoder(decimal_format="number", enc_hook=_plain).encode


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise BadText(f"payload is not UTF-8 at byte {error.start}; repair the text first") from None


def _too_deep() -> NoReturn:
    raise PayloadTooDeep(
        f"payload nests deeper than {PAYLOAD_DEPTH_MAX} levels, or contains itself; "
        "flatten it, or publish the deep part as a string"
    ) from None


def _refuse_depth(value: JSON) -> None:
    level: list[JSON] = [value]
    for _ in range(PAYLOAD_DEPTH_MAX):
        level = [child for node in level for child in _children(node) if isinstance(child, dict | list)]
        if not level:
            return
    _too_deep()


def _refuse_numbers(value: JSON) -> None:
    nodes: list[JSON] = [value]
    while nodes:
        node = nodes.pop()
        if isinstance(node, int | float | Decimal) and not isinstance(node, bool) and not _readable(node):
            raise NumberRefused("payload has a number that is not finite or beyond 1.8e308; publish it as a string")
        nodes.extend(_children(node))


def _readable(number: int | float | Decimal) -> bool:
    if isinstance(number, int):
        return -_INTEGER_MAX <= number <= _INTEGER_MAX
    return math.isfinite(number) and math.isfinite(float(number))


def _children(node: JSON) -> Sequence[JSON]:
    if isinstance(node, Mapping):
        return list(node.values())
    return node if isinstance(node, list | tuple) else ()
