"""Topics in the browser: create, alter, exports, sorting, searching."""

from __future__ import annotations

import csv
import io
import json

from playwright.sync_api import expect

from headrace.db import connect
from headrace.log import get_topic
from tests.console.conftest import Pages, Running
from tests.console.test_consumers import audit
from tests.console.test_guard import ask


def test_create_and_alter_with_audit(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/topics", namespace="lab"))
    page.get_by_role("link", name="Create topic").click()
    page.get_by_label("Name", exact=True).fill("letters")
    page.get_by_label("Partitions").fill("2")
    page.get_by_label("Retention").fill("30 days")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_have_text("topic letters created")
    expect(page.get_by_role("heading", level=1)).to_have_text("letters")
    page.get_by_label("Partitions").fill("4")
    page.get_by_label("Retention").fill("forever")
    page.get_by_role("button", name="Change topic").click()
    expect(page.get_by_role("status")).to_have_text("topic letters changed")
    with connect(site.database) as conn:
        topic = get_topic(conn, "letters", namespace="lab")
    assert (topic.partitions, topic.retention) == (4, None)
    [change] = audit(site, "topic.alter", "letters")
    assert (change["before"], change["after"]) == (
        {"partitions": 2, "retention": "P30D", "archive": False},
        {"partitions": 4, "retention": "forever", "archive": False},
    )


def test_fewer_partitions_are_rejected_and_nothing_changes(site: Running, open_page: Pages) -> None:
    open_page.allowed += ["status of 409", "status of 422"]
    page = open_page(site.url("/topics/parcels", namespace="lab"))
    page.get_by_label("Partitions").fill("1")
    page.get_by_role("button", name="Change topic").click()
    expect(page.get_by_role("alert")).to_contain_text("partitions")
    expect(page.get_by_label("Partitions")).to_have_value("1")
    assert audit(site, "topic.alter", "parcels") == []


def test_table_is_exported_as_shown(site: Running) -> None:
    rows = json.loads(ask(site.url("/topics", format="json")).text)
    assert [row["topic"] for row in rows] == ["orders", "payments"]
    answer = ask(site.url("/topics", format="csv", sort="-topic"))
    assert answer.headers["content-disposition"] == 'attachment; filename="headrace-topics.csv"'
    assert [row["topic"] for row in csv.DictReader(io.StringIO(answer.text))] == ["payments", "orders"]
    assert json.loads(ask(site.url("/topics", format="json", q="pay")).text)[0]["topic"] == "payments"


def test_search_and_order_are_in_the_url(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/topics"))
    page.keyboard.press("/")
    page.keyboard.type("pay")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=pay**")
    expect(page.get_by_role("row")).to_have_count(2)
    page = open_page(site.url("/topics", sort="-topic"))
    expect(page.get_by_role("row").nth(1)).to_contain_text("payments")
    expect(page.get_by_role("columnheader", name="topic")).to_have_attribute("aria-sort", "descending")


def test_empty_page_shows_the_command_that_fills_it(site: Running, open_page: Pages) -> None:
    with connect(site.database) as conn:
        conn.execute(
            "select headrace.create_namespace('empty') where not exists (select from headrace.namespace where namespace = 'empty')"
        )
    page = open_page(site.url("/topics", namespace="empty"))
    expect(page.locator("code.command")).to_have_text("headrace topic create orders --partitions 4")
