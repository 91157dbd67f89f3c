"""Texts: values as people read them in a page. Everything that comes from users passes through here and through autoescaping; and
masks: fields of payloads that only some roles see; and the differences of two texts, by lines or words."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from hashlib import blake2s
from typing import Any, TypeVar

import msgspec

from headrace.core import JSON, Invalid, parse_path, safe_line, safe_lines

T = TypeVar("T")

CELL_CHARS_MAX = 200
"""A cell shows this many characters; the whole text is on the object's own page, or in the export."""
YEAR_S = 365.25 * 86_400
PAYLOAD_CHARS_MAX = 20_000
"""A page shows this many characters of a payload; the rest is one link away."""


def cell_text(value: object) -> str:
    """A value in a table's cell: one line, cut off."""
    text = safe_line(format_value(value))
    return text if len(text) <= CELL_CHARS_MAX else text[:CELL_CHARS_MAX] + "…"


def lines_text(value: object) -> str:
    """A text of several lines, such as a traceback."""
    return safe_lines(str(value)) if value is not None else ""


def payload_text(value: object, *, indent: bool = True) -> str:
    """A payload as JSON, readable and without anything a browser could reorder or hide."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=2 if indent else None, default=str)
    except RecursionError:
        return "(nested too deeply to be shown)"
    return safe_lines(text)


def format_value(value: object) -> str:
    for kind, to_text in _FORMATS:
        if isinstance(value, kind):
            return to_text(value)
    if isinstance(value, dict | list) or is_dataclass(value):
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
    return str(value)


def format_number(value: float | None) -> str:
    """With a thin space between thousands."""
    if value is None:
        return "–"
    text = f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 100 else f"{value:,.1f}"
    return text.replace(",", "\u202f")


def format_seconds(seconds: float | timedelta | None, units: int = 2) -> str:
    """A span of time in its largest units."""
    if seconds is None:
        return "–"
    left = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    if abs(left) < 1:
        return "0 s" if abs(left) < 0.001 else f"{left * 1000:.0f} ms"
    if left < 10:
        return f"{left:.1f} s"
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count:.0f} {unit}")
    return " ".join(parts[:units]).removesuffix(" 0 s").removesuffix(" 0 min").removesuffix(" 0 h")


def format_bytes(count: float | None) -> str:
    if count is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def relative_time(at: datetime, now: datetime | None = None) -> str:
    """`3 min ago`, `in 2 h`."""
    distance = ((now or datetime.now(UTC)) - at).total_seconds()
    if abs(distance) < 2:
        return "now"
    years = round(abs(distance) / YEAR_S)
    short = f"{years} years" if years > 1 else " ".join(format_seconds(abs(distance)).split(" ")[:2])
    return f"{short} ago" if distance > 0 else f"in {short}"


def absolute_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def identified(items: Iterable[T], prefix: str, *fields: str) -> list[tuple[str, T]]:
    """Each item of a list with the id of its element in the page, made from the fields that tell the items apart.

    A live renewal finds an element again by its id, wherever in the list it is now, and keeps what the reader opened in it."""
    seen: Counter[str] = Counter()
    result = []
    for item in items:
        values = [item.get(name) if isinstance(item, Mapping) else getattr(item, name, None) for name in ("shard", *fields)]
        element = f"{prefix}-{blake2s(repr(values).encode(), digest_size=8).hexdigest()}"
        seen[element] += 1
        result.append((element if seen[element] == 1 else f"{element}-{seen[element]}", item))
    return result


_FORMATS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (type(None), lambda _: "–"),
    (bool, lambda value: "yes" if value else "no"),
    (int, format_number),
    (float, format_number),
    (datetime, absolute_time),
    (timedelta, format_seconds),
)


LINES_MAX = 2_000
"""Lines compared; difflib takes quadratic time at worst."""
DIFF_WORDS_MAX = 3_000
"""Longer texts are shown as removed and added: comparing them would take too long."""


def diff_lines(before: str, after: str) -> list[dict[str, str]]:
    """The lines that differ, with three lines around; empty where nothing does. `sign`: `+` (new), `-` (old), `@` (a gap) or a space."""
    lines = difflib.unified_diff(before.splitlines()[:LINES_MAX], after.splitlines()[:LINES_MAX], lineterm="", n=3)
    return [{"sign": line[0], "text": line[1:]} for line in lines if not line.startswith(("---", "+++"))]


DiffPart = tuple[str, str]
"""`-`, `+` or a space, and the text."""


def diff_words(before: str, after: str) -> list[DiffPart]:
    """The differences of two texts, word by word."""
    old, new = re.findall(r"\s+|\w+|[^\w\s]", before), re.findall(r"\s+|\w+|[^\w\s]", after)
    if len(old) + len(new) > DIFF_WORDS_MAX:
        return [("-", before), ("+", after)]
    parts: list[DiffPart] = []
    for tag, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.append((" ", "".join(old[old_from:old_to])))
            continue
        parts += [("-", "".join(old[old_from:old_to]))] if old_to > old_from else []
        parts += [("+", "".join(new[new_from:new_to]))] if new_to > new_from else []
    return parts


MASK = "•••"
IN_AUDIT = (("before", "payload"), ("after", "payload"))
"""Where an event of the audit topic has the payload that was changed."""
QUOTED = ("payload",)
"""Where the output of a correlator quotes the payload of an event."""
CAPTURED = ("captured", "*")
"""What a pattern has kept of earlier events, in the payload of an output: a copy of any field, under another name."""


def hidden_fields(masks: Mapping[str, Sequence[str]], role: str | None) -> tuple[tuple[str, ...], ...]:
    """The paths that a role does not see, each as a tuple of patterns of field names: in a payload, in the output of a
    correlator that quotes it, and in the audit of its change.

    Who does not see all fields sees no captured value either."""
    paths = [mask_path(path) for path, roles in masks.items() if role not in roles]
    if paths:
        paths.append(CAPTURED)
    return tuple(place + quotation + path for path in paths for place in ((), *IN_AUDIT) for quotation in ((), QUOTED))


def mask_path(text: str) -> tuple[str, ...]:
    """The patterns of field names in a mask such as `card.number`, `*.email` or `**.iban`. Raises Invalid."""
    steps = parse_path(text)
    if any(isinstance(step, int) for step in steps):
        raise Invalid(f"mask {text!r}: lists are passed through, so name no place in one")
    return tuple(map(str, steps))


def mask_payload(payload: JSON, hidden: Sequence[tuple[str, ...]]) -> JSON:
    """A payload with ••• in place of the hidden fields. Lists are passed through: `items.price` hides the price of every item.

    `*` in a path stands for any field, `**` at its start for any depth."""
    if not hidden:
        return payload
    if isinstance(payload, Mapping):
        return {name: _mask_field(name, value, hidden) for name, value in payload.items()}
    if isinstance(payload, Sequence) and not isinstance(payload, str):
        return [mask_payload(value, hidden) for value in payload]
    return payload


def is_hidden(path: Sequence[str], hidden: Sequence[tuple[str, ...]]) -> bool:
    """True if the value at a path of field names is hidden, lies in a hidden one, or has one inside that is named by its whole path."""
    value: JSON = None
    for name in reversed(path):
        value = {name: value}
    if mask_payload(value, hidden) != value:
        return True
    longer = [names for names in hidden if names[0] != "**" and len(names) > len(path)]
    return any(all(map(fnmatchcase, path, names)) for names in longer)


def _mask_field(name: str, value: JSON, hidden: Sequence[tuple[str, ...]]) -> JSON:
    below: list[tuple[str, ...]] = []
    for path in hidden:
        if path[0] == "**":
            below.append(path)
            path = path[1:]
        if path and fnmatchcase(name, path[0]):
            if len(path) == 1:
                return MASK
            below.append(path[1:])
    return mask_payload(value, below)
