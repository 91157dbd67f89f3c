"""Options of targets: checked by name and type when a relay is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import TypeVar

from headrace.core import JSON

T = TypeVar("T", str, bool, int, float)


def unknown_options(options: Mapping[str, JSON], known: Collection[str]) -> list[str]:
    """A message for each option that the target does not have, with the nearest one that it has."""
    messages: list[str] = []
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, 1)
            suggestion = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
            messages.append(f"option {name!r} is unknown; {suggestion}")
    return messages


def number_problem(options: Mapping[str, JSON], name: str, low: float, high: float) -> list[str]:
    """A message if an option is there and is not a number between two bounds."""
    value = options.get(name)
    if value is None:
        return []
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return [] if is_number and low <= float(value) <= high else [f"{name} is {value!r}, not a number from {low:g} to {high:g}"]  # type: ignore[arg-type]
