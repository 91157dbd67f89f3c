"""The report as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from headrace.observe.reports import Page, add_table, bar_chart
from headrace.spark.backtest.values import DayCounts, Report, Result, Sample

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
