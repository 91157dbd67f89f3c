"""Events in the browser: the live end, filters, positions and times, publish, copies, exports, archive."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from headrace.db import Connection, Target, connect
from headrace.log.topics import create_topic, read_log
from headrace.web.console import ConsoleSettings, NoLogin, User
from headrace.web.console.pages import event_search
from tests.builders import drain
from tests.log.archive.builders import archive_orders, drop, three_days
from tests.web.console.conftest import Pages, Running, serve
from tests.web.console.filling import HOSTILE
from tests.web.console.test_consumers import audit
from tests.web.console.test_guard import ask

CONDITION = "(object ->> 'total')::int > 300 and key <> 'x'"
DIGITS = "123456789012345678901234567890.10"


def publish(site: Running, kind: str, payload: str, *, topic: str = "parcels", key: str | None = None) -> None:
    """Publishes in namespace lab, and sequences."""
    with connect(site.database) as conn:
        statement = "select headrace.publish(%s, %s, %s::jsonb, p_key => %s, p_namespace => 'lab')"
        conn.execute(statement, (topic, kind, payload, key))
        drain(conn)


def new_topic(site: Running, name: str, count: int = 0) -> str:
    """A topic of namespace lab that no other test uses, with numbered events."""
    with connect(site.database) as conn:
        create_topic(conn, name, namespace="lab")
        statement = "select headrace.publish(%s, 'n', jsonb_build_object('n', n), p_key => 'k' || n, p_namespace => 'lab') from generate_series(1, %s) n"
        conn.execute(statement, (name, count))
        drain(conn)
    return name


def exported(site: Running, **parameters: str) -> list[dict[str, object]]:
    answer = ask(site.url("/events", format="json", **parameters))
    assert answer.status == 200
    rows: list[dict[str, object]] = json.loads(answer.text)
    return rows


def shown_positions(page: Page) -> list[int]:
    texts = page.locator("table.events > tbody > tr > td.num").all_inner_texts()
    return [int(text.replace("\u202f", "")) for text in texts]


def follow(page: Page, name: str) -> None:
    """Clicks on a link and waits for its page."""
    with page.expect_navigation():
        page.get_by_role("link", name=name).click()


def test_page_without_topic_goes_to_the_newest_one(site: Running) -> None:
    answer = ask(site.url("/events"))
    assert (answer.status, answer.headers["location"]) == (303, "/events?topic=orders")


def test_tail_shows_new_events_until_it_is_paused(site: Running, open_page: Pages) -> None:
    topic = new_topic(site, "tail", 3)
    page = open_page(site.url("/events", topic=topic, namespace="lab"))
    assert shown_positions(page) == [3, 2, 1]
    publish(site, "n", "{}", topic=topic, key="fourth")
    expect(page.get_by_role("cell", name="fourth")).to_be_visible()
    assert shown_positions(page) == [4, 3, 2, 1]
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="Paused")).to_have_attribute("aria-pressed", "false")
    publish(site, "n", "{}", topic=topic, key="fifth")
    assert exported(site, topic=topic, namespace="lab")[0]["key"] == "fifth"
    assert shown_positions(page) == [4, 3, 2, 1]
    page.get_by_role("button", name="Paused").click()
    expect(page.get_by_role("cell", name="fifth")).to_be_visible()


def test_filter_is_in_the_url_and_shows_the_value_of_every_clause(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/events", topic="orders"))
    page.get_by_label("Type").fill("order.placed")
    page.keyboard.press("Escape")
    page.get_by_label("Condition").fill(CONDITION)
    with page.expect_navigation():
        page.get_by_role("button", name="Search").click()
    assert "type=order.placed" in page.url and "where=" in page.url
    # Totals are 20, 27, … 433: above 300 are 19 of them.
    assert len(shown_positions(page)) == 19
    page.get_by_label("Show").select_option("all")
    page.wait_for_url(re.compile("match=all"))
    follow(page, "Open event 56")
    clauses = page.locator("table.clauses tbody tr").all_inner_texts()
    assert [text.split("\t") for text in clauses] == [
        [CONDITION, "false"],
        ["(object ->> 'total')::int > 300", "false"],
        ["(object ->> 'total')::int", "293"],
        ["key <> 'x'", "true"],
        ["key", "'order-39'"],
    ]
    # The same address shows the same view to somebody else.
    again = open_page(page.url)
    expect(again.locator("table.clauses tbody tr")).to_have_count(5)


def test_key_and_type_select_events(site: Running) -> None:
    rows = exported(site, topic="orders", key="order-9")
    assert [row["type"] for row in rows] == ["order.cancelled", "order.paid", "order.placed"]
    rows = exported(site, topic="orders", key="order-9", type="order.paid, order.cancelled")
    assert [row["type"] for row in rows] == ["order.cancelled", "order.paid"]


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"where": "(object ->> 'total')::int >"}, "line 1, column"),
        ({"from": "next full moon"}, "next full moon"),
        ({"from": "9" * 30}, "there is no position"),
    ],
)
def test_mistake_in_the_filter_is_explained_and_kept(
    site: Running, open_page: Pages, parameter: dict[str, str], message: str
) -> None:
    page = open_page(site.url("/events", topic="orders", **parameter))
    expect(page.get_by_role("alert")).to_contain_text(message)
    for name, value in parameter.items():
        expect(page.locator(f"input[name={name}]")).to_have_value(value)


def test_unknown_topic_is_explained(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/events", topic="nowhere"))
    expect(page.get_by_role("alert")).to_contain_text("nowhere")


def test_from_a_position_or_time_reads_forward_without_gap_or_repetition(site: Running, open_page: Pages) -> None:
    topic = new_topic(site, "forward", 120)
    page = open_page(site.url("/events", topic=topic, namespace="lab", **{"from": "11"}))
    seen = shown_positions(page)
    assert seen == list(range(11, 61))
    follow(page, "Later")
    seen += shown_positions(page)
    follow(page, "Later")
    seen += shown_positions(page)
    assert seen == list(range(11, 121))
    rows = exported(site, topic=topic, namespace="lab")
    # All were sequenced at one time: its first event is the first of the topic.
    at = str(rows[0]["appended_at"])
    assert [row["position"] for row in exported(site, topic=topic, namespace="lab", **{"from": at})] == list(range(1, 51))
    assert exported(site, topic=topic, namespace="lab", **{"from": "tomorrow"}) == []


def test_older_pages_go_back_without_gap_or_repetition(site: Running, open_page: Pages) -> None:
    topic = new_topic(site, "backward", 120)
    page = open_page(site.url("/events", topic=topic, namespace="lab"))
    seen = shown_positions(page)
    for _ in range(2):
        follow(page, "Older")
        seen += shown_positions(page)
    assert seen == list(range(120, 0, -1))
    expect(page.get_by_text("to the first event")).to_be_visible()
    follow(page, "Newest")
    assert shown_positions(page)[0] == 120


def test_position_at_a_time_is_the_first_one_at_or_after_it(site: Running) -> None:
    topic = new_topic(site, "times", 0)
    for number in range(7):
        publish(site, "n", "{}", topic=topic, key=f"k{number}")
    rows = exported(site, topic=topic, namespace="lab")[::-1]
    for row in rows:
        events = exported(site, topic=topic, namespace="lab", **{"from": str(row["appended_at"])})
        assert events[0]["appended_at"] == row["appended_at"]
        assert [event["position"] for event in events] == list(range(int(str(events[0]["position"])), 8))


def test_rare_events_are_searched_in_limited_steps(site: Running, open_page: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = new_topic(site, "rare", 30)
    monkeypatch.setattr(event_search, "SEARCH_S", -1.0)
    monkeypatch.setattr(event_search, "FIRST_WINDOW", 10)
    page = open_page(site.url("/events", topic=topic, namespace="lab", key="k2"))
    expect(page.get_by_text("No event passes the filter so far.")).to_be_visible()
    expect(page.get_by_text("0 of 10 events searched, back to position 21")).to_be_visible()
    follow(page, "Search further")
    expect(page.get_by_text("0 of 10 events searched, back to position 11")).to_be_visible()
    follow(page, "Search further")
    assert shown_positions(page) == [2]
    expect(page.get_by_text("to the first event")).to_be_visible()


def test_large_events_end_a_search_early(site: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty events of 1 MB must not be read for one page."""
    topic = new_topic(site, "heavy", 0)
    with connect(site.database) as conn:
        conn.execute(
            """select headrace.publish('heavy', 'n', jsonb_build_object('blob', repeat('x', 100000)), p_namespace => 'lab')
               from generate_series(1, 60)"""
        )
        drain(conn)
    monkeypatch.setattr(event_search, "SEARCH_S", -1.0)
    monkeypatch.setattr(event_search, "LARGE_BYTES", 1_000_000)
    rows = exported(site, topic=topic, namespace="lab")
    assert [row["position"] for row in rows] == list(range(60, 60 - len(rows), -1))
    assert 10 <= len(rows) < 50


