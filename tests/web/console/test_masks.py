"""Hidden fields of payloads are nowhere: in no page, export, stream, diff, trial, or answer of a condition."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, urlencode, urlsplit

import pytest

from headrace import Headrace
from headrace.actions import send_action
from headrace.core import Invalid
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import Target, connect
from headrace.log.topics import create_topic
from headrace.testing import Kit
from headrace.web.console import ConsoleSettings, NoLogin, User
from headrace.web.console.guard import CSRF_COOKIE
from headrace.web.console.texts import MASK, hidden_fields, mask_payload
from tests.builders import drain
from tests.web.console.addresses import page_addresses
from tests.web.console.conftest import Databases, serve
from tests.web.console.test_guard import ask

SECRETS = ("4111 1111 1111 1111", "4111%201111", "@x.example")
MASKS = {"**.card": ["lab_admin"], "customer.email": ["lab_admin"]}


def test_masks_hide_fields_by_path_and_role() -> None:
    masks = {"card": ["fraud"], "customer.email": [], "items.price": ["fraud"], "**.secret": []}
    payload = {
        "card": {"number": "4111"},
        "customer": {"email": "a@x.example", "name": "Ada"},
        "items": [{"price": 3, "name": "tea"}, {"price": 4}],
        "deep": {"er": [{"secret": 1, "open": 2}]},
        "secret": 5,
    }
    assert mask_payload(payload, hidden_fields(masks, None)) == {
        "card": MASK,
        "customer": {"email": MASK, "name": "Ada"},
        "items": [{"price": MASK, "name": "tea"}, {"price": MASK}],
        "deep": {"er": [{"secret": MASK, "open": 2}]},
        "secret": MASK,
    }
    seen = mask_payload(payload, hidden_fields(masks, "fraud"))
    assert seen["card"] == {"number": "4111"} and seen["items"] == payload["items"] and seen["secret"] == MASK  # type: ignore[index, call-overload]


def test_mask_names_a_field_whatever_its_name_is_and_never_nothing() -> None:
    hidden = hidden_fields({'["a.b"].c': []}, None)
    assert mask_payload({"a.b": {"c": 1}, "a": {"b": {"c": 2}}}, hidden) == {"a.b": {"c": MASK}, "a": {"b": {"c": 2}}}
    for path in ("", "card..number", "items[0]"):
        with pytest.raises(Invalid):
            ConsoleSettings(masks={path: []})


def test_audit_shows_no_more_than_the_payload_it_is_about() -> None:
    hidden = hidden_fields({"customer.email": []}, None)
    change = {"before": {"payload": {"customer": {"email": "a@x.example"}}}, "after": {"payload": {"customer": {"email": "b"}}}}
    assert mask_payload(change, hidden) == {
        "before": {"payload": {"customer": {"email": MASK}}},
        "after": {"payload": {"customer": {"email": MASK}}},
    }


@pytest.fixture(scope="module")
def masked(databases: Databases) -> Iterator[tuple[str, Target]]:
    """A console for somebody who sees neither cards nor addresses of mail."""
    database = databases.filled
    with serve([database], ConsoleSettings(masks=MASKS, login=NoLogin(User("eve")))) as address:
        yield address, database


def first_message(url: str) -> str:
    """The first event of a stream."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request("GET", f"{parts.path}?{parts.query}")
    response = connection.getresponse()
    lines: list[str] = []
    while not (lines and lines[-1] == "\n" and any(line.startswith("data:") for line in lines)):
        lines.append(response.readline().decode())
        assert lines[-1], "the stream ended"
    connection.close()
    return "".join(lines)


def views(route: str, address: str) -> Iterator[str]:
    """A page, its live part, and the exports of its tables."""
    yield address
    yield f"{address}&live=part"
    tables = {"/events/{event_id}": ("timeline", "rules"), "/dead-letters/group": ("letters",)}.get(route, ("",))
    for table in tables:
        yield f"{address}&format=json&table={table}"
        yield f"{address}&format=csv&table={table}"


