"""The report as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

from headrace.report import Page, add_table
from headrace.spark.backtest.report import Day, Report, Result, Sample

WIDTH, HEIGHT, LEFT, BOTTOM = 900, 220, 60, 30
STYLE = ".both { fill: #2b6cb0 } .would { fill: #38a169 } .live { fill: #dd6b20 }"
LEGEND = (("both", "fires now and would fire"), ("would", "only would fire"), ("live", "only fires now"))


def html_report(report: Report) -> str:
    """The whole page."""
    page = Page("Backtest: " + ", ".join(result.name for result in report.results), style=STYLE)
    body = page.body
    SubElement(body, "h1").text = "Backtest"
    SubElement(body, "p").text = (
        f"From {report.start} to {report.end}: {report.events} events, {report.archived} of them from the archive, "
        f"in {report.seconds:.1f} s."
    )
    for note in report.notes:
        SubElement(body, "p").text = note
    for result in report.results:
        _result(body, result)
    return page.text()


def _result(body: Element, result: Result) -> None:
    SubElement(body, "h2").text = f"{result.kind} {result.name} on {result.topic}"
    SubElement(body, "pre").text = result.definition
    only_would, only_live = result.would - result.both, result.live - result.both
    if result.compared:
        numbers = [("fires now", result.live), ("would fire", result.would), ("both", result.both)]
        numbers += [("only would fire", only_would), ("only fires now", only_live)]
    else:
        numbers = [("would fire", result.would)]
    add_table(body, ["", "outputs"], numbers)
    if result.days:
        body.append(_chart(result.days))
    if result.tokens:
        add_table(body, ["token", "would fire", "fires now", "both"], [(t.token, t.would, t.live, t.both) for t in result.tokens])
    if result.keys:
        add_table(
            body, ["key", "would fire", "fires now", "both"], [(k.key or "–", k.would, k.live, k.both) for k in result.keys]
        )
    for sample in result.samples:
        _sample(body, sample)


def _sample(body: Element, sample: Sample) -> None:
    place = "timer" if sample.position is None else f"position {sample.position}"
    told = [dict(LEGEND)[sample.status], place, f"shard {sample.shard}", sample.time.isoformat(sep=" ", timespec="milliseconds")]
    told += [f"key {sample.key}"] if sample.key is not None else []
    told += [f"token {sample.token}"] if sample.token is not None else []
    SubElement(body, "h3").text = " · ".join(told)
    add_table(
        body,
        ["position", "type", "key", "payload"],
        [(str(e.position), e.type, e.key or "–", e.payload) for e in sample.evidence],
    )


def _chart(days: Sequence[Day]) -> Element:
    """A bar per day that has outputs, and gaps where there are none."""
    svg = Element("svg", viewBox=f"0 0 {WIDTH} {HEIGHT + 30}", role="img")
    SubElement(svg, "title").text = "Outputs per day"
    first, last = days[0].day, days[-1].day
    step = (WIDTH - LEFT) / ((last - first).days + 1)
    most = max(day.would + day.live - day.both for day in days)
    scale = (HEIGHT - BOTTOM - 10) / most
    for day in days:
        at, y = LEFT + (day.day - first).days * step, float(HEIGHT - BOTTOM)
        for kind, count in (("both", day.both), ("would", day.would - day.both), ("live", day.live - day.both)):
            if count:
                y -= count * scale
                box = {"x": at, "y": y, "width": max(step * 0.9, 0.5), "height": count * scale}
                bar = SubElement(svg, "rect", {name: f"{value:.2f}" for name, value in box.items()} | {"class": kind})
                SubElement(bar, "title").text = f"{day.day}: {count} {dict(LEGEND)[kind]}"
    axis = {"x1": str(LEFT), "x2": str(WIDTH), "y1": str(HEIGHT - BOTTOM), "y2": str(HEIGHT - BOTTOM)}
    SubElement(svg, "line", axis | {"class": "axis"})
    for text, x, y, anchor in (
        (str(first), LEFT, HEIGHT - 10, "start"),
        (str(last), WIDTH, HEIGHT - 10, "end"),
        (str(most), LEFT - 8, 20, "end"),
        ("0", LEFT - 8, HEIGHT - BOTTOM, "end"),
    ):
        SubElement(svg, "text", {"x": str(x), "y": str(y), "text-anchor": anchor}).text = text
    for number, (kind, text) in enumerate(LEGEND):
        x = LEFT + number * 220
        SubElement(svg, "rect", {"x": str(x), "y": str(HEIGHT + 10), "width": "12", "height": "12", "class": kind})
        SubElement(svg, "text", {"x": str(x + 18), "y": str(HEIGHT + 20)}).text = text
    return svg