def test_numbers_are_exact_everywhere(site: Running, open_page: Pages) -> None:
    topic = new_topic(site, "exact", 0)
    publish(site, "n", f'{{"amount": {DIGITS}, "zero": 1.00}}', topic=topic, key="exact")
    page = open_page(site.url("/events", topic=topic, namespace="lab", show="1", where=f"object ->> 'amount' = '{DIGITS}'"))
    expect(page.get_by_role("region", name="Payload")).to_contain_text(f'"amount": {DIGITS}')
    expect(page.locator("table.clauses")).to_contain_text(f"'{DIGITS}'")
    assert f'"amount":{DIGITS}' in ask(site.url("/events", topic=topic, namespace="lab", format="json")).text
    [row] = csv.DictReader(io.StringIO(ask(site.url("/events", topic=topic, namespace="lab", format="csv")).text))
    assert f'"amount":{DIGITS}' in row["payload"]
    page.get_by_role("link", name="Publish again").click()
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("published to exact")
    with connect(site.database) as conn:
        drain(conn)
        statement = "select l.payload::text, l.headers ->> 'headrace-replay' from headrace.log l where l.topic_id = headrace.topic_id('exact', 'lab') order by l.position"
        texts = conn.execute(statement).fetchall()
    assert texts[0][0] == texts[1][0] == f'{{"zero": 1.00, "amount": {DIGITS}}}'
    assert (texts[0][1], texts[1][1]) == (None, "exact/1")


