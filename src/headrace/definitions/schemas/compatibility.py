"""Compatibility of a new schema with the one before: who keeps working when publishers or readers change first?

`backward`: readers of the new schema can read events of the old one. `forward`: readers of the old schema can read events of the new
one. `full`: both. `none`: nothing is checked. Being a subset carries over, so a chain of checked versions is checked as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from headrace.core import IncompatibleSchema, Invalid
from headrace.definitions.schemas.comparison import Comparison, compare
from headrace.definitions.schemas.value_set import ValueSet

Compatibility: TypeAlias = Literal["backward", "forward", "full", "none"]
COMPATIBILITIES: Final[tuple[Compatibility, ...]] = get_args(Compatibility)
Direction: TypeAlias = Literal["backward", "forward"]


@dataclass(frozen=True)
class Break:
    """What a new schema breaks in one direction, with an event's payload as an example; without one nobody can tell."""

    direction: Direction
    example: str | None
    reason: str

    @property
    def is_certain(self) -> bool:
        return self.example is not None

    def __str__(self) -> str:
        return f"{self.direction}: {self.reason}" + (f": {self.example}" if self.example is not None else "")


def check_compatibility(old: ValueSet, new: ValueSet, compatibility: Compatibility) -> tuple[Break, ...]:
    """What the change from the old to the new schema breaks; nothing if it is compatible."""
    if compatibility not in COMPATIBILITIES:
        raise Invalid(f"compatibility {compatibility!r} does not exist; choose {', '.join(COMPATIBILITIES)}")
    breaks: list[Break] = []
    if compatibility in ("backward", "full"):
        breaks += _breaks("backward", compare(old, new), "the old schema accepts a payload that the new one rejects")
    if compatibility in ("forward", "full"):
        breaks += _breaks("forward", compare(new, old), "the new schema accepts a payload that the old one rejects")
    return tuple(breaks)


def _breaks(direction: Direction, comparison: Comparison, reason: str) -> list[Break]:
    if comparison.holds:
        return []
    if comparison.holds is False:
        return [Break(direction, comparison.example, reason)]
    return [Break(direction, None, f"cannot decide: {comparison.reason}")]


def incompatible(event_type: str, version: int, compatibility: str, breaks: tuple[Break, ...]) -> IncompatibleSchema:
    """The error for these breaks."""
    lines = "\n".join(f"  {entry}" for entry in breaks)
    return IncompatibleSchema(
        f"the schema of {event_type} is not {compatibility} compatible with version {version}:\n{lines}\n"
        "change the schema, or set it with force"
    )
