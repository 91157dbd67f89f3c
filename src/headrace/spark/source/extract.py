"""Fields that PostgreSQL extracts from the payload while it reads: cheaper than sending JSON text and parsing it in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.core import Invalid
from headrace.spark.schema import EVENT_COLUMNS

_ADVICE = 'write {"city": "address.city"}, {"city": ["address", "city"]} or {"city": {"path": ["address", "city"], "as": "json"}}'


@dataclass(frozen=True)
class Extract:
    """A column from the payload: the text that `#>>` gives, or with `as_json` the value's JSON text, so that "5" and 5 differ."""

    name: str
    path: tuple[str, ...]
    as_json: bool = False


def extract_option(extracts: Iterable[Extract]) -> str:
    """The source's option `extract` for these columns."""
    return json.dumps({extract.name: {"path": extract.path, "as": "json" if extract.as_json else "text"} for extract in extracts})


def parse_extracts(text: str | None) -> tuple[Extract, ...]:
    """Reads the option: a JSON object of names and paths; a path is `a.b`, a list, or an object with `path` and `as`."""
    if text is None:
        return ()
    try:
        paths = json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"option extract is not JSON: {error.msg}; {_ADVICE}") from None
    if not isinstance(paths, dict):
        raise Invalid(f"option extract is not a JSON object; {_ADVICE}")
    if taken := {column.name for column in EVENT_COLUMNS} & paths.keys():
        raise Invalid(f"option extract names {', '.join(sorted(taken))}, which events have already; choose another name")
    return tuple(_parse_extract(name, path) for name, path in paths.items())


def _parse_extract(name: str, path: object) -> Extract:
    kind = "text"
    if isinstance(path, dict) and set(path) <= {"path", "as"}:
        kind, path = path.get("as", "text"), path.get("path")
    if isinstance(path, str):
        path = path.removeprefix("$.").split(".")
    if not isinstance(path, list) or not path or not all(isinstance(step, str) and step for step in path):
        raise Invalid(f"option extract has no path for {name!r}; {_ADVICE}")
    if kind not in ("text", "json"):
        raise Invalid(f"option extract takes {name!r} as {kind!r}; it can be text or json")
    return Extract(name, tuple(path), kind == "json")
