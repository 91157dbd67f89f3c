"""Report: the result of a run, as numbers for programs and as one HTML page for people, with rates, latencies and lag over time."""

from __future__ import annotations

import os
import platform
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from xml.etree.ElementTree import Element, SubElement

import msgspec

from headrace.observe.reports import Page, Span, StyledText, add_table, line_chart
from headrace.prove.checks import CheckResult
from headrace.prove.checks.timing import Recovery, rates, recoveries
from headrace.prove.evidence import Evidence
from headrace.prove.run import RunResult

BUCKET_MIN_S = 2.0
POINTS_MAX = 600
"""More points than this do not fit into a chart."""
Points = list[tuple[float, float]]
"""Time and value."""


@dataclass(frozen=True)
class Latency:
    """Percentiles in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


def latency(values_s: Sequence[float]) -> Latency:
    if len(values_s) < 2:
        return Latency(len(values_s), 0.0, 0.0, 0.0)
    cuts = quantiles(values_s, n=100)
    return Latency(len(values_s), cuts[49] * 1000, cuts[98] * 1000, max(values_s) * 1000)


def publish_latencies(evidence: Evidence) -> Points:
    """When a transaction was acknowledged, and how long after its first attempt."""
    return [
        (operation.ended_at, operation.ended_at - operation.started_at)
        for operation in evidence.operations
        if operation.acknowledged
    ]


def read_latencies(evidence: Evidence) -> Points:
    """When the reader read an acknowledged event, and how long after the acknowledgement."""
    acknowledged = {
        sent.id: operation.ended_at for operation in evidence.operations if operation.acknowledged for sent in operation.events
    }
    return [(read.at, max(read.at - acknowledged[read.id], 0.0)) for read in evidence.reads if read.id in acknowledged]


def rate_points(evidence: Evidence) -> Points:
    return [(at, max(rate, 0.0)) for at, rate in rates(evidence.samples)]


def lag_points(evidence: Evidence) -> Points:
    return [(sample.at, float(sample.lag)) for sample in evidence.samples]


def queue_points(evidence: Evidence) -> Points:
    return [(sample.at, float(sample.queue)) for sample in evidence.samples]


def median_line(points: Sequence[tuple[float, float]], started_at: float, until_s: float, *, scale: float = 1.0) -> Points:
    """The medians of equal intervals; times become seconds after `started_at`."""
    bucket_s = max(until_s / POINTS_MAX, BUCKET_MIN_S)
    buckets: dict[int, list[float]] = defaultdict(list)
    for at, value in points:
        if at >= started_at:
            buckets[int((at - started_at) / bucket_s)].append(value * scale)
    return [((bucket + 0.5) * bucket_s, median(values)) for bucket, values in sorted(buckets.items())]


STYLE = """
.ok { color: #116b3a } .broken { color: #b00020; font-weight: 600 }
@media (prefers-color-scheme: dark) { .ok { color: #5dd39e } .broken { color: #ff6b7a } }
"""
LABEL_STYLES = {"held": "ok", "BROKEN": "broken"}


@dataclass(frozen=True)
class Summary:
    """A run in numbers."""

    seed: int
    minutes: float
    holds: bool
    operations: int
    published: int
    logged: int
    faults: dict[str, int]
    faults_without_effect: dict[str, int]
    outcomes: dict[str, int]
    publish: Latency
    read: Latency
    checks: list[CheckResult]
    recoveries: list[Recovery]
    environment: dict[str, str]

    @property
    def headline(self) -> str:
        """The result in a few words; a promise that could not be checked is not said to have held."""
        if not self.holds:
            return "a promise was broken"
        unchecked = [result.check for result in self.checks if result.label == "not checked"]
        if unchecked:
            return f"every promise that could be checked held; not checked: {', '.join(unchecked)}"
        return "every promise held"


def summarize(run: RunResult) -> Summary:
    """The numbers of a run."""
    evidence = run.evidence
    operations = [operation for shard in evidence.all_shards for operation in shard.operations]
    return Summary(
        seed=run.options.seed,
        minutes=(run.ended_at - run.started_at) / 60,
        holds=run.holds,
        operations=run.operations,
        published=sum(len(operation.events) for operation in operations if operation.acknowledged and operation.commits),
        logged=sum(len(events) for shard in evidence.all_shards for events in shard.log.values()),
        faults=dict(Counter(fault.fault for fault in evidence.faults if fault.took_effect)),
        faults_without_effect=dict(Counter(fault.fault for fault in evidence.faults if not fault.took_effect)),
        outcomes=dict(Counter(outcome for operation in operations for outcome in operation.outcomes or ("killed",))),
        publish=latency([value for _, value in publish_latencies(evidence)]),
        read=latency([value for _, value in read_latencies(evidence)]),
        checks=list(run.checks),
        recoveries=recoveries(evidence, margin=run.options.margin),
        environment={
            "at": datetime.fromtimestamp(run.started_at, UTC).isoformat(timespec="seconds"),
            "cpus": str(len(os.sched_getaffinity(0))),
            "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
            "python": platform.python_version(),
            "producers": str(run.options.producers),
            "nodes": str(run.options.nodes),
            "rate of a producer": f"{run.options.rate:g}/s",
            "margin": f"{run.options.margin:.0%}",
        },
    )


def write_report(run: RunResult, path: Path) -> None:
    """Writes the numbers if the file's name ends in .json, else the page."""
    summary = summarize(run)
    text = _numbers(summary) if path.suffix == ".json" else _page(run, summary)
    path.write_text(text, encoding="utf-8")


def _numbers(summary: Summary) -> str:
    return msgspec.json.format(msgspec.json.encode(summary), indent=2).decode() + "\n"


def _page(run: RunResult, summary: Summary) -> str:
    page = Page(f"headrace prove: {summary.headline}", style=STYLE)
    body = page.body
    SubElement(body, "h1", {"class": "ok" if summary.holds else "broken"}).text = f"headrace prove: {summary.headline}"
    add_table(body, ("", ""), _facts(summary))
    SubElement(body, "h2").text = "Checks"
    add_table(body, ("check", "promise", "examined", "violations", ""), (_check_row(result) for result in summary.checks))
    for result in summary.checks:
        if result.smallest is not None:
            SubElement(body, "h3", {"class": "broken"}).text = f"{result.check}: {result.smallest.what}"
            SubElement(body, "pre").text = "\n".join(result.smallest.example)
    SubElement(body, "h2").text = "Over time"
    SubElement(body, "p").text = "Faults are shaded."
    body.extend(_charts(run))
    SubElement(body, "h2").text = "Faults"
    add_table(
        body,
        ("at", "fault", "detail", "lasted", "rate before", "recovered after", "backlog at the end"),
        (_recovery_row(recovery, run.started_at) for recovery in summary.recoveries),
    )
    return page.text()


def _facts(summary: Summary) -> list[tuple[str, object]]:
    return [
        ("seed", str(summary.seed)),
        ("minutes", f"{summary.minutes:.1f}"),
        ("operations", f"{summary.operations:,}"),
        ("events acknowledged", f"{summary.published:,}"),
        ("faults", f"{sum(summary.faults.values())}: {_counts(summary.faults)}"),
        ("faults without effect", _counts(summary.faults_without_effect)),
        ("transactions by outcome", _counts(summary.outcomes)),
        ("publish, first attempt to acknowledged", _describe_latency(summary.publish)),
        ("acknowledged to read by a reader", _describe_latency(summary.read)),
        *summary.environment.items(),
    ]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "–"


def _describe_latency(value: Latency) -> str:
    return f"p50 {value.p50_ms:.1f} ms, p99 {value.p99_ms:.1f} ms, max {value.max_ms:.0f} ms of {value.count:,}"


def _charts(run: RunResult) -> list[Element]:
    evidence, started_at = run.evidence, run.started_at
    spans = [
        Span(
            f"{fault.fault} at {fault.started_at - started_at:.1f} s, {fault.healed_at - fault.started_at:.1f} s",
            fault.started_at - started_at,
            fault.healed_at - started_at,
        )
        for fault in evidence.faults
    ]
    until_s = max((sample.at for sample in evidence.samples), default=started_at) - started_at
    charts = (
        ("Events handled per second", rate_points(evidence), 1),
        ("Publish, first attempt to acknowledged: median ms", publish_latencies(evidence), 1000),
        ("Acknowledged to read by a reader: median ms", read_latencies(evidence), 1000),
        ("Events not handled yet", lag_points(evidence), 1),
        ("Actions in the queue", queue_points(evidence), 1),
    )
    return [
        line_chart(title, median_line(points, started_at, until_s, scale=scale), until_s=until_s, spans=spans)
        for title, points, scale in charts
    ]


def _check_row(result: CheckResult) -> Sequence[object]:
    return (
        result.check,
        result.promise + (f" ({result.note})" if result.note else ""),
        result.examined,
        result.violations,
        StyledText(result.label, LABEL_STYLES.get(result.label, "")),
    )


def _recovery_row(recovery: Recovery, started_at: float) -> Sequence[object]:
    fault = recovery.record
    recovered = "–" if recovery.recovery_s is None else f"{recovery.recovery_s:.1f} s"
    return (
        f"{fault.started_at - started_at:.1f} s",
        fault.fault,
        fault.detail,
        f"{fault.healed_at - fault.started_at:.1f} s",
        "–" if recovery.before_per_s is None else f"{recovery.before_per_s:.0f}/s",
        StyledText("BROKEN", "broken") if recovery.is_late or recovery.is_behind else recovered,
        recovery.backlog,
    )
