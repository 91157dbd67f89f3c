"""Actions in the browser: by state, one action; run now, priority, cancel."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

from playwright.sync_api import expect

from headrace.actions import QueuedAction, list_queued, queue_state, send_action
from headrace.db import connect
from tests.web.console.conftest import Pages, Running
from tests.web.console.test_consumers import audit


def send(site: Running, name: str) -> UUID:
    with connect(site.database) as conn:
        action_id = send_action(conn, name, {"a": "<b>"}, key="k", delay=timedelta(hours=1), namespace="lab")
    assert action_id is not None
    return action_id


def queued(site: Running, action_id: UUID) -> list[QueuedAction]:
    with connect(site.database) as conn:
        return list_queued(conn, ids=[action_id], namespace="lab")


def test_priority_run_now_and_cancel(site: Running, open_page: Pages) -> None:
    name = f"CALL_{uuid4().hex[:8]}"
    action_id = send(site, name)
    page = open_page(site.url("/actions", namespace="lab", state="delayed", action=name))
    page.get_by_role("link", name=name).click()
    page.get_by_label("Priority").fill("7")
    page.get_by_role("button", name="Set priority").click()
    expect(page.get_by_role("status")).to_contain_text("has priority 7")
    assert queued(site, action_id)[0].priority == 7
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("status")).to_contain_text("is due now")
    assert queued(site, action_id)[0].state == "due"
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("button", name="Cancel the action").click()
    expect(page.get_by_role("status")).to_contain_text("is cancelled")
    assert queued(site, action_id) == []
    for what in ("action.priority", "action.run", "action.cancel"):
        assert len(audit(site, what, str(action_id))) == 1


def test_queue_and_actions_of_a_name_pause_and_go_on(site: Running, open_page: Pages) -> None:
    name = f"HOLD_{uuid4().hex[:8]}"
    send(site, name)
    page = open_page(site.url("/actions", namespace="lab", action=name))
    page.get_by_role("button", name=f"Pause {name}").click()
    expect(page.get_by_role("status")).to_have_text(f"action {name} is paused")
    page.get_by_text(f"Action {name} is paused.").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status")).to_have_text(f"action {name} goes on")
    page.get_by_role("button", name="Pause the queue").click()
    expect(page.get_by_text("The queue is paused: nodes start no action.")).to_be_visible()
    with connect(site.database) as conn:
        assert queue_state(conn, namespace="lab").paused
        page.get_by_role("button", name="Resume the queue").click()
        expect(page.get_by_role("status")).to_have_text("the queue goes on")
        assert not queue_state(conn, namespace="lab").paused


def test_whole_selection(site: Running, open_page: Pages) -> None:
    name = f"BULK_{uuid4().hex[:8]}"
    ids = [send(site, name) for _ in range(3)]
    page = open_page(site.url("/actions", namespace="lab", action=name))
    page.get_by_label("Priority").fill("3")
    page.get_by_role("button", name="Set").click()
    expect(page.get_by_role("status")).to_have_text("3 actions reordered")
    assert queued(site, ids[0])[0].priority == 3
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("status")).to_have_text("3 actions due now")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel all").click()
    expect(page.get_by_role("status")).to_have_text("3 actions cancelled")
    assert [queued(site, action_id) for action_id in ids] == [[], [], []]
