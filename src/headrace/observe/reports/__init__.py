"""Reports: pages with tables and charts for people, each one HTML file.

Owns: the style that reports share. Promises: a page loads nothing and runs no script; whatever an event contains stays text. A page is
built as a tree, so that the library escapes every text.

Charts are inline SVG, drawn by matplotlib: of the libraries that draw static SVG without a browser it is the best maintained and has a
permissive licence (pygal is lighter, but LGPL, and cannot shade the time of a fault; plotly and bokeh need JavaScript). It is heavy, so
it is in the extras `report` and `spark`, and imported only when a chart is drawn."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from headrace.core import NotFound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Page",
    "Span",
    "StyledText",
    "add_table",
    "bar_chart",
    "line_chart",
    "require_charts",
    "table_html",
]


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem }
body { color: #1c2430; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem } h1, h2 { font-weight: 600 }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #dde3ea }
td.n { text-align: right; font-variant-numeric: tabular-nums }
code, pre { font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere }
figure { margin: 1rem 0 } figcaption { font-weight: 600 } svg { width: 100%; height: auto }
@media (prefers-color-scheme: dark) {
body { background: #14181d; color: #dde3ea } th, td { border-color: #333c47 } }
"""


CELL_MAX = 200
"""Characters of a cell of a table in a notebook."""


class StyledText(NamedTuple):
    """A text with a class of the page's style."""

    text: str
    style: str


class Page:
    """A page with a title and, after the shared style, a style of its own; the caller fills `body`."""

    def __init__(self, title: str, *, style: str = "") -> None:
        self._root = Element("html", lang="en")
        head = SubElement(self._root, "head")
        SubElement(head, "meta", charset="utf-8")
        SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
        SubElement(head, "title").text = title
        SubElement(head, "style").text = STYLE + style
        self.body = SubElement(self._root, "body")

    def text(self) -> str:
        return "<!doctype html>\n" + tostring(self._root, encoding="unicode", method="html") + "\n"


def add_table(parent: Element, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table with a row of headings. Integers are counts, aligned to the right; pass a position as text."""
    table = SubElement(parent, "table")
    head = SubElement(table, "tr")
    for column in columns:
        SubElement(head, "th").text = column
    for row in rows:
        line = SubElement(table, "tr")
        for value in row:
            if isinstance(value, int):
                SubElement(line, "td", {"class": "n"}).text = f"{value:,}"
            elif isinstance(value, StyledText):
                SubElement(line, "td", {"class": value.style}).text = value.text
            else:
                SubElement(line, "td").text = str(value)


def table_html(columns: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str | None = None) -> str:
    """A table for a notebook, which shows it in its own style. Long texts are cut."""
    parent = Element("div")
    if caption is not None:
        SubElement(parent, "p").text = caption
    add_table(parent, columns, ([_cell(value) for value in row] for row in rows))
    return tostring(parent, encoding="unicode", method="html")


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= CELL_MAX else f"{text[: CELL_MAX - 1]}…"


WIDTH_IN, HEIGHT_IN = 9.6, 2.2
GRAY = "#7a8594"
"""Readable on a light and on a dark page."""
LINE, SHADE = "#2f74d0", "#e8590c"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "headrace",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": GRAY,
    "axes.labelcolor": GRAY,
    "axes.edgecolor": GRAY,
    "xtick.color": GRAY,
    "ytick.color": GRAY,
}


@dataclass(frozen=True)
class Span:
    """A shaded part of a time axis, in seconds; a browser shows the title when the pointer is on it."""

    title: str
    start_s: float
    end_s: float


def require_charts() -> None:
    """Raises NotFound if charts cannot be drawn; to be called before the work that a report is about."""
    if find_spec("matplotlib") is None:
        raise NotFound("a report with charts needs matplotlib; run: pip install 'headrace[report]'")


def line_chart(title: str, points: Sequence[tuple[float, float]], *, until_s: float, spans: Sequence[Span] = ()) -> Element:
    """A line over time (seconds, value), with shaded spans."""
    figure, axes = _axes()
    scale, unit = (60, "min") if until_s >= 600 else (1, "s")
    for number, span in enumerate(spans):
        # A span is drawn at least as wide as a visible line.
        end_s = max(span.end_s, span.start_s + until_s / 600)
        axes.axvspan(span.start_s / scale, end_s / scale, color=SHADE, alpha=0.25, linewidth=0, gid=f"span-{number}")
    axes.plot([at / scale for at, _ in points], [value for _, value in points], color=LINE, linewidth=1.3)
    axes.set_xlim(0, max(until_s, 1.0) / scale)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(lambda at, _: f"{at:g} {unit}")
    return _figure_element(title, figure, {f"span-{number}": span.title for number, span in enumerate(spans)})


def bar_chart(title: str, days: Sequence[date], counts: Mapping[str, Sequence[int]], colors: Sequence[str]) -> Element:
    """Stacked bars per day: for each label its counts, in the order of the days. Days without counts are gaps."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = _axes()
    bottoms = [0] * len(days)
    titles: dict[str, str] = {}
    for (label, values), color in zip(counts.items(), colors, strict=True):
        bars = axes.bar([day.toordinal() for day in days], values, bottom=bottoms, width=0.85, color=color, label=label)
        for day, value, bar in zip(days, values, bars.patches, strict=True):
            bar.set_gid(f"bar-{len(titles)}")
            titles[f"bar-{len(titles)}"] = f"{day}: {value} {label}"
        bottoms = [bottom + value for bottom, value in zip(bottoms, values, strict=True)]
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.xaxis.set_major_formatter(lambda ordinal, _: str(date.fromordinal(round(ordinal))))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=len(counts), frameon=False, labelcolor=GRAY)
    return _figure_element(title, figure, titles)


def _axes() -> tuple[Figure, Axes]:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained")
        axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    # Draw no tick marks: their SVG would be references, and ids that collide with those of other charts.
    axes.tick_params(length=0)
    axes.set_axisbelow(True)
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    return figure, axes


def _figure_element(title: str, figure: Figure, titles: Mapping[str, str]) -> Element:
    """The chart with its caption. `titles`: tooltips by the id of a part."""
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(file, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = fromstring(file.getvalue())
    for part in svg.iter():
        part.tag = part.tag.rpartition("}")[2]
        if part.get("id") in titles:
            SubElement(part, "title").text = titles[part.attrib["id"]]
        if part.tag != "clipPath":
            part.attrib.pop("id", None)
    svg.attrib = {"viewBox": svg.attrib["viewBox"], "role": "img", "aria-label": title}
    element = Element("figure")
    SubElement(element, "figcaption").text = title
    element.append(svg)
    return element
