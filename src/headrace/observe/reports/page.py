"""The page of a report, built as a tree, so that the library escapes every text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

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
