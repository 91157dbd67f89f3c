"""The page of a report holds what was found, as text, and needs nothing from elsewhere."""

from __future__ import annotations

from datetime import UTC, date, datetime
from html.parser import HTMLParser

from headrace.cli.backtest import _bars
from headrace.spark.backtest import Day, Evidence, KeyCount, Report, Result, Sample, TokenCount, html_report

HOSTILE = "</td><script>alert(1)</script>&\"'"


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.words += data


def report(days: tuple[Day, ...]) -> Report:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    sample = Sample("would", HOSTILE, None, at, HOSTILE, HOSTILE, None, (Evidence(1, HOSTILE, HOSTILE, at, HOSTILE),), 1)
    keys, tokens = (KeyCount(HOSTILE, 1, 0, 0), KeyCount(None, 1, 1, 1)), (TokenCount(HOSTILE, 1, 0, 0),)
    result = Result("correlator", HOSTILE, HOSTILE, HOSTILE, True, days, keys, tokens, (sample,))
    return Report(HOSTILE, HOSTILE, 10, 5, 1.5, (result,), (HOSTILE,))


def test_whatever_events_hold_stays_text() -> None:
    page = Page()
    page.feed(html_report(report((Day(date(2026, 1, 1), 3, 2, 1),))))
    assert "script" not in page.tags
    assert not {"src", "href", "onload"} & set(page.attributes)
    assert page.words.count(HOSTILE) >= 10


def test_bars_stand_for_the_counts() -> None:
    text = html_report(report((Day(date(2026, 1, 1), 3, 2, 1), Day(date(2026, 1, 5), 0, 6, 0))))
    page = Page()
    page.feed(text)
    # Three parts on the first day, one on the second, three in the legend.
    assert page.tags.count("rect") == 3 + 1 + 3
    assert "2026-01-01: 2 only would fire" in text and "2026-01-05: 6 only fires now" in text


def test_result_without_outputs_has_no_chart() -> None:
    page = Page()
    page.feed(html_report(report(())))
    assert "svg" not in page.tags


def test_terminal_bars_gather_many_days() -> None:
    days = [Day(date.fromordinal(date(2026, 1, 1).toordinal() + n), 2, 1, 1) for n in range(365)]
    rows = _bars(days)
    assert len(rows) <= 40
    assert sum(count for _, count, _ in rows) == 730
    assert rows[0][2].plain == "█" * 30 + "▓" * 30
