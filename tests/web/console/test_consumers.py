"""Consumers in the browser: see why one is stuck, pause, resume, move with a preview, create. Each change is in the audit."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from headrace.core import UnknownTopic
from headrace.db import Connection, connect
from headrace.log.topics import read_log
from tests.builders import drain
from tests.web.console.conftest import Pages, Running


def audit(site: Running, what: str, subject: str) -> list[dict[str, object]]:
    """The audit events of one kind, oldest first."""
    with connect(site.database) as conn:
        drain(conn)
        try:
            events = read_log(conn, "headrace.audit", limit=10_000, namespace="lab")
        except UnknownTopic:
            # The first change creates it.
            return []
    return [dict(event.payload) for event in events if event.type == what and event.payload["subject"] == subject]  # type: ignore[index, call-overload, arg-type]


def positions(conn: Connection, consumer: str) -> list[int]:
    statement = """select u.position from headrace.cursor u join headrace.consumer c using (consumer_id)
        join headrace.topic t using (topic_id) where t.namespace = 'lab' and c.consumer = %s order by u.partition"""
    return [position for (position,) in conn.execute(statement, (consumer,))]


def test_stuck_consumer_says_why_and_where(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/consumers"))
    row = page.get_by_role("row").filter(has_text="shipping")
    expect(row).to_contain_text("stopped")
    expect(row).to_contain_text("CardError: no truck for")
    row.get_by_role("link", name="shipping").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders/shipping")
    page.get_by_text("Error of partition 0").click()
    expect(page.locator("details[open] pre")).to_contain_text("raise CardError")


def test_idle_consumer_shows_the_command_that_runs_it(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/consumers/orders/reporting"))
    expect(page.get_by_role("region", name="Held by")).to_contain_text("No live node runs this consumer.")
    expect(page.locator("code.command")).to_have_text("headrace node run shop.events:app")


def test_pause_and_resume_with_audit(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/consumers/parcels/sorting", namespace="lab"))
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("consumer parcels/sorting is paused")
    expect(page.locator(".stat .badge")).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status")).to_contain_text("go on")
    expect(page.locator(".stat .badge")).to_have_text("idle")
    page.reload()
    expect(page.get_by_role("status")).to_have_count(0)
    [pause] = audit(site, "consumer.pause", "parcels/sorting")
    assert (pause["who"], pause["before"][0]["state"], pause["after"][0]["state"]) == ("local", "idle", "paused")  # type: ignore[index]
    [resume] = audit(site, "consumer.resume", "parcels/sorting")
    assert (resume["before"][0]["state"], resume["after"][0]["state"]) == ("paused", "idle")  # type: ignore[index]


def test_move_shows_the_preview_first(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/consumers/parcels/loading", namespace="lab"))
    page.get_by_label("To", exact=True).fill("latest")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("0 events will be handled again, 20 will be skipped.")).to_be_visible()
    assert "to=latest" in page.url, "the preview can be shared"
    with connect(site.database) as conn:
        assert positions(conn, "loading") == [0, 0], "the preview moves nothing"
        page.get_by_role("button", name="Move to latest").click()
        expect(page.get_by_role("status")).to_have_text("consumer parcels/loading: 2 cursors moved to latest")
        assert positions(conn, "loading") == [20, 20]
    [seek] = audit(site, "consumer.seek", "parcels/loading")
    assert seek["details"] == {"to": "latest"}
    assert [part["position"] for part in seek["before"]] == [0, 0]  # type: ignore[union-attr, index, call-overload]
    assert [part["position"] for part in seek["after"]] == [20, 20]  # type: ignore[union-attr, index, call-overload]


@pytest.mark.parametrize(("target", "message"), [("tomorrow-ish", "tomorrow-ish"), ("-5", "-5")])
def test_impossible_target_is_an_error_that_says_so(site: Running, open_page: Pages, target: str, message: str) -> None:
    open_page.allowed.append("status of 422")
    page = open_page(site.url("/consumers/parcels/counting", namespace="lab"))
    page.get_by_label("To", exact=True).fill(target)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text(message)


def test_create(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/consumers", namespace="lab"))
    page.get_by_role("link", name="Create consumer").click()
    page.get_by_label("Topic", exact=True).fill("parcels")
    page.get_by_label("Name", exact=True).fill("weighing")
    page.get_by_label("Start").select_option("latest")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_have_text("consumer weighing of topic parcels created")
    with connect(site.database) as conn:
        assert positions(conn, "weighing") == [20, 20]
    assert len(audit(site, "consumer.create", "parcels/weighing")) == 1


def test_settings_are_shown_and_changed(site: Running, open_page: Pages) -> None:
    open_page.allowed.append("status of 422")
    page = open_page(site.url("/consumers/parcels/sorting", namespace="lab"))
    settings = page.get_by_role("region", name="Settings")
    expect(settings).to_contain_text("it is retried for ever")
    change = page.get_by_role("region", name="Change", exact=True)
    change.get_by_label("On failure").select_option("dead-letter")
    change.get_by_label("Attempts").fill("3")
    change.get_by_label("Condition").fill("(object ->> 'weight')::int >")
    change.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("line 1, column")
    change.get_by_label("Condition").fill("(object ->> 'weight')::int > 5")
    change.get_by_role("button").click()
    expect(page.get_by_role("status")).to_have_text("consumer parcels/sorting changed")
    expect(settings).to_contain_text("3 attempts, then the dead letters")
    expect(settings).to_contain_text("(object ->> 'weight')::int > 5")
    [entry] = audit(site, "consumer.alter", "parcels/sorting")
    assert entry["before"] == {"attempts_max": None, "when_exhausted": "stop", "condition": None}
    assert entry["after"] == {"attempts_max": 3, "when_exhausted": "dead_letter", "condition": "(object ->> 'weight')::int > 5"}


def test_mistake_keeps_what_was_typed(site: Running, open_page: Pages) -> None:
    open_page.allowed += ["status of 409", "status of 422"]
    page = open_page(site.url("/consumers/create", namespace="lab"))
    page.get_by_label("Topic", exact=True).fill("parcels")
    page.get_by_label("Name", exact=True).fill("headrace.mine")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("headrace.")
    expect(page.get_by_label("Name", exact=True)).to_have_value("headrace.mine")


def test_change_that_cannot_be_audited_is_undone(site: Running) -> None:
    from headrace.core import Forbidden
    from headrace.web.console.login import User
    from headrace.web.console.view import record_change

    with connect(site.database) as conn:
        conn.execute("set session authorization lab_reader")
        with pytest.raises(Forbidden, match=r"the change was undone.*headrace\.audit"), conn.transaction():
            record_change(conn, User("bob"), "consumer.pause", "parcels/counting", namespace="lab")
