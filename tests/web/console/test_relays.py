"""Relays in the console: what they deliver, pause and resume, and no secret."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.actions import pause
from headrace.db import Connection, Target
from headrace.relays import Relay, create_relay, get_relay
from headrace.web.console import ConsoleSettings
from headrace.web.console.guard import CSRF_COOKIE
from tests.builders import fill, topic
from tests.web.console.conftest import serve
from tests.web.console.test_guard import ask


@pytest.fixture
def address(conn: Connection, database: Target) -> Iterator[str]:
    topic(conn)
    options = {"url": "https://crm.example/<b>hook", "secret": "env:RELAY_CRM"}
    create_relay(conn, Relay(name="crm", topic="orders", target="webhook", options=options, start="earliest"))
    fill(conn, 3)
    with serve([database], ConsoleSettings()) as address:
        yield address


def test_relays_are_listed_shown_paused_and_resumed(address: str, conn: Connection) -> None:
    assert ">crm</a>" in ask(f"{address}/relays").text
    page = ask(f"{address}/relays/crm")
    assert page.status == 200
    assert "orders → webhook" in page.text and "env:RELAY_CRM" in page.text
    assert "<b>hook" not in page.text, "the text of an option is no markup"
    csrf = ask(f"{address}/relays").cookies[CSRF_COOKIE]
    sent = {"method": "POST", "form": {"csrf": csrf, "relay": "crm"}, "headers": {"cookie": f"{CSRF_COOKIE}={csrf}"}}
    assert ask(f"{address}/relays/-/pause", **sent).status == 303  # type: ignore[arg-type]
    assert get_relay(conn, "crm").paused
    assert "Resume" in ask(f"{address}/relays/crm").text
    conn.execute("select headrace.report_relay(relay_id, version, 'disabled', 'answered 410') from headrace.relay")
    assert "answered 410" in ask(f"{address}/relays/crm").text
    assert ask(f"{address}/relays/-/resume", **sent).status == 303  # type: ignore[arg-type]
    assert (get_relay(conn, "crm").paused, get_relay(conn, "crm").status) == (False, "pending")
    assert ask(f"{address}/relays/other").status == 404


def test_relay_says_why_its_consumer_is_paused(address: str, conn: Connection) -> None:
    assert pause(conn, "consumer", "orders/relay.crm", reason="the CRM moves")
    assert "the CRM moves" in ask(f"{address}/relays/crm").text
