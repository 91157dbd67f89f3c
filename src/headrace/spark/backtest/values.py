"""The result of a backtest, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime


@dataclass(frozen=True)
class OutputCounts:
    """How many outputs the tested version has (`would`), how many the live one had (`live`), and how many are in both."""

    would: int
    live: int
    both: int


@dataclass(frozen=True)
class DayCounts(OutputCounts):
    """The outputs of a day, in UTC."""

    day: date


@dataclass(frozen=True)
class KeyCounts(OutputCounts):
    """The outputs of a key; None: events without a key."""

    key: str | None


@dataclass(frozen=True)
class TokenCounts(OutputCounts):
    """The outputs of a token of a correlator."""

    token: str


@dataclass(frozen=True)
class Evidence:
    """An event that led to an output."""

    position: int
    type: str
    key: str | None
    emitted_at: datetime
    payload: str


@dataclass(frozen=True)
class Sample:
    """One output, of an event or of a timer (no position). `status`: would, live or both."""

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
    days: tuple[DayCounts, ...]
    keys: tuple[KeyCounts, ...]
    tokens: tuple[TokenCounts, ...]
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

    @property
    def totals(self) -> list[tuple[str, int]]:
        """The totals with their labels, for people."""
        if not self.compared:
            return [("would fire", self.would)]
        return [
            ("fires now", self.live),
            ("would fire", self.would),
            ("both", self.both),
            ("only would fire", self.would - self.both),
            ("only fires now", self.live - self.both),
        ]


@dataclass(frozen=True)
class Report:
    """A backtest: how many events it read, how long it took, and a result per rule or correlator."""

    start: str
    end: str
    events: int
    archived: int
    seconds: float
    results: tuple[Result, ...]
    notes: tuple[str, ...]

    def _repr_html_(self) -> str:
        # Charts take a second to import.
        from headrace.spark.backtest.page import notebook_report

        return notebook_report(self)
