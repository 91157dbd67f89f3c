"""Topics in the browser: create, alter, erase a key, exports, sorting, searching."""

from __future__ import annotations

import csv
import io
import json

from playwright.sync_api import expect

from headrace.db import Target, connect
from headrace.log.outbox import publish
from headrace.log.topics import create_topic, get_topic, read_log
from headrace.web.console import ConsoleSettings, TokenLogin, User, new_token
from headrace.web.console.guard import CSRF_COOKIE
from tests.builders import drain
from tests.web.console.conftest import Pages, Running, assert_accessible, serve
from tests.web.console.test_consumers import audit
from tests.web.console.test_guard import ask, sign_in


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


def publish_letters(site: Running, topic: str) -> None:
    with connect(site.database) as conn:
        create_topic(conn, topic, namespace="lab")
        for person in ("ada", "bob", "ada"):
            publish(conn, topic, "letter.written", {"to": f"{person}@example.org"}, key=f"{person}-1", namespace="lab")
        drain(conn)


def payloads(site: Running, topic: str) -> list[object]:
    with connect(site.database) as conn:
        return [event.payload for event in read_log(conn, topic, namespace="lab")]


def test_key_is_erased_after_a_preview_and_the_key_typed_again(site: Running, open_page: Pages) -> None:
    publish_letters(site, "erased-letters")
    open_page.allowed += ["status of 422"]
    page = open_page(site.url("/topics/erased-letters", namespace="lab"))
    section = page.get_by_role("region", name="Erase a key")
    section.get_by_label("Key", exact=True).fill("ada-1")
    section.get_by_role("button", name="Preview").click()
    expect(section).to_contain_text("Log2")
    assert "ada-1" not in page.url and len(payloads(site, "erased-letters")) == 3
    section.get_by_label("Type the key again").fill("bob-1")
    section.get_by_role("button", name="Erase for good").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was erased")
    assert {} not in payloads(site, "erased-letters")
    section.get_by_role("button", name="Preview").click()
    assert_accessible(page)
    section.get_by_label("Type the key again").fill("ada-1")
    section.get_by_role("button", name="Erase for good").click()
    expect(page.get_by_role("status")).to_contain_text("2 rows")
    assert payloads(site, "erased-letters") == [{}, {"to": "bob@example.org"}, {}]
    [change] = audit(site, "topic.erase", "erased-letters")
    assert "ada-1" not in json.dumps(change) and change["details"] == {"fields": "all", "replace_key": "no", "actions": "no"}


def test_key_without_events_and_a_role_without_the_level_erase_nothing(site: Running, open_page: Pages, filled: Target) -> None:
    publish_letters(site, "kept-letters")
    page = open_page(site.url("/topics/kept-letters", namespace="lab"))
    section = page.get_by_role("region", name="Erase a key")
    section.get_by_label("Key", exact=True).fill("nobody")
    section.get_by_role("button", name="Preview").click()
    expect(section.get_by_role("alert")).to_have_text("Nothing of this key was found.")
    token, digest = new_token()
    with serve([filled], ConsoleSettings(login=TokenLogin({digest: User("bob", "lab_reader")}))) as address:
        _, cookies = sign_in(address, token)
        csrf = cookies["cookie"].split("; ")[0].removeprefix(f"{CSRF_COOKIE}=")
        for more in ({}, {"again": "ada-1"}):
            form = {"csrf": csrf, "key": "ada-1", **more}
            answer = ask(f"{address}/topics/kept-letters/erase?namespace=lab", method="POST", form=form, headers=cookies)
            assert answer.status == 403, answer.text
    assert {} not in payloads(site, "kept-letters")
