"""Rules in the browser: create and edit with a plan first, pause, versions, trial."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from headrace.db import Target, connect
from headrace.rules import Rule, alter_rule, create_rule, get_rule, list_rules
from headrace.web.console import ConsoleSettings, NoLogin, User
from headrace.web.console.pages import rules
from tests.web.console.conftest import Pages, Running, check_looks, serve
from tests.web.console.filling import SCRIPT
from tests.web.console.test_consumers import audit
from tests.web.console.test_guard import ask

PLAN = {
    "rule": "large",
    "plan": "1",
    "topic": "orders",
    "event_type": "order.placed",
    "action": "REVIEW",
    "condition": "(object ->> 'total')::int > 200 and key is not null",
}


def new_rule(site: Running, name: str, condition: str = "(object ->> 'weight')::int > 10") -> Rule:
    """A rule of namespace lab that no other test uses."""
    rule = Rule(name=name, topic="parcels", event_type="parcel.sent", action="WEIGH", condition=condition)
    with connect(site.database) as conn:
        create_rule(conn, rule, namespace="lab")
    return rule


def test_create_shows_a_plan_before_it_changes_anything(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/rules", namespace="lab"))
    page.get_by_role("link", name="Create rule").click()
    page.get_by_label("Name", exact=True).fill("heavy/parcel one")
    page.get_by_label("Topic", exact=True).select_option("parcels")
    page.get_by_label("Event type").fill("parcel.sent")
    page.get_by_label("Action", exact=True).fill("WEIGH")
    page.get_by_label("Condition").fill("(object ->> 'weight')::int > 14")
    page.get_by_role("button", name="Plan").click()
    plan = page.get_by_role("region", name="Plan")
    expect(plan.get_by_text("Creates rule heavy/parcel one")).to_be_visible()
    # Weights are 0 to 19.
    stats = plan.locator(".stat").all_inner_texts()
    assert [text.split("\n")[-1] for text in stats[:2]] == ["20", "5"]
    with connect(site.database) as conn:
        assert list_rules(conn, name="heavy/parcel one", namespace="lab") == []
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_contain_text("rule heavy/parcel one created")
    expect(page.get_by_role("heading", level=1)).to_have_text("heavy/parcel one")
    with connect(site.database) as conn:
        state = get_rule(conn, "heavy/parcel one", namespace="lab")
    assert (state.rule.condition, state.source) == ("(object ->> 'weight')::int > 14", "sql")
    [change] = audit(site, "rule.create", "heavy/parcel one")
    assert change["before"] is None and change["after"]["condition"] == state.rule.condition  # type: ignore[index]


def test_edit_shows_the_difference_and_the_clause_that_fails(site: Running, open_page: Pages) -> None:
    new_rule(site, "edited")
    page = open_page(site.url("/rules/edited", namespace="lab"))
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Condition").fill("(object ->> 'weight')::int > 17 and key <> 'parcel-19'")
    page.get_by_role("button", name="Plan").click()
    plan = page.get_by_role("region", name="Plan")
    expect(plan.get_by_text("version 1 becomes 2")).to_be_visible()
    assert plan.locator(".changes del").all_inner_texts() == ["10"]
    assert plan.locator(".changes ins").all_inner_texts() == ["17 and key <> 'parcel-19'"]
    names = [text.split("\n") for text in plan.locator(".stat").all_inner_texts()]
    assert {name: int(count) for name, count in names} == {
        "Events of type parcel.sent": 20,
        "Would fire": 1,
        "Fires now": 9,
        "New": 0,
        "No more": 8,
        "Unknown": 0,
    }
    row = plan.locator("table.trial-events tbody tr").first.inner_text().split("\t")
    assert [text.strip() for text in (row[2], row[3], row[4])] == ["parcel-19", "false", "fires no more"]
    assert row[5].startswith("key <> 'parcel-19'")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_contain_text("rule edited changed")
    versions = page.get_by_role("region", name="Versions")
    expect(versions.get_by_text("Version 2")).to_be_visible()
    expect(versions.locator("del")).to_have_text(["10"])
    [change] = audit(site, "rule.alter", "edited")
    assert (change["before"]["version"], change["after"]["version"]) == (1, 2)  # type: ignore[index]


def test_backtest_beside_the_edit_reads_the_whole_past(site: Running, open_page: Pages) -> None:
    new_rule(site, "backtested")
    page = open_page(site.url("/rules/-/edit", namespace="lab", rule="backtested"))
    page.get_by_label("Condition").fill("(object ->> 'weight')::int > 17 or key = 'parcel-0'")
    page.get_by_role("button", name="Plan").click()
    page.get_by_role("form", name="Backtest").get_by_role("button").click()
    result = page.get_by_role("region", name="Result of the backtest")
    expect(result.get_by_text("done")).to_be_visible()
    assert [int(text.split("\n")[1]) for text in result.locator(".stat").all_inner_texts()] == [20, 3, 9, 1, 7, 0]
    days = page.get_by_role("region", name="By day").first.locator("tbody tr td").all_inner_texts()
    assert days[1:] == ["20", "3", "9", "1", "7"]
    changes = page.get_by_role("region", name="Newest events whose answer changes").first.locator("tbody tr")
    expect(changes).to_have_count(8)
    assert [text.strip() for text in changes.last.inner_text().split("\t")][2:] == ["parcel-0", "new"]
    # The page that has shown the progress still has the button Live.
    page.reload()
    check_looks(page, "rule-backtest")
    # The address holds the whole view; another start is another backtest.
    page.goto(page.url.split("#")[0].replace("backtest=earliest", "backtest=11"))
    expect(result.get_by_text("done")).to_be_visible()
    # Other tests may have added events of other types.
    expect(result.locator(".stat").first).to_have_text(re.compile(r"Events of its type\s*10"))
    with connect(site.database) as conn:
        assert get_rule(conn, "backtested", namespace="lab").version == 1


def test_backtest_that_nobody_watches_ends(site: Running, open_page: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "WINDOW", 1)
    monkeypatch.setattr(rules, "UNWATCHED_S", 0.0)
    new_rule(site, "left")
    address = {
        **PLAN,
        "rule": "left",
        "topic": "parcels",
        "event_type": "parcel.sent",
        "condition": "true",
        "backtest": "earliest",
    }
    page = open_page(site.url("/rules/-/edit", namespace="lab", **address))
    expect(page.get_by_text("It ended because nobody had this page open.")).to_be_visible()


def test_plan_that_is_out_of_date_is_not_applied(site: Running, open_page: Pages) -> None:
    open_page.allowed += ["status of 409", "status of 422"]
    rule = new_rule(site, "raced")
    page = open_page(
        site.url("/rules/-/edit", namespace="lab", **{**PLAN, "rule": "raced", "topic": "parcels", "condition": "false"})
    )
    with connect(site.database) as conn:
        changed = Rule(**{**rule.__dict__, "condition": "true"})
        alter_rule(conn, changed, namespace="lab")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("it has version 2, the plan was made for 1")
    with connect(site.database) as conn:
        assert get_rule(conn, "raced", namespace="lab").rule.condition == "true"
    # The plan was made again: it can be applied now.
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_contain_text("rule raced changed")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("condition", "(object ->> 'total')::int >", "line 1, column"),
        ("condition", f"key = '{SCRIPT}", "line 1, column"),
        ("rule", "9 lives", "name"),
        ("priority", "many", "priority must be a whole number"),
        ("topic", "nowhere", "nowhere"),
    ],
)
def test_mistake_is_explained_and_what_was_typed_stays(
    site: Running, open_page: Pages, field: str, value: str, message: str
) -> None:
    words = {**PLAN, "rule": "mistaken", "topic": "parcels", field: value}
    # The browser itself warns of a word in a field for numbers.
    open_page.allowed.append("cannot be parsed")
    page = open_page(site.url("/rules/-/create", namespace="lab", **words))
    expect(page.get_by_role("alert")).to_contain_text(message)
    expect(page.get_by_role("region", name="Plan")).to_have_count(0)
    if field == "condition":
        expect(page.get_by_label("Condition")).to_have_value(value)
    assert page.evaluate("window.hacked") is None


def test_pause_holds_and_resume_goes_on(site: Running, open_page: Pages) -> None:
    new_rule(site, "paused one")
    page = open_page(site.url("/rules/paused%20one", namespace="lab"))
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_contain_text("rule paused one is paused")
    expect(page.get_by_text("Paused by postgres")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status")).to_contain_text("rule paused one goes on")
    [pause], [resume] = audit(site, "rule.pause", "paused one"), audit(site, "rule.resume", "paused one")
    assert (pause["before"]["state"], pause["after"]["state"]) == ("pending", "paused")  # type: ignore[index]
    assert resume["after"]["state"] == "pending"  # type: ignore[index]


def test_dropped_rule_keeps_its_history(site: Running) -> None:
    new_rule(site, "dropped")
    with connect(site.database) as conn:
        conn.execute("delete from headrace.rule where namespace = 'lab' and rule = 'dropped'")
    answer = ask(site.url("/rules/dropped", namespace="lab"))
    assert answer.status == 200 and "This rule was dropped" in answer.text


def test_trial_and_versions_are_exported(site: Running) -> None:
    trial = json.loads(ask(site.url("/rules/large", format="json", table="trial")).text)
    assert (trial[0]["position"], trial[0]["answer"], trial[0]["failing"]) == (89, "unknown", "(object ->> 'total')::int > 300")
    [version] = json.loads(ask(site.url("/rules/large", format="json", table="versions")).text)
    assert (version["version"], version["condition"]) == (1, "(object ->> 'total')::int > 300")
    assert len(ask(site.url("/rules/-/edit", **PLAN, format="csv", table="trial")).text.splitlines()) == 16


def test_firings_are_listed_and_exported(site: Running) -> None:
    rows = json.loads(ask(site.url("/rules/large", format="json")).text)
    assert len(rows) == 19
    assert {row["action"] for row in rows} == {"REVIEW"}


def test_reader_plans_and_does_not_apply(filled: Target) -> None:
    settings = ConsoleSettings(login=NoLogin(User("eve", "lab_reader", read_only=True)))
    with serve([filled], settings) as address:
        site = Running(address, filled)
        words = {**PLAN, "rule": "never", "topic": "parcels", "event_type": "parcel.sent", "condition": "true"}
        answer = ask(site.url("/rules/-/create", namespace="lab", **words))
        assert answer.status == 200
        assert "Would fire" in answer.text and 'action="/rules/-/apply' not in answer.text
        assert "parcels" not in ask(site.url("/rules/large")).text
