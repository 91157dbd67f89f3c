"""What all pages share: keyboard, palette, theme, live renewal, work without JavaScript."""

from __future__ import annotations

from playwright.sync_api import expect

from headrace.core import Event
from headrace.db import connect
from headrace.log.outbox import publish_many
from tests.builders import drain
from tests.web.console.conftest import Pages, Running, assert_accessible


def test_keys_go_to_pages_and_show_help(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/topics"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert_accessible(page)
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", level=1)).to_have_text("Consumers")


def test_palette_finds_objects_by_a_part_of_their_name(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/topics"))
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Name of a page").fill("shipp")
    expect(page.get_by_role("listbox", name="Results").get_by_role("option")).to_have_text(["orders/shippingconsumer"])
    assert_accessible(page)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("orders/shipping")


def test_palette_leads_from_an_id_to_its_event_or_action(site: Running, open_page: Pages) -> None:
    with connect(site.database) as conn:
        [event_id] = conn.execute("select event_id from headrace.firing limit 1").fetchone() or [None]
    page = open_page(site.url("/topics"))
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Name of a page").fill(str(event_id))
    expect(page.get_by_role("listbox", name="Results").get_by_role("option")).to_have_text(
        [f"{event_id}event", f"{event_id}action"]
    )
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Timeline")).to_be_visible()


def test_theme_follows_the_system_until_it_is_chosen(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/topics"), scheme="dark")
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(colour)
    page.get_by_role("button", name="Switch between light and dark").click()
    light = page.evaluate(colour)
    assert light != dark
    page.reload()
    assert page.evaluate(colour) == light, "the choice is kept"


def test_open_page_is_renewed_and_rests_while_paused(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/topics", namespace="lab"))
    expect(page.get_by_role("button", name="Live")).to_have_attribute("data-state", "on")
    page.evaluate("document.querySelector('#live table').mark = 'same'")
    events = page.get_by_role("row").filter(has_text="parcels").get_by_role("cell").nth(2)
    before = int(events.inner_text())
    with connect(site.database) as conn:
        publish_many(conn, [Event(topic="parcels", type="parcel.lost") for _ in range(3)], namespace="lab")
        drain(conn)
        expect(events).to_have_text(str(before + 3))
        assert page.evaluate("document.querySelector('#live table').mark") == "same", "the table was changed, not replaced"
        page.get_by_role("button", name="Live").click()
        expect(page.get_by_role("button", name="Paused")).to_have_attribute("aria-pressed", "false")
        publish_many(conn, [Event(topic="parcels", type="parcel.lost")], namespace="lab")
        drain(conn)
    # Two rounds of the server would have passed.
    page.wait_for_timeout(3_000)
    expect(events).to_have_text(str(before + 3))


def test_where_streams_do_not_get_through_the_page_polls(site: Running, open_page: Pages) -> None:
    open_page.allowed.append("ERR_FAILED")
    page = open_page("about:blank")
    page.route("**/*live=stream*", lambda route: route.abort())
    with page.expect_request(lambda request: "live=part" in request.url):
        page.goto(site.url("/topics"))


def test_hidden_tab_asks_for_nothing(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/topics"))
    expect(page.get_by_role("button", name="Live")).to_have_attribute("data-state", "on")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))"
    )
    page.wait_for_timeout(500)
    assert requests == []
    # It goes on when the tab is seen again.
    with page.expect_request(lambda request: "live=stream" in request.url):
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {value: false, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))"
        )


def test_everything_can_be_read_and_changed_without_javascript(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/consumers", namespace="lab"), javascript=False, size="narrow")
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Topics")).to_be_visible()
    page.get_by_role("link", name="counting").click()
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("consumer parcels/counting is paused")
    page.get_by_role("button", name="Resume").click()


def test_menu_opens_on_a_phone(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/topics"), size="narrow")
    links = page.get_by_role("navigation", name="Pages")
    expect(links).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    links.get_by_role("link", name="Nodes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Nodes")
