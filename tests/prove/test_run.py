"""Runs of the checker on the product: every promise holds under faults, the report tells, and escapes what it tells."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.db import Server
from headrace.prove import FAULTS, Options, Proved, Violation, prove, summary, write_report
from headrace.prove.failpoint import NAMES
from headrace.prove.figures import medians
from headrace.prove.verdict import judge
from tests.cli.conftest import call
from tests.conftest import temporary_folder
from tests.prove.evidence import whole

pytestmark = [pytest.mark.timeout(235), pytest.mark.xdist_group("prove"), pytest.mark.lane("pg18")]


def assert_held(proved: Proved) -> None:
    for verdict in proved.verdicts:
        assert verdict.holds or verdict.check == "rate-returns", f"{verdict.check}: {verdict.smallest}"


@pytest.mark.timeout(400)
def test_every_promise_holds_under_every_fault_once(tmp_path: Path) -> None:
    """All kinds but two: a disk without room has a run of its own, and Spark is started once per test run, not here."""
    proved = prove(Options(minutes=1.2, seed=4, rate=60, failpoints=["before:consumed", "after:consumed"]))
    assert_held(proved)
    assert [one for one in proved.evidence.fallen if one.fault == "failpoint" and one.struck and "consumed hit" in one.detail]
    assert {one.fault for one in proved.evidence.fallen} == {
        name for name, fault in FAULTS.items() if not fault.asked and not fault.spark
    }
    assert {one.check for one in proved.verdicts if one.examined == 0} <= {
        "rate-returns", "pipeline-did-it-once", "other-shards-go-on",
    }  # fmt: skip
    write_report(proved, tmp_path / "proof.html")
    assert "every promise that could be judged held; not judged: " in (tmp_path / "proof.html").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk in memory")
def test_full_disk_loses_nothing() -> None:
    proved = prove(Options(minutes=0.3, faults=["disk-full"], seed=3, rate=60))
    assert_held(proved)
    assert {one.fault for one in proved.evidence.fallen} == {"disk-full"}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [21, 22])
def test_every_promise_holds_under_every_fault_again_and_again(seed: int) -> None:
    """With a pipeline on Spark too."""
    proved = prove(Options(minutes=5, seed=seed, spark=True))
    assert_held(proved)
    assert {one.fault for one in proved.evidence.fallen} == {name for name, fault in FAULTS.items() if not fault.asked}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_node_dies_at_every_named_point_and_every_promise_holds() -> None:
    proved = prove(Options(minutes=7, faults=["failpoint"], seed=8, rate=40))
    assert_held(proved)
    struck = {re.sub(r"^node-\d ([a-z:-]+) hit .*", r"\1", one.detail) for one in proved.evidence.fallen if one.struck}
    assert struck == set(NAMES), [one.detail for one in proved.evidence.fallen if not one.struck]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_driver_killed_with_its_jvm_does_every_batch_once() -> None:
    proved = prove(Options(minutes=0.7, faults=["kill-spark"], seed=6, rate=30, spark=True))
    assert_held(proved)
    ledger = proved.evidence.ledger
    assert ledger is not None and ledger.firings > 10 and ledger.outputs > 10
    kills = [one.detail for one in proved.evidence.fallen]
    assert kills and all(int(detail.split()[1]) >= 2 for detail in kills), f"the JVM was not killed as well: {kills}"


def test_command_runs_on_a_server_that_was_given_and_answers_json(server: Server, tmp_path: Path) -> None:
    page, numbers = tmp_path / "proof.html", tmp_path / "proof.json"
    reports = ["--report", str(page), "--report", str(numbers)]
    answer = call("prove", "--minutes", "0.1", "--faults", "", "--dsn", server.dsn(), *reports, "--json", "--rate", "40")
    assert answer.code == 0, answer.err
    told = answer.json
    assert (told["holds"], told["seed"], told["faults"]) == (True, 1, {})
    assert told["operations"] > 100 and len(told["verdicts"]) >= 20
    assert "<h1" in page.read_text()
    assert json.loads(numbers.read_text()) == told


def test_command_refuses_what_it_cannot_do(server: Server, tmp_path: Path) -> None:
    assert call("prove", "--faults", "nonsense").code == 5
    assert call("prove", "--faults", "kill-server", "--dsn", server.dsn()).code == 5
    assert call("prove", "--report", str(tmp_path / "proof.pdf")).code == 5
    assert call("prove", "--report", str(tmp_path / "nowhere" / "proof.html")).code == 5


def processes_of(keep: Path) -> list[str]:
    """The processes that a run has started: each has its folder on its command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(keep) in (line := path.read_text().replace("\0", " ")):
                found.append(line)
    return found


def test_command_that_is_told_to_end_leaves_no_process_behind() -> None:
    keep = temporary_folder() / "kept"
    command = [sys.executable, "-m", "headrace", "prove", "--minutes", "5", "--faults", "", "--keep", str(keep)]
    asked = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert asked.stderr is not None
        assert any("everything flows" in line for line in asked.stderr)
        assert len(processes_of(keep)) > 5, "the server, two nodes and two producers at least"
        asked.terminate()
        assert asked.wait(60) == 143
        deadline = time.monotonic() + 10
        while (left := processes_of(keep)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert left == []
    finally:
        asked.kill()
        shutil.rmtree(keep.parent)


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def broken_run() -> Proved:
    verdict = judge("effects-once", "a <b>promise</b>", 3, [Violation("it broke", ("<script>alert(1)</script>", "a & b"))])
    return Proved(Options(seed=9), (), whole(), (verdict,), 10.0, 70.0)


def test_report_is_one_page_that_loads_nothing_and_escapes_everything(tmp_path: Path) -> None:
    write_report(broken_run(), tmp_path / "proof.html")
    text = (tmp_path / "proof.html").read_text()
    page = Page()
    page.feed(text)
    assert page.links == [] and "script" not in page.tags and "b" not in page.tags
    assert page.tags.count("svg") == 5
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "a promise was broken" in text
    assert re.search(r'class="fault"[^>]*><title>kill-node at 10.0 s, 1.0 s', text)


def test_summary_counts_what_happened() -> None:
    told = summary(broken_run())
    assert (told.holds, told.faults, told.outcomes) == (
        False,
        {"kill-node": 1, "shard-down": 1},
        {"unknown": 1, "ok": 2, "rolled_back": 1},
    )


def test_check_that_had_nothing_to_look_at_is_not_said_to_have_held() -> None:
    words = [judge("a", "b", examined, found).word for examined, found in ((3, []), (0, []), (0, [Violation("c")]))]
    assert words == ["held", "not judged", "BROKEN"]


@pytest.mark.parametrize(("hours", "points", "apart_s"), [(2, 600, 12), (0.1, 180, 2)])
def test_line_of_a_long_run_has_no_more_points_than_a_chart_has_room_for(hours: float, points: int, apart_s: float) -> None:
    seconds = hours * 3600
    line = medians([(1000 + at, at % 3) for at in range(-5, int(seconds))], 1000, seconds)
    assert len(line) == points
    assert {round(other - one, 6) for (one, _), (other, _) in pairwise(line)} == {apart_s}
