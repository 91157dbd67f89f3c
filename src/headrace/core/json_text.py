"""Strict JSON: what `encode` returns, PostgreSQL stores with the same meaning, and every JSON reader can read.

`encode` reads its own output again with a strict reader. That is cheaper than checking the value piece by piece. Only a value that is
rejected is searched: for the path of the first part that is wrong, what is wrong with it, and what to do about it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from headrace.core.errors import Invalid, InvalidNumber, InvalidPayload, InvalidText, PayloadTooDeep
from headrace.core.json_forms import Payload, RawJSON, members_of, write_json

JSON: TypeAlias = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
"""A JSON value."""

PAYLOAD_DEPTH_MAX: Final = 128
"""Levels of arrays and objects. Every common JSON reader follows more levels than this."""
NUMBER_MAX: Final = 17976931348623158 * 10**292
"""The largest number that rounds to a finite double. jsonb stores larger ones, but most JSON readers reject them."""

Problem: TypeAlias = Callable[[object], str | None]
"""Says what is wrong with a value, as the rest of a sentence that starts with its path; None if nothing is."""

_Entry: TypeAlias = tuple[object, "_Entry | None", object]
_NAME_CHARS_MAX = 40
_MINUTE = timedelta(minutes=1)
_plain = frozenset({str, int, bool, type(None)})
_name_types = frozenset({str})
_never_wrong = frozenset({bool, type(None), date, time, timedelta, UUID, bytes})

_nul = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_long_number = re.compile(r"\d{309}")
_exponent = re.compile(r"\d[eE][+-]?\d")
_large_negative_exponent = re.compile(r"\d[eE]-\d{4}")
_SCALE_MAX = 16383
"""Digits after the decimal point that PostgreSQL's numeric can store."""
# A time without a zone or with an offset. UTC is Z, or +00:00 in Python's own text.
_local_time = re.compile(r"T..:..:..[.0-9]*+(?!Z|\+00:00)")
_BYTES = (bytes, bytearray, memoryview)
_SHORT = 2 * PAYLOAD_DEPTH_MAX
"""129 levels need 258 brackets, and a number beyond a double needs 309 digits: a shorter text has neither."""
_read = msgspec.json.Decoder().decode


