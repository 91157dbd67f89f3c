"""The report of a run: one page that loads nothing and escapes everything, with charts of limited size."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from headrace.prove import Options, RunResult, Violation, summarize, write_report
from headrace.prove.checks.result import check_result
from headrace.prove.report import median_line
from tests.observe.reports.page_parser import PageParser
from tests.prove.evidence import good_evidence


def broken_run() -> RunResult:
    violation = Violation("it broke", ("<script>alert(1)</script>", "a & b"))
    result = check_result("effects-once", "a <b>promise</b>", 3, [violation])
    return RunResult(Options(seed=9), (), good_evidence(), (result,), 10.0, 70.0)


def test_report_is_one_page_that_loads_nothing_and_escapes_everything(tmp_path: Path) -> None:
    write_report(broken_run(), tmp_path / "proof.html")
    text = (tmp_path / "proof.html").read_text()
    page = PageParser(text)
    assert page.links == [] and "script" not in page.tags and "b" not in page.tags and "http" not in text
    assert page.tags.count("svg") == 5
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "a promise was broken" in text
    assert text.count("<title>kill-node at 10.0 s, 1.0 s</title>") == 5, "every chart shows the fault"


def test_summary_counts_faults_and_outcomes() -> None:
    summary = summarize(broken_run())
    assert not summary.holds
    assert summary.faults == {"kill-node": 1, "shard-down": 1}
    assert summary.outcomes == {"unknown": 1, "ok": 2, "rolled_back": 1}


def test_check_that_examined_nothing_is_not_said_to_have_held() -> None:
    cases = ((3, []), (0, []), (0, [Violation("c")]))
    labels = [check_result("a", "b", examined, violations).label for examined, violations in cases]
    assert labels == ["held", "not checked", "BROKEN"]


@pytest.mark.parametrize(("hours", "points", "apart_s"), [(2, 600, 12), (0.1, 180, 2)])
def test_line_of_a_long_run_has_no_more_points_than_a_chart_can_show(hours: float, points: int, apart_s: float) -> None:
    seconds = hours * 3600
    line = median_line([(1000 + at, at % 3) for at in range(-5, int(seconds))], 1000, seconds)
    assert len(line) == points
    assert {round(following - at, 6) for (at, _), (following, _) in pairwise(line)} == {apart_s}