def test_publish_writes_one_event_and_its_audit(site: Running, open_page: Pages) -> None:
    open_page.allowed += ["status of 409", "status of 422"]
    topic = new_topic(site, "letters.new", 0)
    page = open_page(site.url("/events/publish", topic=topic, namespace="lab"))
    page.get_by_label("Type").fill("letter.sent")
    page.get_by_label("Key", exact=True).fill(HOSTILE[:50])
    page.get_by_label("Payload").fill('{"text": }')
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("payload")
    expect(page.get_by_label("Payload")).to_have_value('{"text": }')
    page.get_by_label("Payload").fill('{"text": "hello"}')
    names = ("csrf", "id", "topic", "type", "key", "payload", "headers")
    form = {name: page.locator(f".form [name={name}]").input_value() for name in names}
    sent_twice = form["id"]
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text(f"event {sent_twice} published to {topic}")
    expect(page.get_by_text("Waits in the outbox for the sequencer")).to_be_visible()
    # The form sent once more gives the same event.
    again = page.request.post(site.url("/events/publish", namespace="lab"), form=form, max_redirects=0)
    assert again.status == 303
    with connect(site.database) as conn:
        drain(conn)
        [event] = read_log(conn, topic, namespace="lab")
    assert (event.type, event.key, event.payload, event.producer) == (
        "letter.sent",
        HOSTILE[:50],
        {"text": "hello"},
        "headrace console",
    )
    changes = audit(site, "event.publish", topic)
    assert changes[0]["details"] == {"topic": topic, "event_id": sent_twice, "type": "letter.sent", "key": HOSTILE[:50]}