def encode(value: Payload, name: str = "payload") -> str:
    """The JSON text of a value. Raises Invalid for whatever PostgreSQL or a JSON reader would reject, with its path in the value;
    `name` is what the path starts with."""
    if isinstance(value, msgspec.Raw):
        return _encode_raw(value, name)
    try:
        data = write_json(value)
        text = data.decode()
        # The reader has nothing to reject in such an object: no number that is too big, no deep levels, no text but the encoder's.
        if len(text) <= _SHORT and type(value) is dict and "\\" not in text and is_flat(value):
            return text
        tree = _read(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise _explain(error, value, name) from None
    # msgspec writes a float that is not finite as null, and a datetime without a zone without one.
    if "null" in text and not is_plain(value):
        _reject(InvalidNumber, value, name, number_problem, skip=(str, int))
    if type(tree) is str and type(value) is not str and isinstance(value, _BYTES):
        raise InvalidPayload(f"{name} is bytes; use RawJSON(…) for JSON, decode() for text, or base64 for binary data")
    if "\\" in text and _nul.search(text):
        _reject(InvalidText, value, name, text_problem, skip=())
        raise _nul_error(name)
    # One character is found ten times faster than two: most texts cost no more than this.
    if "-" in text:
        if "T" in text and _local_time.search(text) and not is_plain(value):
            _reject(InvalidPayload, value, name, time_problem, skip=(str, int, float))
        if "E" in text:
            _reject_scale(text)
    if len(text) > _SHORT:
        _check_long(text, tree, name)
    return text


def _encode_raw(raw: RawJSON, name: str) -> str:
    try:
        tree = _read(raw)
        text = bytes(raw).decode()
    except (ValueError, RecursionError) as error:
        raise _invalid(error, name) from None
    if "\\" in text and _nul.search(text):
        raise _nul_error(name)
    _reject_scale(text)
    _check_long(text, tree, name)
    return text


def _reject_scale(text: str) -> None:
    if _large_negative_exponent.search(text):
        jsonb_text_bytes(text)


def _check_long(text: str, tree: JSON, name: str) -> None:
    if text.count("{") + text.count("[") > PAYLOAD_DEPTH_MAX:
        _reject_depth(tree, name)
    if _long_number.search(text):
        _reject(InvalidNumber, tree, name, number_problem)


def decode(text: str | bytes) -> JSON:
    """The value of a JSON text. Integers stay exact; NaN, 1e400 and the like are rejected."""
    try:
        value: JSON = _read(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(error, "payload") from None
    return value


def raw_json(text: str) -> RawJSON:
    """A JSON text exactly as it was typed, so that no digit is lost. Raises as `decode` does."""
    decode(text)
    return msgspec.Raw(text.encode())


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


def _explain(error: Exception, value: object, name: str) -> Invalid:
    """Our error for one of the encoder, or for one of the reader about what the encoder wrote."""
    if isinstance(error, UnicodeEncodeError):
        return InvalidText(
            find_problem(value, name, text_problem, skip=()) or f"{name} has half a surrogate pair; correct the text"
        )
    if isinstance(error, RecursionError):
        return _too_deep(name)
    if problem := find_problem(value, name, form_problem, skip=(str, int, float)):
        return InvalidPayload(problem)
    # A decimal that is not finite is written as a bare word, which is not JSON; an integer may be longer than Python converts.
    if problem := find_problem(value, name, number_problem):
        return InvalidNumber(problem)
    if isinstance(error, msgspec.DecodeError):
        return _invalid(error, name)
    return InvalidPayload(f"{name} cannot be converted to JSON: {error}; convert it to a dict first")


def _invalid(error: Exception, name: str) -> Invalid:
    """Our error for one of the reader."""
    if isinstance(error, RecursionError):
        return _too_deep(name)
    if isinstance(error, UnicodeDecodeError):
        return InvalidText(f"{name} is not UTF-8 at byte {error.start}; correct the text")
    # Besides bad syntax this can only be a number: out of range, or longer than Python converts.
    if "out of range" in str(error) or not isinstance(error, msgspec.DecodeError):
        return InvalidNumber(f"{name} has a number that JSON readers reject: {error}; publish it as a string")
    return InvalidPayload(f"{name} is not JSON: {error}; correct the text")


def _reject(error_class: type[Invalid], value: object, name: str, problem: Problem, *, skip: tuple[type, ...] = (str,)) -> None:
    if (sentence := find_problem(value, name, problem, skip=skip)) is not None:
        raise error_class(sentence)


def _nul_error(name: str) -> InvalidText:
    return InvalidText(f"{name} has a NUL character (\\u0000), which PostgreSQL cannot store; remove or escape it")


def _too_deep(name: str) -> PayloadTooDeep:
    return PayloadTooDeep(
        f"{name} nests deeper than {PAYLOAD_DEPTH_MAX} levels, or contains itself; "
        "flatten it, or publish the deep part as a string"
    )


def _reject_depth(tree: JSON, name: str) -> None:
    level: list[JSON] = [tree]
    for _ in range(PAYLOAD_DEPTH_MAX):
        level = [child for node in level for child in _children(node) if isinstance(child, dict | list)]
        if not level:
            return
    raise _too_deep(name)


def _children(node: JSON) -> Sequence[JSON]:
    if isinstance(node, Mapping):
        return list(node.values())
    return node if isinstance(node, list | tuple) else ()


def find_problem(value: object, path: str, problem: Problem, *, skip: Collection[type] = (str,)) -> str | None:
    """The path and the problem of the first value that has one, level by level. Values of the types `skip` are not examined."""
    skipped = _never_wrong.union(skip)
    entries: list[_Entry] = [(value, None, path)]
    # A value may contain itself. The entries keep every value alive, so no id is used twice.
    seen: set[int] = set()
    for entry in entries:
        node = entry[0].value if isinstance(entry[0], Enum) else entry[0]
        if (sentence := problem(node)) is not None:
            return f"{_path_to(entry)} {sentence}"
        if id(node) in seen:
            continue
        seen.add(id(node))
        for name, child in members_of(node) or ():
            if type(name) not in skipped and (sentence := problem(name)) is not None:
                return f"a member name of {_path_to(entry)} {sentence}"
            if type(child) not in skipped:
                entries.append((child, entry, name))
    return None


def is_plain(value: object) -> bool:
    """True if a value is made of JSON's own types only and its numbers are finite: much faster than a search for a problem."""
    nodes = [value]
    for node in nodes:
        if type(node) is dict:
            if any(type(name) is not str for name in node):
                return False
            nodes += [child for child in node.values() if type(child) not in _plain]
        elif type(node) is list:
            nodes += [child for child in node if type(child) not in _plain]
        elif type(node) is float:
            if not math.isfinite(node):
                return False
        elif type(node) not in _plain:
            return False
    return True


def is_flat(value: dict[object, object]) -> bool:
    """True if an object has names of type str and members that are texts, integers, booleans or null: most events are so."""
    return _name_types.issuperset(map(type, value)) and _plain.issuperset(map(type, value.values()))


def number_problem(value: object) -> str | None:
    """A number that JSON readers reject."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, int):
        is_readable = -NUMBER_MAX <= value <= NUMBER_MAX
    elif isinstance(value, Decimal):
        is_readable = value.is_finite() and math.isfinite(float(value))
    else:
        is_readable = math.isfinite(value)
    return None if is_readable else "is a number that is not finite or beyond 1.8e308; publish None, or the number as a string"


def time_problem(value: object) -> str | None:
    """A datetime whose text would not say which moment it is."""
    if not isinstance(value, datetime):
        return None
    offset = value.utcoffset()
    if offset is None:
        return "is a datetime without a time zone; use datetime.now(UTC), or add its zone with replace(tzinfo=…)"
    if isinstance(offset, timedelta) and offset % _MINUTE:
        return f"is a datetime with the UTC offset {offset}, and ISO 8601 has no seconds there; use astimezone(UTC)"
    return None


def text_problem(value: object) -> str | None:
    """Text that PostgreSQL cannot store."""
    if not isinstance(value, str):
        return None
    if "\0" in value:
        return "has a NUL character (\\u0000), which PostgreSQL cannot store; remove or escape it"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return f"has half a surrogate pair at character {error.start}; correct the text"
    return None


def form_problem(value: object) -> str | None:
    """A value that has no JSON form, or a member name that has none."""
    if members_of(value) is None:
        return None if _has_json_form(value) else f"is of type {_type_name(value)}, which has no JSON form; {_advice_for(value)}"
    for name in value if isinstance(value, Mapping) else ():
        if type(name) is not str and not _has_json_form({name: None}):
            return f"has a member name of type {_type_name(name)}; use text, for example str(…)"
    return None


def _has_json_form(value: object) -> bool:
    try:
        _read(write_json(value))
    except TypeError:
        return False
    except ValueError:
        # A member name that is written without quotes; other values are the matter of other problems.
        return not isinstance(value, dict)
    return True


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _advice_for(value: object) -> str:
    kind = type(value)
    if isinstance(value, type):
        return "publish an instance, not the class"
    if isinstance(value, date):
        return "publish None"  # Only the missing time of pandas has no form.
    if kind.__module__.partition(".")[0] == "numpy" or hasattr(kind, "to_numpy"):
        return "use tolist(), which gives Python's own values"
    if hasattr(kind, "get_secret_value"):
        return "use get_secret_value() if the event may hold the secret"
    if hasattr(kind, "_meta") and hasattr(kind, "objects"):
        return "publish a dict of the fields you need, for example with django.forms.model_to_dict"
    if hasattr(kind, "__mapper__"):
        return "publish a dict of the columns you need"
    if hasattr(kind, "__next__"):
        return "use list(…)"
    if hasattr(kind, "keys"):
        return "use dict(…)"
    return "convert it to a dict, a list, text or a number"


def _path_to(entry: _Entry) -> str:
    """For example payload.items[3].price."""
    steps: list[str] = []
    node: _Entry | None = entry
    while node is not None:
        _, parent, name = node
        steps.append(str(name) if parent is None else _path_step(name))
        node = parent
    return "".join(reversed(steps))


def _path_step(name: object) -> str:
    text = str(name)
    if len(text) > _NAME_CHARS_MAX:
        text = text[:_NAME_CHARS_MAX] + "…"
    if type(name) is int:
        return f"[{text}]"
    return f".{text}" if text.isidentifier() else f"[{text!a}]"
