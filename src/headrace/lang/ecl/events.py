"""The input and output of an engine. Time is whole microseconds everywhere, so that no engine rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from headrace.lang.ecl.errors import TimerFlood

US_PER_S = 1_000_000
FIRINGS_MAX = 100_000


class Status(StrEnum):
    """Whether a pattern waits, or how it has completed."""

    WAITING = "waiting"
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its type, its log time in microseconds, and the subject of its conditions (opaque here)."""

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

    `advance` fires the timers due at or before a time; `step` does that first, then processes the event."""

    def start(self, time: int) -> S: ...

    def step(self, state: S, event: Event) -> tuple[S, tuple[Output, ...]]: ...

    def advance(self, state: S, time: int) -> tuple[S, tuple[Output, ...]]: ...

    def status(self, state: S) -> Status: ...

    def next_deadline(self, state: S) -> int | None: ...


def fire_due_timers(
    state: S, time: int, next_deadline: Callable[[S], int | None], fire: Callable[[S, int], tuple[S, tuple[Output, ...]]]
) -> tuple[S, tuple[Output, ...]]:
    """Fires the timers due at or before a time, deadline by deadline; each firing happens at its deadline."""
    outputs: list[Output] = []
    for _ in range(FIRINGS_MAX):
        deadline = next_deadline(state)
        if deadline is None or deadline > time:
            return state, tuple(outputs)
        state, fired = fire(state, deadline)
        outputs += fired
    raise TimerFlood(f"more than {FIRINGS_MAX} timer firings up to {time} us; advance in smaller steps")
