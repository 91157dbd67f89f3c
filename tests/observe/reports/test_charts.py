"""Charts are inline SVG without references, ids that collide, or scripts."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from xml.etree.ElementTree import Element, tostring

import pytest

from headrace.core import NotFound
from headrace.observe.reports import Page, Span, StyledText, add_table, bar_chart, line_chart, require_charts
from tests.observe.reports.page_parser import PageParser


def as_text(element: Element) -> str:
    return tostring(element, encoding="unicode", method="html")


def test_line_chart_has_its_title_and_a_tooltip_per_span() -> None:
    points = [(float(at), at % 7) for at in range(60)]
    spans = [Span("a <fault> at 10 s", 10, 12), Span("a short one", 30, 30)]
    text = as_text(line_chart("Events & more", points, until_s=60, spans=spans))
    assert "<figcaption>Events &amp; more</figcaption>" in text
    assert "<title>a &lt;fault&gt; at 10 s</title>" in text and "<title>a short one</title>" in text
    assert PageParser(text).links == [] and "http" not in text


def test_charts_of_one_page_share_no_id_except_equal_clip_paths() -> None:
    charts = [line_chart(name, [(0, 1), (60, 2)], until_s=60) for name in ("a", "b")]
    ids = [[part.tag for part in chart.iter() if part.get("id")] for chart in charts]
    assert {tag for tags in ids for tag in tags} <= {"clipPath"}


def test_chart_without_points_is_empty() -> None:
    assert "<svg" in as_text(line_chart("nothing", [], until_s=0))


def test_bar_chart_has_a_tooltip_per_bar_and_a_legend() -> None:
    days = [date(2026, 1, 1), date(2026, 1, 5)]
    text = as_text(bar_chart("Outputs", days, {"both": [3, 0], "live": [1, 2]}, ["#00f", "#0f0"]))
    assert "<title>2026-01-01: 3 both</title>" in text and "<title>2026-01-05: 2 live</title>" in text
    assert PageParser(text).text.count("both") >= 3


def test_table_escapes_text_and_aligns_counts() -> None:
    page = Page("t")
    add_table(page.body, ["a", "b", "c"], [("<i>", 1234, StyledText("x", "ok"))])
    assert '<td>&lt;i&gt;</td><td class="n">1,234</td><td class="ok">x</td>' in page.text()


def test_missing_library_is_reported_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.observe.reports.find_spec", lambda _: None)
    with pytest.raises(NotFound, match=r"headrace\[report\]"):
        require_charts()


def test_report_imports_the_chart_library_only_to_draw() -> None:
    program = "import sys, headrace.observe.reports; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