def assert_no_secret(text: str, where: str) -> None:
    for secret in SECRETS:
        assert secret not in text, f"{secret} in {where}"


def test_hidden_fields_are_in_no_page_and_no_export(masked: tuple[str, Target]) -> None:
    address, database = masked
    addresses = page_addresses(database, "default")
    for route, path in addresses.items():
        for view in views(route, path):
            answer = ask(address + view)
            assert answer.status == 200, view
            assert_no_secret(answer.text, view)
    shown = ask(f"{address}/events?topic=orders&type=order.paid&format=json").text
    assert {row["payload"]["card"] for row in json.loads(shown)} == {MASK}
    assert MASK in ask(address + addresses["/dead-letters/group"]).text
    with serve([database], ConsoleSettings(masks=MASKS, login=NoLogin(User("ada")))) as other:
        assert "@x.example" not in ask(f"{other}/events?topic=orders").text
    with serve([database]) as whole:
        assert "@x.example" in ask(f"{whole}/events?topic=orders").text, "without masks it is shown, so this test can fail"


def test_hidden_fields_are_in_no_stream(masked: tuple[str, Target]) -> None:
    address, database = masked
    addresses = page_addresses(database, "default")
    for route in ("/events", "/events/{event_id}", "/dead-letters/group", "/actions"):
        message = first_message(f"{address}{addresses[route]}&live=stream")
        assert "event: live" in message
        assert_no_secret(message, f"the stream of {route}")


def test_no_condition_tells_what_is_hidden(masked: tuple[str, Target]) -> None:
    address, _ = masked
    guess = "object ->> 'card' like '4111%'"
    where = urlencode({"topic": "orders", "type": "order.paid", "where": guess, "format": "json"})
    assert json.loads(ask(f"{address}/events?{where}").text) == []
    plan = {"rule": "charge", "plan": "1", "topic": "orders", "event_type": "order.paid", "action": "CHARGE", "condition": guess}
    page = ask(f"{address}/rules/-/edit?{urlencode(plan)}").text
    assert_no_secret(page.replace(quote(guess), ""), "the trial")
    assert ">0<" in page.replace(" ", "").replace("\n", ""), "no event is said to match"


def test_who_does_not_see_a_field_cannot_edit_or_republish(masked: tuple[str, Target]) -> None:
    address, database = masked
    letter = page_addresses(database, "default")["/dead-letters/letter/{letter:path}"]
    csrf = ask(f"{address}/topics").cookies[CSRF_COOKIE]
    headers = {"cookie": f"{CSRF_COOKIE}={csrf}"}
    for step in ("diff", "save"):
        form = {"csrf": csrf, "payload": '{"card": "mine"}', "step": step}
        answer = ask(address + letter.replace("/letter/", "/edit/"), method="POST", form=form, headers=headers)
        assert answer.status == 422 and "hidden from you" in answer.text
        assert_no_secret(answer.text, "the edit")
    [event, *_] = json.loads(ask(f"{address}/events?topic=orders&type=order.paid&format=json").text)
    answer = ask(f"{address}/events/publish?topic=orders&position={event['position']}")
    assert_no_secret(answer.text, "the form to publish again")


def test_audit_of_an_edit_hides_what_the_letter_hides(database: Target) -> None:
    with connect(database) as conn:
        send_action(conn, "MAIL", {"customer": {"email": "a@x.example"}})
        conn.execute("select headrace.bury_actions(array_agg(msg_id), 'failed', 'no') from pgmq.q_hr_default")
        [number] = conn.execute("select max(dead_letter_id) from headrace.action_dead_letters()").fetchone() or [0]
    with serve([database]) as whole:
        csrf = ask(f"{whole}/topics").cookies[CSRF_COOKIE]
        form = {"csrf": csrf, "payload": '{"customer": {"email": "b@x.example"}}', "step": "save"}
        answer = ask(f"{whole}/dead-letters/edit/{number}", method="POST", form=form, headers={"cookie": f"{CSRF_COOKIE}={csrf}"})
        assert answer.status == 303
    with connect(database) as conn:
        drain(conn)
    with serve([database], ConsoleSettings(masks=MASKS)) as masked_console:
        for path in (
            "/events?topic=headrace.audit",
            "/events?topic=headrace.audit&format=json",
            f"/dead-letters/letter/{number}",
        ):
            answer = ask(masked_console + path)
            assert answer.status == 200 and (MASK in answer.text or "\\u2022" in answer.text), path
            assert_no_secret(answer.text, path)


