"""Report: what a run came to, as numbers for programs and as one HTML page for people."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import msgspec

from headrace.prove.check_time import Recovery, recoveries
from headrace.prove.figures import Latency, lag_points, latency, medians, publish_times, queue_points, rate_points, visible_times
from headrace.prove.run import Proved
from headrace.prove.svg import chart
from headrace.prove.verdict import Verdict
from headrace.report import Marked, Page, add_table

STYLE = """
.ok { color: #116b3a } .broken { color: #b00020; font-weight: 600 } figure { margin: 1rem 0 } figcaption { font-weight: 600 }
polyline { fill: none; stroke: #1f5fbf; stroke-width: 1.4 } .fault { fill: #e8590c; opacity: .22 }
@media (prefers-color-scheme: dark) { .ok { color: #5dd39e } .broken { color: #ff6b7a } }
"""
WORD_KINDS = {"held": "ok", "BROKEN": "broken"}


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
    missed: dict[str, int]
    """Faults that were tried and did not strike."""
    outcomes: dict[str, int]
    publish: Latency
    visible: Latency
    verdicts: list[Verdict]
    recoveries: list[Recovery]
    surroundings: dict[str, str]

    @property
    def headline(self) -> str:
        """In a few words; what nobody could judge is not said to have held."""
        if not self.holds:
            return "a promise was broken"
        open_ = [one.check for one in self.verdicts if one.word == "not judged"]
        return f"every promise that could be judged held; not judged: {', '.join(open_)}" if open_ else "every promise held"


def summary(proved: Proved) -> Summary:
    """The numbers of a run."""
    seen = proved.evidence
    shards = (seen, *seen.others)
    return Summary(
        seed=proved.options.seed,
        minutes=(proved.ended_at - proved.began_at) / 60,
        holds=proved.holds,
        operations=proved.operations,
        published=sum(len(one.events) for on in shards for one in on.operations if one.acknowledged and one.commits),
        logged=sum(len(events) for on in shards for events in on.log.values()),
        faults=dict(Counter(one.fault for one in seen.fallen if one.struck)),
        missed=dict(Counter(one.fault for one in seen.fallen if not one.struck)),
        outcomes=dict(Counter(outcome for on in shards for one in on.operations for outcome in one.outcomes or ("killed",))),
        publish=latency([value for _, value in publish_times(seen)]),
        visible=latency([value for _, value in visible_times(seen)]),
        verdicts=list(proved.verdicts),
        recoveries=recoveries(seen, margin=proved.options.margin),
        surroundings={
            "at": datetime.fromtimestamp(proved.began_at, UTC).isoformat(timespec="seconds"),
            "cpus": str(len(os.sched_getaffinity(0))),
            "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
            "python": platform.python_version(),
            "producers": str(proved.options.producers),
            "nodes": str(proved.options.nodes),
            "rate of a producer": f"{proved.options.rate:g}/s",
            "margin": f"{proved.options.margin:.0%}",
        },
    )


def write_report(proved: Proved, path: Path) -> None:
    """The numbers where the file's name ends in .json, else the page."""
    told = summary(proved)
    text = _numbers(told) if path.suffix == ".json" else _page(proved, told)
    path.write_text(text, encoding="utf-8")


def _numbers(told: Summary) -> str:
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n"


def _page(proved: Proved, told: Summary) -> str:
    page = Page(f"headrace prove: {told.headline}", style=STYLE)
    body = page.body
    SubElement(body, "h1", {"class": "ok" if told.holds else "broken"}).text = f"headrace prove: {told.headline}"
    add_table(body, ("", ""), _facts(told))
    SubElement(body, "h2").text = "Checks"
    add_table(body, ("check", "promise", "examined", "broken", ""), (_verdict_row(one) for one in told.verdicts))
    for one in told.verdicts:
        if one.smallest is not None:
            SubElement(body, "h3", {"class": "broken"}).text = f"{one.check}: {one.smallest.what}"
            SubElement(body, "pre").text = "\n".join(one.smallest.example)
    SubElement(body, "h2").text = "Over time"
    body.extend(_charts(proved))
    SubElement(body, "h2").text = "Faults"
    add_table(
        body,
        ("at", "fault", "detail", "lasted", "rate before", "back after", "waiting at the end"),
        (_recovery_row(one, proved.began_at) for one in told.recoveries),
    )
    return page.text()


def _facts(told: Summary) -> list[tuple[str, object]]:
    faults = ", ".join(f"{name} {count}" for name, count in sorted(told.faults.items()))
    return [
        ("seed", str(told.seed)),
        ("minutes", f"{told.minutes:.1f}"),
        ("operations", f"{told.operations:,}"),
        ("events acknowledged", f"{told.published:,}"),
        ("faults", f"{sum(told.faults.values())}: {faults}"),
        ("tried in vain", ", ".join(f"{name} {count}" for name, count in sorted(told.missed.items())) or "–"),
        ("transactions by outcome", ", ".join(f"{name} {count}" for name, count in sorted(told.outcomes.items()))),
        ("publish, begun to acknowledged", _latency(told.publish)),
        ("acknowledged to seen by a reader", _latency(told.visible)),
        *told.surroundings.items(),
    ]


def _latency(told: Latency) -> str:
    return f"p50 {told.p50_ms:.1f} ms, p99 {told.p99_ms:.1f} ms, max {told.max_ms:.0f} ms of {told.count:,}"


def _charts(proved: Proved) -> list[Element]:
    seen, began_at = proved.evidence, proved.began_at
    faults = [(one.fault, one.began_at - began_at, one.healed_at - began_at) for one in seen.fallen]
    until_s = max((one.at for one in seen.samples), default=began_at) - began_at
    drawn = (
        ("Events handled", rate_points(seen), 1, "per second"),
        ("Publish, begun to acknowledged", publish_times(seen), 1000, "median ms"),
        ("Acknowledged to seen by a reader", visible_times(seen), 1000, "median ms"),
        ("Events not handled yet", lag_points(seen), 1, "events"),
        ("Actions in the queue", queue_points(seen), 1, "actions"),
    )
    return [
        chart(title, medians(points, began_at, until_s, scale=scale), faults, until_s=until_s, unit=unit)
        for title, points, scale, unit in drawn
    ]


def _verdict_row(one: Verdict) -> Sequence[object]:
    return (
        one.check,
        one.promise + (f" ({one.note})" if one.note else ""),
        one.examined,
        one.broken,
        Marked(one.word, WORD_KINDS.get(one.word, "")),
    )


def _recovery_row(one: Recovery, began_at: float) -> Sequence[object]:
    before = "–" if one.before_per_s is None else f"{one.before_per_s:.0f}/s"
    back = "–" if one.back_s is None else f"{one.back_s:.1f} s"
    broken = Marked("BROKEN", "broken")
    fallen = one.fallen
    at_s, lasted_s = fallen.began_at - began_at, fallen.healed_at - fallen.began_at
    return (
        f"{at_s:.1f} s",
        fallen.fault,
        fallen.detail,
        f"{lasted_s:.1f} s",
        before,
        broken if one.late or one.behind else back,
        one.backlog,
    )
