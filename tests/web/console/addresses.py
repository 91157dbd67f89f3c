"""An address for every page of the console, with objects of one namespace. A page that is missing here fails the tests."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from starlette.routing import Route

from headrace.db import Target, connect
from headrace.web.console.app import page_routes

WITHOUT_DATA = {"/login", "/metrics"}


def page_addresses(database: Target, namespace: str) -> dict[str, str]:
    """The route of each page, with a path and query that shows something of the namespace."""
    with connect(database) as conn:

        def find(statement: str) -> str:
            row = conn.execute(statement, {"namespace": namespace}).fetchone()
            assert row is not None, statement
            return str(row[0])

        own = "namespace = %(namespace)s"
        topic = find(f"select topic from headrace.topic where {own} and topic not like 'headrace.%%' order by topic_id limit 1")
        consumer = find(
            f"""select t.topic || '/' || c.consumer from headrace.event_dead_letter d join headrace.consumer c using (consumer_id)
            join headrace.topic t using (topic_id) where {own} and d.error is not null limit 1"""
        )
        rule = find(f"select rule from headrace.rule_state where {own} order by rule limit 1")
        correlator = find(f"select correlator from headrace.correlator_state where {own} limit 1")
        key = find(
            f"""select i.key from headrace.correlator_instance i join headrace.correlator c using (correlator_id)
            where {own} order by length(i.key) desc limit 1"""
        )
        schedule = find(f"select schedule from headrace.schedule where {own} limit 1")
        event = find(
            f"""select f.event_id from headrace.firing f join headrace.topic t using (topic_id)
            join headrace.action_result r using (action_id) where t.{own} and r.outcome = 'dead' limit 1"""
        )
        action = find(f"select action_id from headrace.action_result where {own} and outcome = 'dead' limit 1")
        letter = find("select min(dead_letter_id) from headrace.action_dead_letters(p_namespace => %(namespace)s)")
        group = conn.execute(
            """select kind, source, name, reason, error_group as error from headrace.count_dead_letters(p_namespace => %(namespace)s)
            where kind = 'action' limit 1""",
            {"namespace": namespace},
        ).fetchone()
    assert group is not None
    words = dict(zip(("kind", "source", "name", "reason", "error"), group, strict=True))
    plan = {
        "plan": "1",
        "rule": rule,
        "topic": topic,
        "event_type": "order.placed",
        "condition": "key is not null",
        "action": "A",
    }
    paths = {
        "/": ("/", {}),
        "/events": ("/events", {"topic": topic}),
        "/events/publish": ("/events/publish", {"topic": topic}),
        "/events/{event_id}": (f"/events/{event}", {}),
        "/topics": ("/topics", {}),
        "/topics/create": ("/topics/create", {}),
        "/topics/{topic}": (f"/topics/{topic}", {}),
        "/consumers": ("/consumers", {}),
        "/consumers/create": ("/consumers/create", {"topic": topic}),
        "/consumers/{topic}/{consumer}": (f"/consumers/{consumer}", {"to": "earliest"}),
        "/rules": ("/rules", {}),
        "/rules/-/create": ("/rules/-/create", {"condition": "true"}),
        "/rules/-/edit": ("/rules/-/edit", plan),
        "/rules/{name:path}": (f"/rules/{quote(rule)}", {}),
        "/correlators": ("/correlators", {}),
        "/correlators/-/create": ("/correlators/-/create", {}),
        "/correlators/{name:path}": (
            f"/correlators/{correlator}",
            {"key": key, "events": '[["order.placed", 0, {"total": 1}]]'},
        ),
        "/correlators/-/edit": ("/correlators/-/edit", {"correlator": correlator, "plan": "now"}),
        "/schedules": ("/schedules", {}),
        "/schedules/-/create": ("/schedules/-/create", {}),
        "/schedules/-/edit": ("/schedules/-/edit", {"schedule": schedule, "plan": "now"}),
        "/schedules/{name:path}": (f"/schedules/{schedule}", {}),
        "/actions": ("/actions", {"state": "ended"}),
        "/actions/{action}": (f"/actions/{action}", {}),
        "/dead-letters": ("/dead-letters", {}),
        "/dead-letters/group": ("/dead-letters/group", {**words, "discard": "1"}),
        "/dead-letters/letter/{letter:path}": (f"/dead-letters/letter/{letter}", {}),
        "/nodes": ("/nodes", {}),
        "/relays": ("/relays", {}),
        "/relays/{name:path}": ("/relays/crm", {}),
        "/relays/-/create": ("/relays/-/create", {}),
        "/relays/-/edit": ("/relays/-/edit", {"relay": "crm", "plan": "now"}),
        "/hooks": ("/hooks", {}),
        "/hooks/-/create": ("/hooks/-/create", {}),
        "/hooks/{hook}": ("/hooks/github", {}),
        "/access-tokens": ("/access-tokens", {}),
        "/access-tokens/-/create": ("/access-tokens/-/create", {}),
        "/palette": ("/palette", {"q": "e"}),
    }
    routes = {route.path for route in page_routes() if isinstance(route, Route) and "GET" in (route.methods or ())}
    assert routes - WITHOUT_DATA == set(paths), "a page without an address, or an address without a page"
    return {
        route: f"{path}?{urlencode({name: value for name, value in {**words, 'namespace': namespace}.items() if value})}"
        for route, (path, words) in paths.items()
    }
