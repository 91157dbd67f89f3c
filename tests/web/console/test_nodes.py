"""Nodes, pipelines and shards in the browser."""

from __future__ import annotations

from playwright.sync_api import expect

from headrace.db import connect
from headrace.node import list_nodes
from tests.web.console.conftest import Pages, Running
from tests.web.console.test_consumers import audit


def test_node_shows_what_it_handles_and_a_lost_one_is_forgotten(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/nodes", namespace="lab"))
    expect(page.get_by_role("row").filter(has_text="worker-1").first).to_contain_text(
        "parcels/loading 120 events/min, WEIGH 4.5/min"
    )
    expect(page.get_by_role("region", name="Failing loops").first).to_contain_text('there is no topic "reports"')
    expect(page.get_by_role("region", name="Newest batches of the pipelines").first.locator("tbody tr")).to_have_count(2)
    with connect(site.database) as conn:
        conn.execute(
            "update headrace_internal.node set heartbeat_at = headrace.clock() - interval '1 day' where namespace = 'lab'"
        )
        page.reload()
        expect(page.get_by_role("row").filter(has_text="worker-1").first).to_contain_text("lost")
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Forget lost nodes").click()
        # Other tests may have left nodes, too.
        expect(page.get_by_role("status")).to_contain_text("lost nodes forgotten")
        assert list_nodes(conn, namespace="lab") == []
    assert len(audit(site, "node.forget", "lost nodes")) == 1
