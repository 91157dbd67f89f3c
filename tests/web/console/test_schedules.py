"""Schedules: in words, the next runs in local time with daylight saving; run now, pause, create in the browser."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest
from playwright.sync_api import expect

from headrace.db import connect
from headrace.schedules import check_zone, explain_cron, get_schedule, ticks
from headrace.web.console.pages.schedules import local_ticks
from tests.web.console.conftest import Pages, Running
from tests.web.console.test_consumers import audit


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("30 2 * * *", "At 02:30 every day"),
        ("30 6 * * MON-FRI", "At 06:30 on Monday through Friday"),
        ("*/5 * * * *", "Every fifth minute of every hour"),
        ("0 * * * *", "At the start of every hour"),
        ("0 8,20 1 JAN *", "At 08:00 and 20:00 on January 1"),
        ("*/10 * * * * *", "Every 10th second of every minute"),
        ("@daily", "At 00:00 every day"),
        ("nonsense", "nonsense"),
    ],
)
def test_words(cron: str, words: str) -> None:
    assert explain_cron(cron) == words


def test_daylight_saving_is_marked() -> None:
    start = datetime(2026, 10, 24, 12, tzinfo=UTC)
    runs = local_ticks(islice(ticks("30 4 * * *", "Europe/Berlin", start), 3), check_zone("Europe/Berlin"), start)
    assert [(run["local"][-8:], run["zone"], run["change"]) for run in runs] == [
        ("04:30:00", "CET", "clock back 1 h"),
        ("04:30:00", "CET", None),
        ("04:30:00", "CET", None),
    ]


def test_create_run_pause_resume(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/schedules", namespace="lab"))
    page.get_by_role("link", name="Create schedule").first.click()
    for label, text in (("Name", "hourly"), ("Cron", "0 * * * *"), ("Time zone", "Europe/Berlin")):
        page.get_by_label(label, exact=True).fill(text)
    page.get_by_label("Topic", exact=True).select_option("parcels")
    page.get_by_label("Event type", exact=True).fill("count.due")
    page.get_by_role("button", name="Plan").click()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_have_text("schedule hourly created")
    expect(page.get_by_role("region", name="Next runs").first.locator("tbody tr")).to_have_count(10)
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("status")).to_contain_text("published event")
    expect(page.get_by_role("region", name="History").first).to_contain_text("manual")
    page.get_by_role("button", name="Pause").click()
    with connect(site.database) as conn:
        expect(page.get_by_role("status")).to_have_text("schedule hourly is paused")
        assert get_schedule(conn, "hourly", namespace="lab").state == "paused"
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("status")).to_have_text("schedule hourly goes on")
        assert get_schedule(conn, "hourly", namespace="lab").state == "active"
    for what in ("schedule.create", "schedule.run", "schedule.pause", "schedule.resume"):
        assert len(audit(site, what, "hourly")) == 1
