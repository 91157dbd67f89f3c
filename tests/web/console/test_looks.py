"""Every page looks right, light and dark, on a wide and on a narrow screen, and says what its snapshot says.

The pages are those of a database that no test changes, so the snapshots hold in whatever order the tests run."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from starlette.routing import Route

from headrace.db import connect
from headrace.web.console.app import page_routes
from tests.web.console.conftest import CheckPage, Running

CONDITION = "(object ->> 'total')::int > 300 and key <> 'x'"
PLAN = {
    "rule": "large",
    "plan": "1",
    "topic": "orders",
    "event_type": "order.placed",
    "action": "REVIEW",
    "condition": "(object ->> 'total')::int > 200 and key is not null",
}
GROUP = {
    "kind": "event",
    "source": "orders/mailing",
    "reason": "handler failed",
    "error": "CardError: mailbox of order-# is full",
}
STEPS = '[["order.placed", 0], ["order.paid", 60], ["order.placed", 120], ["order.placed", 4000]]'
PAGES = {
    "now": ("/", "/"),
    "events": ("/events", "/events?topic=orders"),
    "events-filter": ("/events", f"/events?{urlencode({'topic': 'orders', 'where': CONDITION, 'match': 'all', 'show': '87'})}"),
    "events-publish": ("/events/publish", "/events/publish?topic=orders&position=80"),
    "event": ("/events/{event_id}", "/events/{event}"),
    "topics": ("/topics", "/topics"),
    "topic": ("/topics/{topic}", "/topics/orders"),
    "topic-create": ("/topics/create", "/topics/create"),
    "consumers": ("/consumers", "/consumers"),
    "consumer": ("/consumers/{topic}/{consumer}", "/consumers/orders/shipping"),
    "consumer-seek": ("/consumers/{topic}/{consumer}", "/consumers/orders/billing?to=earliest"),
    "consumer-create": ("/consumers/create", "/consumers/create"),
    "rules": ("/rules", "/rules"),
    "rule": ("/rules/{name:path}", "/rules/large"),
    "rule-create": ("/rules/-/create", "/rules/-/create"),
    "rule-edit": ("/rules/-/edit", f"/rules/-/edit?{urlencode(PLAN)}"),
    "correlators": ("/correlators", "/correlators"),
    "correlator": ("/correlators/{name:path}", f"/correlators/unpaid?{urlencode({'key': 'order-1', 'events': STEPS})}"),
    "correlator-create": ("/correlators/-/create", "/correlators/-/create"),
    "correlator-edit": ("/correlators/-/edit", "/correlators/-/edit?correlator=unpaid&plan=now"),
    "schedules": ("/schedules", "/schedules"),
    "schedule": ("/schedules/{name:path}", "/schedules/nightly"),
    "schedule-create": ("/schedules/-/create", "/schedules/-/create"),
    "schedule-edit": ("/schedules/-/edit", "/schedules/-/edit?schedule=nightly"),
    "actions": ("/actions", "/actions"),
    "actions-dead": ("/actions", "/actions?state=dead"),
    "action": ("/actions/{action}", "/actions/{action}"),
    "dead-letters": ("/dead-letters", "/dead-letters"),
    "dead-letters-group": ("/dead-letters/group", f"/dead-letters/group?{urlencode(GROUP)}"),
    "dead-letter": ("/dead-letters/letter/{letter:path}", "/dead-letters/letter/1"),
    "dead-letter-discard": ("/dead-letters/letter/{letter:path}", "/dead-letters/letter/1?discard=1"),
    "dead-letter-event": ("/dead-letters/letter/{letter:path}", "/dead-letters/letter/orders/mailing/15"),
    "nodes": ("/nodes", "/nodes?namespace=lab"),
    "nodes-none": ("/nodes", "/nodes"),
    "relays": ("/relays", "/relays"),
    "relay": ("/relays/{name:path}", "/relays/crm"),
    "relay-create": ("/relays/-/create", "/relays/-/create"),
    "relay-edit": ("/relays/-/edit", "/relays/-/edit?relay=crm&plan=now"),
    "hooks": ("/hooks", "/hooks"),
    "hook": ("/hooks/{hook}", "/hooks/github"),
    "hook-create": ("/hooks/-/create", "/hooks/-/create"),
    "access-tokens": ("/access-tokens", "/access-tokens"),
    "access-token-create": ("/access-tokens/-/create", "/access-tokens/-/create"),
}
"""Name of the snapshot: route and address."""
NOT_A_PAGE = {"/palette", "/login", "/metrics"}


def test_every_page_has_a_snapshot() -> None:
    routes = {route.path for route in page_routes() if isinstance(route, Route) and "GET" in (route.methods or ())}
    assert routes - NOT_A_PAGE == {route for route, _ in PAGES.values()}


@pytest.mark.parametrize("name", PAGES)
def test_page_looks_right_everywhere(untouched_site: Running, check_page: CheckPage, name: str) -> None:
    address = PAGES[name][1]
    if "{" in address:
        with connect(untouched_site.database) as conn:
            row = conn.execute(
                """select f.event_id, f.action_id from headrace.firing f join headrace.log l using (event_id)
                where l.key = 'order-33' and l.type = 'order.paid'"""
            ).fetchone()
        assert row is not None
        address = address.format(event=row[0], action=row[1])
    check_page(untouched_site.address + address, name)
