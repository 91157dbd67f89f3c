"""Correlators in the browser: the automaton, one key, the stepper; create, edit with its effect on the keys before it is applied."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from headrace.correlators import get_correlator
from headrace.db import connect
from tests.web.console.conftest import Pages, Running, check_looks
from tests.web.console.filling import HOSTILE
from tests.web.console.test_consumers import audit


def test_key_waits_and_stepper_steps(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/correlators/unpaid"))
    expect(page.locator("svg circle").first).to_be_visible()
    expect(page.locator("svg .keys").first).to_contain_text("keys")
    page.get_by_label("Key", exact=True).fill("order-1")
    page.get_by_label("Events to step through").fill('[["order.placed", 0], ["order.placed", 4000]]')
    page.get_by_role("button", name="Show").click()
    key = page.get_by_role("region", name="Key", exact=True)
    expect(key).to_contain_text("Waits for")
    expect(key.get_by_role("listitem").first).to_have_text("order.paid")
    expect(key.locator("ol li")).to_have_text(re.compile(r"^nothing more until \d+ min( \d+ s)? from now → late$"))
    edges = [row.split("\t") for row in page.get_by_role("region", name="Edges").first.locator("tbody tr").all_inner_texts()]
    assert [(edge[1], edge[2], edge[4]) for edge in edges] == [("0", "1", "63"), ("1", "0", "20")]
    expect(page.locator("svg .passed").first).to_have_text(" × 63")
    expect(page.get_by_role("region", name="Steps").first.locator("tbody tr").nth(1)).to_contain_text("late")
    assert page.locator("svg circle.here").count() > 0


def test_create_and_edit_with_the_effect_first(site: Running, open_page: Pages) -> None:
    open_page.allowed += ["status of 409", "status of 422"]
    page = open_page(site.url("/correlators/-/create", namespace="lab"))
    page.get_by_label("Name", exact=True).fill("lost")
    page.get_by_label("Topic", exact=True).select_option("parcels")
    page.get_by_label("Key", exact=True).fill("key")
    page.get_by_label("Outputs").fill("lost=SEARCH")
    page.get_by_label("Pattern").fill(HOSTILE)
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    page.get_by_label("Pattern").fill("repeat {push(lost) {sequential {parcel.sent, parcel.sent}}}")
    page.get_by_role("button", name="Plan").click()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_contain_text("correlator lost created")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Pattern").fill("repeat {push(lost) {parcel.sent}}")
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("note")).to_have_text("0 keys carried, 0 restarted")
    expect(page.locator(".changes del").first).to_contain_text("sequential")
    check_looks(page, "correlator-preview")
    with connect(site.database) as conn:
        assert get_correlator(conn, "lost", namespace="lab").version == 1, "the preview writes nothing"
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_role("status")).to_have_text("correlator lost changed: 0 keys carried, 0 restarted")
        assert get_correlator(conn, "lost", namespace="lab").version == 2
    assert len(audit(site, "correlator.alter", "lost")) == 1
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_have_text("correlator lost is paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status")).to_have_text("correlator lost goes on")
