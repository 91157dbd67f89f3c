"""The report as one HTML page: no script, nothing from elsewhere. Built as a tree, so that whatever an event holds stays text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from headrace.backtest._report import Day, Report, Result, Sample

WIDTH, HEIGHT, LEFT, BOTTOM = 900, 220, 60, 30
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 960px; padding: 0 1rem }
body { color: #1c2430; background: #fff }
h1, h2 { font-weight: 600 } table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #dde3ea }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
code, pre { font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere }
.both { fill: #2b6cb0 } .would { fill: #38a169 } .live { fill: #dd6b20 }
svg text { font: 12px system-ui, sans-serif; fill: #55606e }
.axis { stroke: #aab4c0 }
@media (prefers-color-scheme: dark) {
body { background: #14181d; color: #dde3ea } th, td { border-color: #333c47 } svg text { fill: #9aa6b4 } }
"""
LEGEND = (("both", "fires now and would fire"), ("would", "only would fire"), ("live", "only fires now"))


def html_report(report: Report) -> str:
    """The whole page."""
    page = Element("html", lang="en")
    head = SubElement(page, "head")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    SubElement(head, "title").text = "Backtest: " + ", ".join(result.name for result in report.results)
    SubElement(head, "style").text = STYLE
    body = SubElement(page, "body")
    SubElement(body, "h1").text = "Backtest"
    SubElement(body, "p").text = (
        f"From {report.start} to {report.end}: {report.events} events, {report.archived} of them from the archive, "
        f"in {report.seconds:.1f} s."
    )
    for note in report.notes:
        SubElement(body, "p").text = note
    for result in report.results:
        _result(body, result)
    return "<!doctype html>\n" + tostring(page, encoding="unicode", method="html")


def _result(body: Element, result: Result) -> None:
    SubElement(body, "h2").text = f"{result.kind} {result.name} on {result.topic}"
    SubElement(body, "pre").text = result.definition
    only_would, only_live = result.would - result.both, result.live - result.both
    if result.compared:
        numbers = [("fires now", result.live), ("would fire", result.would), ("both", result.both)]
        numbers += [("only would fire", only_would), ("only fires now", only_live)]
    else:
        numbers = [("would fire", result.would)]
    _table(body, ["", "outputs"], numbers)
    if result.days:
        body.append(_chart(result.days))
    if result.tokens:
        _table(body, ["token", "would fire", "fires now", "both"], [(t.token, t.would, t.live, t.both) for t in result.tokens])
    if result.keys:
        _table(body, ["key", "would fire", "fires now", "both"], [(k.key or "–", k.would, k.live, k.both) for k in result.keys])
    for sample in result.samples:
        _sample(body, sample)


def _sample(body: Element, sample: Sample) -> None:
    place = "timer" if sample.position is None else f"position {sample.position}"
    told = [dict(LEGEND)[sample.status], place, f"shard {sample.shard}", sample.time.isoformat(sep=" ", timespec="milliseconds")]
    told += [f"key {sample.key}"] if sample.key is not None else []
    told += [f"token {sample.token}"] if sample.token is not None else []
    SubElement(body, "h3").text = " · ".join(told)
    _table(body, ["position", "type", "key", "payload"], [(e.position, e.type, e.key or "–", e.payload) for e in sample.evidence])


def _table(body: Element, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = SubElement(body, "table")
    head = SubElement(table, "tr")
    for column in columns:
        SubElement(head, "th").text = column
    for row in rows:
        line = SubElement(table, "tr")
        for value in row:
            cell = SubElement(line, "td", {"class": "n"} if isinstance(value, int) else {})
            cell.text = str(value)


def _chart(days: Sequence[Day]) -> Element:
    """A bar per day that has outputs, and gaps where there are none."""
    svg = Element("svg", viewBox=f"0 0 {WIDTH} {HEIGHT + 30}", role="img", width="100%")
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