def test_copies_are_quoted_for_their_language(site: Running, open_page: Pages) -> None:
    key = "o'k; rm -rf / $(x)"
    page = open_page(site.url("/events", topic="orders", key=key, where=CONDITION))
    page.get_by_text("Copy as", exact=True).click()
    texts = {
        label: page.locator(f"button[aria-label='Copy as {label}']").get_attribute("data-copy")
        for label in ("SQL", "Python", "curl", "Shell")
    }
    with connect(site.database) as conn:
        assert conn.execute(str(texts["SQL"]).encode()).fetchall() == []
        names: dict[str, object] = {"conn": conn}
        exec(str(texts["Python"]), names)
    assert names["events"] == []
    assert "'o''k; rm -rf / $(x)'" in str(texts["SQL"])
    assert """'o'"'"'k; rm -rf / $(x)'""" in str(texts["Shell"])
    assert str(texts["curl"]).startswith("curl 'http://127.0.0.1:")


def test_copied_sql_finds_the_same_events(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/events", topic="orders", type="order.placed", where=CONDITION))
    text = page.locator("button[aria-label='Copy as SQL']").get_attribute("data-copy")
    with connect(site.database) as conn:
        rows = conn.execute(str(text).encode()).fetchall()
    assert [row[0] for row in rows] == shown_positions(page)


@pytest.mark.parametrize("position", [87, 88, 89])
def test_hostile_events_are_shown_as_text(site: Running, open_page: Pages, position: int) -> None:
    page = open_page(site.url("/events", topic="orders", show=str(position), where="true"))
    expect(page.get_by_role("region", name="Payload")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    text = page.locator("main").inner_text()
    assert not set(text) & set("\x1b\u202e\u200b")


def test_hidden_fields_are_hidden_from_conditions_too(filled: Target) -> None:
    """A person who must not see the card could else find it digit by digit."""
    settings = ConsoleSettings(login=NoLogin(User("eve", "postgres")), masks={"card": ["auditor"]})
    with serve([filled], settings) as address:
        site = Running(address, filled)
        rows = exported(site, topic="orders", type="order.paid")
        assert {row["payload"]["card"] for row in rows} == {"•••"}  # type: ignore[index]
        assert exported(site, topic="orders", where="object ->> 'card' like '4%'") == []
        page = ask(site.url("/events", topic="orders", where="object ->> 'card' <> ''", show=str(rows[0]["position"]))).text
        assert "4111 1111" not in page and "•••" in page
        assert "4111 1111" not in ask(site.url(f"/events/{rows[0]['event_id']}")).text
        assert ask(site.url("/events/publish", topic="orders", position=str(rows[0]["position"]))).status == 403


def test_page_reads_without_javascript(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/events", topic="orders"), javascript=False)
    page.get_by_role("link", name="Open event 86").click()
    expect(page.get_by_role("region", name="Payload")).to_contain_text("changed my mind")


def test_archive_and_log_are_one(database: Target, conn: Connection, tmp_path: Path) -> None:
    three_days(conn)
    archive_orders(conn, database, tmp_path, days=8)
    drop(conn, days=7)
    with serve([database]) as address:
        site = Running(address, database)
        assert [row["position"] for row in exported(site, topic="orders")] == list(range(40, 0, -1))
        assert [row["position"] for row in exported(site, topic="orders", **{"from": "5"})] == list(range(5, 41))
        assert [row["position"] for row in exported(site, topic="orders", before="31", type="paid")] == list(range(30, 0, -3))
        page = ask(site.url("/events", topic="orders")).text
        counts = re.search(r"(\d+) in the log, (\d+) older in the archive", " ".join(page.split()))
        assert counts and (counts[1], counts[2]) == ("10", "30")
        [first] = exported(site, topic="orders", where="(object -> 'n')::int = 1")
        event = ask(site.url(f"/events/{first['event_id']}", topic="orders", position="1"))
        assert (
            event.status == 200
            and "it is shown from the archive" in event.text
            and "123456789012345678901234567890" in event.text
        )
        assert ask(site.url(f"/events/{first['event_id']}")).status == 404
        assert ask(site.url("/events/publish", topic="orders", position="1")).status == 200
