"""Fields that PostgreSQL takes out of the payload while it reads: cheaper than sending JSON text and parsing it in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.core import Invalid
from headrace.spark.schema import EVENT_COLUMNS


@dataclass(frozen=True)
class Extract:
    """A column from the payload. As text it is what `#>>` gives; as JSON the value's JSON text, so that "5" and 5 differ."""

    name: str
    path: tuple[str, ...]
    as_json: bool = False


def extract_option(extracts: Iterable[Extract]) -> str:
    """The source's option `extract` for these columns."""
    return json.dumps({one.name: {"path": one.path, "as": "json" if one.as_json else "text"} for one in extracts})


def parse_extracts(text: str | None) -> tuple[Extract, ...]:
    """From the option: a JSON object of names and paths, a path as `a.b`, as a list, or with `as`: text or json."""
    if text is None:
        return ()
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"option extract is not JSON: {error.msg}; {_ADVICE}") from None
    if not isinstance(told, dict):
        raise Invalid(f"option extract is not a JSON object; {_ADVICE}")
    taken = {column.name for column in EVENT_COLUMNS} & told.keys()
    if taken:
        raise Invalid(f"option extract names {', '.join(sorted(taken))}, which events have already; choose another name")
    return tuple(_extract(name, value) for name, value in told.items())


_ADVICE = 'write {"city": "address.city"}, {"city": ["address", "city"]} or {"city": {"path": ["address", "city"], "as": "json"}}'


def _extract(name: str, told: object) -> Extract:
    kind = "text"
    if isinstance(told, dict) and set(told) <= {"path", "as"}:
        kind = told.get("as", "text")
        told = told.get("path")
    path = told.removeprefix("$.").split(".") if isinstance(told, str) else told
    if not isinstance(path, list) or not path or not all(isinstance(step, str) and step for step in path):
        raise Invalid(f"option extract has no path for {name!r}; {_ADVICE}")
    if kind not in ("text", "json"):
        raise Invalid(f"option extract takes {name!r} as {kind!r}; text and json are known")
    return Extract(name, tuple(path), kind == "json")
