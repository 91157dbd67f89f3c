"""What is wrong with a value that cannot be published as it is, where it stands in the payload, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TypeAlias
from uuid import UUID

import msgspec

from headrace.core.json_forms import members_of, write_json
from headrace.core.limits import NUMBER_MAX

Problem: TypeAlias = Callable[[object], str | None]
"""Says what is wrong with a value, as the rest of a sentence that starts with its path; None if nothing is."""

_Entry: TypeAlias = tuple[object, "_Entry | None", object]
_NAME_CHARS_MAX = 40
_MINUTE = timedelta(minutes=1)
_plain = frozenset({str, int, bool, type(None)})
_name_types = frozenset({str})
_never_wrong = frozenset({bool, type(None), date, time, timedelta, UUID, bytes})
_read = msgspec.json.Decoder().decode


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
