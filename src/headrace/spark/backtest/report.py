"""What a backtest found, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime


@dataclass(frozen=True)
class Day:
    """One day, in UTC: how often it would fire, how often the live one did, and how often both."""

    day: date
    would: int
    live: int
    both: int


@dataclass(frozen=True)
class KeyCount:
    """The same for one key; None: events without one."""

    key: str | None
    would: int
    live: int
    both: int


@dataclass(frozen=True)
class TokenCount:
    """The same for one token of a correlator."""

    token: str
    would: int
    live: int
    both: int


@dataclass(frozen=True)
class Evidence:
    """An event that an output stands on."""

    position: int
    type: str
    key: str | None
    emitted_at: datetime
    payload: str


@dataclass(frozen=True)
class Sample:
    """One output: by an event, or by a timer (no position). `status`: would, live or both."""

    status: str
    shard: str
    position: int | None
    time: datetime
    key: str | None
    token: str | None
    event_id: str | None
    evidence: tuple[Evidence, ...]
    evidence_total: int


@dataclass(frozen=True)
class Result:
    """A rule or correlator over the range. `compared`: there is a live one of this name."""

    kind: str
    name: str
    topic: str
    definition: str
    compared: bool
    days: tuple[Day, ...]
    keys: tuple[KeyCount, ...]
    tokens: tuple[TokenCount, ...]
    samples: tuple[Sample, ...]

    @property
    def would(self) -> int:
        return sum(day.would for day in self.days)

    @property
    def live(self) -> int:
        return sum(day.live for day in self.days)

    @property
    def both(self) -> int:
        return sum(day.both for day in self.days)


@dataclass(frozen=True)
class Report:
    """A backtest: how many events it went through, how long it took, and a result per rule or correlator."""

    start: str
    end: str
    events: int
    archived: int
    seconds: float
    results: tuple[Result, ...]
    notes: tuple[str, ...]
