"""The names that captures and labels add to the language of conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.lang.condition import Extraction, Field, Node, Type

LABEL_OF_COUNT = "count {}"
REACHED = "count {} reached"
"""The condition that a `count` adds: not of the language, so no user can write it."""

COUNT_REACHED = re.compile(r"count \d+ reached")

_EXTRACTIONS = {
    Type.TEXT: Extraction.TEXT,
    Type.INTEGER: Extraction.BIGINT,
    Type.NUMERIC: Extraction.NUMERIC,
    Type.BOOLEAN: Extraction.BOOLEAN,
    Type.TIMESTAMPTZ: Extraction.COLUMN,
}
_FUNCTIONS = ("first", "last", "sum", "min", "max")


@dataclass(frozen=True)
class RegisterNames:
    """Captures by name, and the labels of matches and loops."""

    captures: Mapping[str, Node]
    matches: frozenset[str]
    loops: frozenset[str]

    @property
    def values(self) -> Mapping[str, Node]:
        return self.captures

    def find_register(self, label: str, name: str, argument: str | None) -> Field | str:
        """The register, or what is wrong with it."""
        if label in self.matches:
            if argument is not None:
                return f"{label}.{name}(…) needs a loop; {label} is the label of one event: write {label}.{argument}"
            if name not in self.captures:
                return _unknown_capture(name, self.captures)
            return Field("register", (label, name), _EXTRACTIONS[self.captures[name].type])
        if label not in self.loops:
            known = ", ".join(sorted(self.matches | self.loops)) or "none"
            return f"unknown label {label}; the labels of this pattern are: {known}"
        return self._find_loop_value(label, name, argument)

    def _find_loop_value(self, label: str, name: str, argument: str | None) -> Field | str:
        if name == "count" and argument is None:
            return Field("register", (label, "count"), Extraction.BIGINT)
        if name not in _FUNCTIONS or argument is None:
            return f"{label} is the label of a loop: write {label}.count, or {label}.last(capture), first, sum, min, max"
        if argument not in self.captures:
            return _unknown_capture(argument, self.captures)
        type_ = self.captures[argument].type
        if name == "sum" and not type_.is_number:
            return f"{label}.sum({argument}) needs a number; {argument} is {type_.value}"
        if name in ("min", "max") and type_ is Type.BOOLEAN:
            return f"{label}.{name}({argument}): booleans have no order"
        return Field("register", (label, name, argument), _EXTRACTIONS[type_])


def _unknown_capture(name: str, captures: Mapping[str, Node]) -> str:
    known = ", ".join(captures) or "none; declare one: capture amount = (object -> 'amount')::numeric;"
    return f"unknown capture {name}; the captures of this pattern are: {known}"
