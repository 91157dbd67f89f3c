"""One event in the browser: its timeline, why rules fired or not, and the tree of causes and effects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape

import pytest
from playwright.sync_api import expect

from headrace.correlators import Correlator, EventOutput, create_correlator
from headrace.db import Target
from headrace.log.topics import create_topic
from headrace.rules import Rule, create_rule
from headrace.testing import Kit
from tests.web.console.conftest import Pages, Running, serve
from tests.web.console.filling import application
from tests.web.console.test_guard import ask


def event_id(site: Running, **parameters: str) -> str:
    """The id of the newest event that a filter finds."""
    return str(json.loads(ask(site.url("/events", format="json", **parameters)).text)[0]["event_id"])


def test_timeline_tells_what_happened_in_order(site: Running, open_page: Pages) -> None:
    opened = event_id(site, topic="orders", key="order-33", type="order.paid")
    page = open_page(site.url(f"/events/{opened}"))
    titles = page.locator(".timeline .title").all_inner_texts()
    assert titles == [
        "Published to orders",
        "In the log at position 49, partition 2",
        "2 rules active at its position",
        "Rule charge, version 1, fired: CHARGE",
        "Action CHARGE: attempt 1 of 5 failed",
        "Action CHARGE became a dead letter",
        "Held up by consumer shipping",
    ]
    tree = " ".join(page.locator(".tree").inner_text().split())
    assert tree == "event order.paid (orders/49) this event rule charge action CHARGE dead"
    consumers = {
        row.split("\t")[0].strip(): row.split("\t")[1].strip()
        for row in page.get_by_role("region", name="Consumers").last.locator("tbody tr").all_inner_texts()
    }
    assert consumers == {"billing": "handled", "mailing": "handled", "reporting": "idle", "shipping": "stopped"}
    [*_, last] = json.loads(ask(site.url(f"/events/{opened}", format="json", table="timeline")).text)
    assert last["title"] == "Held up by consumer shipping"


def test_rule_that_did_not_fire_shows_the_clause(site: Running, open_page: Pages) -> None:
    opened = event_id(site, topic="orders", key="order-39", type="order.placed")
    page = open_page(site.url(f"/events/{opened}"))
    rules = page.get_by_role("region", name="Rules that looked at it")
    expect(rules.get_by_text("the condition is false")).to_be_visible()
    assert [row.split("\t") for row in rules.locator("table.clauses tbody tr").all_inner_texts()] == [
        ["(object ->> 'total')::int > 300", "false"],
        ["(object ->> 'total')::int", "293"],
    ]
    expect(rules.get_by_text("only looks at order.paid")).to_be_visible()


@pytest.mark.parametrize("key", ["deep", "large", ""])
def test_hostile_event_is_shown_as_text(site: Running, open_page: Pages, key: str) -> None:
    opened = event_id(site, topic="orders", **({"key": key} if key else {"where": "key like '<script>%'"}))
    page = open_page(site.url(f"/events/{opened}"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Event order.placed")
    assert page.evaluate("window.hacked") is None
    assert not set(page.locator("main").inner_text()) & set("\x1b\u202e\u200b")
    if key == "large":
        expect(page.get_by_text("20\u202f000 shown")).to_be_visible()


def test_unknown_event_is_explained(site: Running) -> None:
    for path in ("/events/01a1e833-5a1b-759d-8169-f68be99fddb0", "/events/nonsense"):
        answer = ask(site.url(path))
        assert answer.status == 404 and "UnknownEvent" in answer.text


@pytest.fixture
def chain(database: Target) -> Iterator[Running]:
    """An order that a correlator answers with an alert, on which a rule fires; the alert is then published again."""
    with Kit(database) as kit:
        create_topic(kit.conn, "orders")
        create_topic(kit.conn, "alerts")
        output = {"vip": EventOutput(event="order.vip", topic="alerts")}
        correlator = Correlator(
            name="vips", topic="orders", pattern="repeat {push(vip) {order.placed}}", key="key", outputs=output
        )
        create_correlator(kit.conn, correlator)
        create_rule(kit.conn, Rule(name="call", topic="alerts", event_type="order.vip", action="REVIEW"))
        kit.publish("orders", "order.placed", {"total": 1}, key="ada")
        kit.run_until_idle_sync(application())
        headers = {"headrace-replay": "alerts/1", "cause": {"correlator": ["not a name"], "event_id": "no id"}}
        kit.publish("alerts", "order.vip", {}, key="again", headers=headers)
        kit.run_until_idle_sync(application())
    with serve([database]) as address:
        yield Running(address, database)


def test_tree_leads_from_the_first_cause_to_the_last_effect(chain: Running) -> None:
    site = chain
    first = event_id(site, topic="orders")
    derived, again = (event_id(site, topic="alerts", key=key) for key in ("ada", "again"))
    tree = _tree(ask(site.url(f"/events/{first}")).text)
    assert tree == [
        "event order.placed (orders/1) this event",
        "correlator vips pushed vip",
        "event order.vip (alerts/1)",
        "rule call",
        "action REVIEW done",
    ]
    # The same tree from below, and one that goes on where somebody has published the event again.
    assert [line.replace(" this event", "") for line in _tree(ask(site.url(f"/events/{derived}")).text)] == [
        line.replace(" this event", "") for line in tree
    ]
    assert _tree(ask(site.url(f"/events/{again}")).text)[:4] == [
        "event order.placed (orders/1)",
        "correlator vips pushed vip",
        "event order.vip (alerts/1)",
        "published again from alerts/1",
    ]


def _tree(text: str) -> list[str]:
    """The nodes of the tree in the page, from top to bottom."""
    nodes = re.findall(r'<span class="node.*?</span>\n', text, flags=re.S)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", node)).split()) for node in nodes]
