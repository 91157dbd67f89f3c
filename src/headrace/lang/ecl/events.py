"""The input and output of an engine. Time is whole microseconds everywhere, so that no engine rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

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


class Engine(ABC, Generic[S]):
    """What interpreter, machine and table have in common. States are values: they are never changed, only replaced."""

    @abstractmethod
    def start(self, time: int) -> S: ...

    @abstractmethod
    def status(self, state: S) -> Status: ...

    @abstractmethod
    def next_deadline(self, state: S) -> int | None: ...

    @abstractmethod
    def take(self, state: S, event: Event | None, now: int) -> tuple[S, tuple[Output, ...]]:
        """One input alone: an event, or without one a tick of the timers whose deadline is `now`."""

    def step(self, state: S, event: Event) -> tuple[S, tuple[Output, ...]]:
        """Timers due at or before the event first, then the event."""
        state, fired = self.advance(state, event.time)
        state, outputs = self.take(state, event, event.time)
        return state, fired + outputs

    def advance(self, state: S, time: int) -> tuple[S, tuple[Output, ...]]:
        """Fires the timers due at or before a time, deadline by deadline; each firing happens at its deadline."""
        outputs: list[Output] = []
        for _ in range(FIRINGS_MAX):
            deadline = self.next_deadline(state)
            if deadline is None or deadline > time:
                return state, tuple(outputs)
            state, fired = self.take(state, None, deadline)
            outputs += fired
        raise TimerFlood(f"more than {FIRINGS_MAX} timer firings up to {time} us; advance in smaller steps")
