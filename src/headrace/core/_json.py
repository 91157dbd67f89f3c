"""JSON in and out, strictly: what is written can be stored by PostgreSQL and read by every JSON reader.

Owns the checks of a payload. Promises: what `encode` returns, PostgreSQL accepts and gives back with the same meaning."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

import msgspec

from headrace.core._errors import BadPayload, BadText, NumberRefused, PayloadTooDeep
from headrace.core._limits import NUMBER_MAX, PAYLOAD_DEPTH_MAX

JSON: TypeAlias = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
"""A JSON value."""

RawJSON: TypeAlias = msgspec.Raw
"""JSON text that is passed on as it is, so that every digit stays."""

_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_rich = msgspec.json.Encoder(decimal_format="number")
_nul = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_INTEGER_MAX = int(NUMBER_MAX)
_long_number = re.compile(r"\d{309}")


def encode(value: JSON | RawJSON) -> str:
    """The JSON text of a value; raises the error that tells what PostgreSQL or a JSON reader would refuse."""
    text = _encode_raw(value) if isinstance(value, msgspec.Raw) else _encode_value(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadText(f"payload has half a surrogate pair at character {error.start}; repair the text first") from None
    if "\\u0000" in text and _nul.search(text):
        raise BadText("payload has a NUL character (\\u0000), which PostgreSQL cannot store; remove or escape it")
    # A level takes a bracket and 309 digits take 309 characters: most texts are cleared without a walk.
    if text.count("{") + text.count("[") > PAYLOAD_DEPTH_MAX:
        _refuse_depth(decode(text))
    if len(text) > 308 and _long_number.search(text):
        _refuse_numbers(decode(text))
    return text


def decode(text: str | bytes) -> JSON:
    """The value of a JSON text. Integers stay exact; NaN, 1e400 and the like are refused."""
    try:
        value: JSON = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if "out of range" in str(error):
            raise NumberRefused(f"{error}; publish the number as a string") from None
        raise BadPayload(f"not JSON: {error}") from None
    except RecursionError:
        raise PayloadTooDeep(f"payload nests deeper than {PAYLOAD_DEPTH_MAX} levels; flatten it") from None
    except ValueError as error:  # an integer longer than Python converts, or bytes that are not UTF-8
        raise BadPayload(f"not JSON that can be read: {error}") from None
    return value


def _encode_value(value: JSON) -> str:
    try:
        return _dumps(value)
    except TypeError:
        return _encode_rich(value)
    except RecursionError:
        raise PayloadTooDeep(f"payload nests deeper than {PAYLOAD_DEPTH_MAX} levels; flatten it") from None
    except ValueError as error:
        if "Circular" in str(error):
            raise BadPayload("payload contains itself; break the circle") from None
        raise NumberRefused(f"payload has a number that JSON readers refuse: {error}") from None


def _encode_rich(value: JSON) -> str:
    """For dates, uuids, decimals, dataclasses and the like: they become what msgspec makes of them."""
    try:
        plain = msgspec.to_builtins(value, builtin_types=(Decimal,))
        _refuse_numbers(plain)
        return _rich.encode(plain).decode()
    except (TypeError, msgspec.MsgspecError) as error:
        raise BadPayload(f"payload is not a JSON value: {error}; convert it first") from None


def _encode_raw(raw: RawJSON) -> str:
    decode(bytes(raw))
    return bytes(raw).decode()


def _refuse_depth(value: JSON) -> None:
    level: list[JSON] = [value]
    for _ in range(PAYLOAD_DEPTH_MAX + 1):
        level = [child for node in level for child in _children(node)]
        if not level:
            return
    raise PayloadTooDeep(
        f"payload nests deeper than {PAYLOAD_DEPTH_MAX} levels; flatten it, or publish the deep part as a string"
    )


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
