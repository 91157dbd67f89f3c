"""What goes into an engine and what comes out. Time is whole microseconds everywhere, so that no engine rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

US_PER_S = 1_000_000


class Status(StrEnum):
    """Where a pattern stands."""

    WAITING = "waiting"
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its type, its log time in microseconds, and what conditions look at (opaque here)."""

    type: str
    time: int
    subject: object = None


@dataclass(frozen=True, slots=True)
class Output:
    """A pushed token and its time: the event's, or the deadline of the timer that made it."""

    token: str
    time: int


Evaluator = Callable[[str, object], "bool | None"]
"""(condition text, event's subject) → true, false or unknown."""

S = TypeVar("S")


class Engine(Protocol[S]):
    """What interpreter, machine and table have in common. States are values: they are never changed, only replaced.

    `advance` fires what is due at or before a time; `step` does that first, then takes the event."""

    def start(self, time: int) -> S: ...

    def step(self, state: S, event: Event) -> tuple[S, tuple[Output, ...]]: ...

    def advance(self, state: S, time: int) -> tuple[S, tuple[Output, ...]]: ...

    def status(self, state: S) -> Status: ...

    def next_deadline(self, state: S) -> int | None: ...
