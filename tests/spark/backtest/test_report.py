"""The page and the table of a backtest."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from headrace.cli.backtest import _days
from headrace.spark.backtest import DayCounts, Evidence, KeyCounts, Report, Result, Sample, TokenCounts, html_report
from tests.observe.reports.page_parser import PageParser

HOSTILE = "</td><script>alert(1)</script>&\"'"
DAY = date(2026, 1, 1)


def report(days: tuple[DayCounts, ...]) -> Report:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    sample = Sample("would", HOSTILE, None, at, HOSTILE, HOSTILE, None, (Evidence(1, HOSTILE, HOSTILE, at, HOSTILE),), 1)
    keys, tokens = (KeyCounts(1, 0, 0, HOSTILE), KeyCounts(1, 1, 1, None)), (TokenCounts(1, 0, 0, HOSTILE),)
    result = Result("correlator", HOSTILE, HOSTILE, HOSTILE, True, days, keys, tokens, (sample,))
    return Report(HOSTILE, HOSTILE, 10, 5, 1.5, (result,), (HOSTILE,))


def test_page_escapes_whatever_events_contain() -> None:
    page = PageParser(html_report(report((DayCounts(3, 2, 1, DAY),))))
    assert "script" not in page.tags
    assert not {"src", "href", "onload"} & set(page.attributes)
    assert page.text.count(HOSTILE) >= 10


def test_notebook_shows_the_content_of_the_page_and_escapes_it() -> None:
    html = report((DayCounts(3, 2, 1, DAY),))._repr_html_()
    page = PageParser(html)
    assert html.startswith("<div>") and not {"script", "html", "body"} & set(page.tags)
    assert page.text.count(HOSTILE) >= 10 and page.tags.count("svg") == 1


def test_page_has_a_bar_per_day_and_kind() -> None:
    text = html_report(report((DayCounts(3, 2, 1, DAY), DayCounts(0, 6, 0, DAY + timedelta(days=4)))))
    for title in ("2026-01-01: 2 only would fire", "2026-01-01: 1 only fires now", "2026-01-05: 6 only fires now"):
        assert text.count(f"<title>{title}</title>") == 1
    assert PageParser(text).tags.count("svg") == 1


def test_result_without_outputs_has_no_chart() -> None:
    assert "svg" not in PageParser(html_report(report(()))).tags


def test_table_joins_days_if_there_are_too_many() -> None:
    rows = _days([DayCounts(2, 1, 1, DAY + timedelta(days=number)) for number in range(365)])
    assert len(rows) <= 40
    assert sum(both + would + live for _, both, would, live, _ in rows) == 730
    assert rows[0][-1].plain == "█" * 40
