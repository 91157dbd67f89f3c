"""Fields that PostgreSQL extracts from the payload while it reads: cheaper than sending JSON text and parsing it in Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from headrace.core import Invalid
from headrace.spark.schema import EVENT_COLUMNS

_ADVICE = 'write {"city": "address.city"}, {"city": ["address", "city"]} or {"city": {"path": ["address", "city"], "as": "json"}}'


@dataclass(frozen=True)
class Extract:
    """A column from the payload: the text that `#>>` gives, or with `as_json` the value's JSON text, so that "5" and 5 differ."""

    name: str
    path: tuple[str, ...]
    as_json: bool = False


_Steps = str | tuple[str, ...]


class _Path(msgspec.Struct, forbid_unknown_fields=True):
    path: _Steps
    kind: Literal["text", "json"] = msgspec.field(default="text", name="as")


def parse_extracts(text: str | None) -> tuple[Extract, ...]:
    """Reads the option: a JSON object of names and paths; a path is `a.b`, a list, or an object with `path` and `as`."""
    if text is None:
        return ()
    try:
        paths = msgspec.json.decode(text, type=dict[str, _Steps | _Path])
    except msgspec.DecodeError as error:
        raise Invalid(f"option extract cannot be read: {error}; {_ADVICE}") from None
    if taken := {column.name for column in EVENT_COLUMNS} & paths.keys():
        raise Invalid(f"option extract names {', '.join(sorted(taken))}, which events have already; choose another name")
    return tuple(_extract(name, path if isinstance(path, _Path) else _Path(path)) for name, path in paths.items())


def _extract(name: str, path: _Path) -> Extract:
    steps = tuple(path.path.removeprefix("$.").split(".")) if isinstance(path.path, str) else path.path
    if not steps or not all(steps):
        raise Invalid(f"option extract has no path for {name!r}; {_ADVICE}")
    return Extract(name, steps, path.kind == "json")
