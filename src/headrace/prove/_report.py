"""Report: what a run came to, as numbers for programs and as one HTML page for people. The page loads nothing."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from headrace.prove._check_time import Recovery, recoveries
from headrace.prove._figures import (
    Latency,
    lag_points,
    latency,
    medians,
    publish_times,
    queue_points,
    rate_points,
    visible_times,
)
from headrace.prove._run import Proved
from headrace.prove._svg import chart
from headrace.prove._verdict import Verdict

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1d2733;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
td,th{padding:.25rem .5rem;border-bottom:1px solid #e2e6ea;text-align:left;vertical-align:top}td.n{text-align:right}
.ok{color:#116b3a}.broken{color:#b00020;font-weight:600}figure{margin:1rem 0}figcaption{font-weight:600}
svg{width:100%;height:auto}svg text{font-size:11px;fill:#5b6673}svg polyline{fill:none;stroke:#1f5fbf;stroke-width:1.4}
svg .fault{fill:#e8590c;opacity:.22}svg .grid{stroke:#e2e6ea}pre{background:#f5f7f9;padding:.6rem;overflow:auto}
@media(prefers-color-scheme:dark){body{background:#12181f;color:#dde4ea}td,th{border-color:#2b3641}pre{background:#1b242d}
svg .grid{stroke:#2b3641}svg text{fill:#9aa7b3}.ok{color:#5dd39e}.broken{color:#ff6b7a}}
"""


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
            "margin": f"{proved.options.margin:.0%}",
        },
    )


def write_report(proved: Proved, path: Path) -> None:
    """The page."""
    told = summary(proved)
    title = f"headrace prove: {told.headline}"
    parts = [
        f"<h1 class='{'ok' if told.holds else 'broken'}'>{escape(title)}</h1>",
        _facts(told),
        "<h2>Checks</h2>",
        _table(("check", "promise", "examined", "broken", ""), (_verdict_row(one) for one in told.verdicts)),
        *(_counter_example(one) for one in told.verdicts if not one.holds),
        "<h2>Over time</h2>",
        *_charts(proved),
        "<h2>Faults</h2>",
        _table(
            ("at", "fault", "detail", "lasted", "rate before", "back after", "waiting at the end"),
            (_recovery_row(one, proved.began_at) for one in told.recoveries),
        ),
    ]
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><style>{STYLE}</style>"
    path.write_text(head + "".join(parts) + "</html>\n", encoding="utf-8")


def _facts(told: Summary) -> str:
    rows = [
        ("seed", told.seed),
        ("minutes", f"{told.minutes:.1f}"),
        ("operations", f"{told.operations:,}"),
        ("events acknowledged", f"{told.published:,}"),
        (
            "faults",
            f"{sum(told.faults.values())}: " + ", ".join(f"{name} {count}" for name, count in sorted(told.faults.items())),
        ),
        ("tried in vain", ", ".join(f"{name} {count}" for name, count in sorted(told.missed.items())) or "–"),
        ("transactions by outcome", ", ".join(f"{name} {count}" for name, count in sorted(told.outcomes.items()))),
        ("publish, begun to acknowledged", _latency(told.publish)),
        ("acknowledged to seen by a reader", _latency(told.visible)),
        *told.surroundings.items(),
    ]
    return _table(("", ""), ([name, value] for name, value in rows))


def _latency(told: Latency) -> str:
    return f"p50 {told.p50_ms:.1f} ms, p99 {told.p99_ms:.1f} ms, max {told.max_ms:.0f} ms of {told.count:,}"


def _charts(proved: Proved) -> list[str]:
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
        one.word,
    )


def _recovery_row(one: Recovery, began_at: float) -> Sequence[object]:
    before = "–" if one.before_per_s is None else f"{one.before_per_s:.0f}/s"
    back = "BROKEN" if one.late or one.behind else "–" if one.back_s is None else f"{one.back_s:.1f} s"
    fallen = one.fallen
    at_s, lasted_s = fallen.began_at - began_at, fallen.healed_at - fallen.began_at
    return (f"{at_s:.1f} s", fallen.fault, fallen.detail, f"{lasted_s:.1f} s", before, back, one.backlog)


def _counter_example(one: Verdict) -> str:
    assert one.smallest is not None
    lines = "\n".join(one.smallest.example)
    return f"<h3 class='broken'>{escape(one.check)}: {escape(one.smallest.what)}</h3><pre>{escape(lines)}</pre>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f"<td class='n'>{value:,}</td>"
    kind = {"BROKEN": " class='broken'", "held": " class='ok'"}.get(str(value), "")
    return f"<td{kind}>{escape(str(value))}</td>"