def test_plan_of_a_relay_tells_nothing_about_what_is_hidden(masked: tuple[str, Target]) -> None:
    """Neither how many events a typed condition picks, nor how long the messages of a typed mapping are."""
    address, _ = masked
    relay = {
        "plan": "1",
        "relay": "spy",
        "topic": "orders",
        "target": "webhook",
        "options": '{"url": "https://crm.example/hook"}',
    }
    pages = set()
    for guess in ("4111%", "5222%"):
        words = {
            **relay,
            "format": "template",
            "mapping": '{"a": "$.payload.card"}',
            "condition": f"object ->> 'card' like '{guess}'",
        }
        answer = ask(f"{address}/relays/-/create?{urlencode(words)}")
        assert answer.status == 200 and "hidden for your role" in answer.text
        pages.add(re.sub(r'name="csrf" value="[^"]*"', "", answer.text.replace(guess, "").replace(quote(guess), "")))
    assert len(pages) == 1, "the answer does not depend on the guess"


def test_correlators_show_nothing_of_what_is_hidden(database: Target) -> None:
    """Neither values that a pattern keeps nor keys that are computed from hidden fields, here and where its outputs are shown."""
    pattern = (
        "capture card = object ->> 'card'; repeat {push(seen) {sequential {order.paid as p, order.paid and <card = p.card>}}}"
    )
    with Kit(database) as kit:
        create_topic(kit.conn, "orders")
        # A token without an output is recorded all the same. The key of an action or event is shown to whoever sees the queue or topic.
        for name, key, outputs in (("kept", "key", {"seen": ActionOutput(action="CHECK")}), ("keyed", "object ->> 'card'", {})):
            create_correlator(kit.conn, Correlator(name=name, topic="orders", pattern=pattern, key=key, outputs=outputs))
        kit.run_until_idle_sync(Headrace())
        events = [kit.publish("orders", "order.paid", {"card": "4111 1111 1111 1111"}, key="a") for _ in range(3)]
        kit.run_until_idle_sync(Headrace())
        actions = [row[0] for row in kit.conn.execute("select action_id from headrace.queued_actions()").fetchall()]
    assert len(actions) == 1
    pages = ["/correlators/kept?key=a", f"/correlators/keyed?key={quote('4111 1111 1111 1111')}"]
    pages += [f"/events/{event}?x=1" for event in events] + [f"/actions/{action}?x=1" for action in actions]
    pages += ["/actions?x=1", "/?x=1", "/correlators?x=1"]
    with serve([database], ConsoleSettings(masks=MASKS, login=NoLogin(User("eve", read_only=True)))) as address:
        for page in pages:
            for view in (page, f"{page}&format=json", f"{page}&format=csv", f"{page}&live=part"):
                answer = ask(address + view)
                assert answer.status == 200, view
                assert_no_secret(answer.text.replace(quote("4111 1111 1111 1111"), ""), view)
        assert MASK in ask(f"{address}/correlators/kept?key=a").text
        for guess in ("4111 1111 1111 1111", "5"):
            page = ask(f"{address}/correlators/keyed?key={quote(guess)}").text
            assert 'aria-label="Key"' not in page and "Keys are not shown" in page, "no key can be looked at, known or not"
    with serve([database]) as whole:
        assert "4111 1111" in ask(f"{whole}/correlators/kept?key=a").text, "without masks it is shown, so this test can fail"
