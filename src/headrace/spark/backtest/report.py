"""The report of a backtest: its values, and the same as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from xml.etree.ElementTree import Element, SubElement, tostring

from headrace.observe.reports import Page, add_table, bar_chart


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
        return notebook_report(self)


STATUS_LABELS = {"both": "fires now and would fire", "would": "only would fire", "live": "only fires now"}
COLORS = ("#2b6cb0", "#38a169", "#dd6b20")
_COUNTS = ("would fire", "fires now", "both")


def html_report(report: Report) -> str:
    """The whole page."""
    page = Page("Backtest: " + ", ".join(result.name for result in report.results))
    _add_report(page.body, report)
    return page.text()


def notebook_report(report: Report) -> str:
    """The content of the page, for a notebook, which shows it in its own style."""
    parent = Element("div")
    _add_report(parent, report)
    return tostring(parent, encoding="unicode", method="html")


def _add_report(body: Element, report: Report) -> None:
    SubElement(body, "h1").text = "Backtest"
    SubElement(body, "p").text = (
        f"From {report.start} to {report.end}: {report.events} events, {report.archived} of them from the archive, "
        f"in {report.seconds:.1f} s."
    )
    for note in report.notes:
        SubElement(body, "p").text = note
    for result in report.results:
        _add_result(body, result)


def _add_result(body: Element, result: Result) -> None:
    SubElement(body, "h2").text = f"{result.kind} {result.name} on {result.topic}"
    SubElement(body, "pre").text = result.definition
    add_table(body, ["", "outputs"], result.totals)
    if result.days:
        body.append(_chart(result.days))
    if result.tokens:
        add_table(body, ["token", *_COUNTS], [(row.token, row.would, row.live, row.both) for row in result.tokens])
    if result.keys:
        add_table(body, ["key", *_COUNTS], [(row.key or "–", row.would, row.live, row.both) for row in result.keys])
    for sample in result.samples:
        _add_sample(body, sample)


def _add_sample(body: Element, sample: Sample) -> None:
    place = "timer" if sample.position is None else f"position {sample.position}"
    facts = [STATUS_LABELS[sample.status], place, f"shard {sample.shard}"]
    facts += [sample.time.isoformat(sep=" ", timespec="milliseconds")]
    facts += [f"key {sample.key}"] if sample.key is not None else []
    facts += [f"token {sample.token}"] if sample.token is not None else []
    SubElement(body, "h3").text = " · ".join(facts)
    rows = [(str(event.position), event.type, event.key or "–", event.payload) for event in sample.evidence]
    add_table(body, ["position", "type", "key", "payload"], rows)


def _chart(days: Sequence[DayCounts]) -> Element:
    counts = {
        STATUS_LABELS["both"]: [day.both for day in days],
        STATUS_LABELS["would"]: [day.would - day.both for day in days],
        STATUS_LABELS["live"]: [day.live - day.both for day in days],
    }
    return bar_chart("Outputs per day", [day.day for day in days], counts, COLORS)
