"""Options of targets: checked by name and type when a relay is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from headrace.core import JSON

T = TypeVar("T", str, bool, int, float)


def unknown_options(options: Mapping[str, JSON], known: frozenset[str]) -> list[str]:
    """A message if there are options that the target does not have."""
    unknown = sorted(options.keys() - known)
    return [f"unknown option {', '.join(unknown)}; known are {', '.join(sorted(known))}"] if unknown else []


def number_problem(options: Mapping[str, JSON], name: str, low: float, high: float) -> list[str]:
    """A message if an option is there and is not a number between two bounds."""
    value = options.get(name)
    if value is None:
        return []
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return [] if is_number and low <= float(value) <= high else [f"{name} is {value!r}, not a number from {low:g} to {high:g}"]  # type: ignore[arg-type]
