"""Dead letters in the browser: groups by error, an edit with a diff, redrive one first, then all with progress, discard."""

from __future__ import annotations

import json
import re
from html import unescape
from uuid import uuid4

import pytest
from playwright.sync_api import expect

from headrace.actions import get_dead_letter, list_dead_letters, list_queued
from headrace.db import Connection, Target, connect, create_namespace
from headrace.web.console.guard import CSRF_COOKIE
from tests.builders import wait_until
from tests.web.console.conftest import Pages, Running, serve
from tests.web.console.filling import HOSTILE
from tests.web.console.test_consumers import audit
from tests.web.console.test_guard import ask

ERROR = "SmtpError: mailbox {} is full"


def bury(conn: Connection, action: str, count: int, error: str = ERROR) -> None:
    """Dead letters of an action of namespace `lab`."""
    [queue] = conn.execute("select headrace_internal.dead_letter_queue(headrace_internal.queue_of('lab'))").fetchone()  # type: ignore[misc]
    conn.execute(
        f"""insert into pgmq."q_{queue}" (vt, message)
        select now(), jsonb_build_object('action', jsonb_build_object('id', gen_random_uuid(), 'action', %(action)s::text,
            'key', 'k' || n, 'payload', jsonb_build_object('to', 'user-' || n)), 'reason', 'failed',
            'error', replace(%(error)s, '{{}}', n::text), 'attempts', 3, 'buried_at', headrace.clock())
        from generate_series(1, %(count)s) n""",
        {"action": action, "error": error, "count": count},
    )


def letters(site: Running, action: str) -> list[str]:
    with connect(site.database) as conn:
        return [letter.id for letter in list_dead_letters(conn, action=action, namespace="lab")]


def test_hostile_error_is_text(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/dead-letters"))
    page.get_by_role("link", name="card declined").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("CHARGE")
    page.locator("td a").first.click()
    expect(page.get_by_role("region", name="Error")).to_contain_text("<script>window.hacked")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script").count() == 0
    assert HOSTILE not in page.content()


def test_redrive_one_first_then_all_with_progress(site: Running, open_page: Pages) -> None:
    action = f"MAIL_{uuid4().hex[:8]}"
    with connect(site.database) as conn:
        bury(conn, action, 450)
    page = open_page(site.url("/dead-letters", namespace="lab"))
    page.get_by_role("row").filter(has_text=action).get_by_role("link").click()
    page.get_by_role("button", name="Redrive one").click()
    expect(page.get_by_role("status")).to_contain_text("will be handled again; watch it")
    expect(page.get_by_role("note")).to_contain_text("due")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Redrive all 449").click()
    expect(page.get_by_role("region", name="Redrive")).to_contain_text("done", timeout=15_000)
    expect(page.get_by_role("region", name="Redrive")).to_contain_text("449 of 449")
    wait_until(lambda: not letters(site, action), "the end of the redrive")
    with connect(site.database) as conn:
        assert len(list_queued(conn, action=action, limit=None, namespace="lab")) == 450, "each letter is sent once"


def test_edit_shows_the_diff_first(site: Running, open_page: Pages) -> None:
    open_page.allowed.append("status of 422")
    action = f"EDIT_{uuid4().hex[:8]}"
    with connect(site.database) as conn:
        bury(conn, action, 1)
    [letter] = letters(site, action)
    page = open_page(site.url(f"/dead-letters/letter/{letter}", namespace="lab"))
    page.get_by_label("What a redrive sends").fill('{"to": ')
    page.get_by_role("button", name="Show the diff").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("What a redrive sends")).to_have_value('{"to": ')
    page.get_by_label("What a redrive sends").fill('{"to": "ada", "n": 12345678901234567890.5}')
    page.get_by_role("button", name="Show the diff").click()
    expect(page.locator(".diff .old")).to_contain_text("user-1")
    expect(page.locator(".diff .new").first).to_contain_text("ada")
    with connect(site.database) as conn:
        assert not get_dead_letter(conn, letter, namespace="lab").edited, "the preview writes nothing"
        page.get_by_role("button", name="Save the edit").click()
        expect(page.get_by_role("status")).to_contain_text("changed; redrive it")
        assert get_dead_letter(conn, letter, namespace="lab").edited
    [edit] = audit(site, "dead-letter.edit", letter)
    assert edit["before"] == {"payload": {"to": "user-1"}}


def test_discard_asks_first(site: Running, open_page: Pages) -> None:
    action = f"DROP_{uuid4().hex[:8]}"
    with connect(site.database) as conn:
        bury(conn, action, 3)
    page = open_page(site.url("/dead-letters", namespace="lab"), javascript=False)
    page.get_by_role("row").filter(has_text=action).get_by_role("link").click()
    page.get_by_role("link", name="Discard all").click()
    expect(page.get_by_role("alert")).to_contain_text("Discard 3 dead letters? Actions are deleted for good.")
    assert len(letters(site, action)) == 3
    page.get_by_role("button", name="Discard 3 dead letters").click()
    expect(page.get_by_role("status")).to_contain_text("3 dead letters")
    assert letters(site, action) == []
    assert audit(site, "dead-letter.discard", "3 dead letters")


def test_one_letter_is_redriven_or_discarded_by_itself(site: Running, open_page: Pages) -> None:
    action = f"ONE_{uuid4().hex[:8]}"
    with connect(site.database) as conn:
        bury(conn, action, 2)
    first, second = letters(site, action)
    page = open_page(site.url(f"/dead-letters/letter/{first}", namespace="lab"))
    page.get_by_role("button", name="Redrive").click()
    expect(page.get_by_role("status")).to_contain_text(first)
    with connect(site.database) as conn:
        assert len(list_queued(conn, action=action, namespace="lab")) == 1
    page.goto(site.url(f"/dead-letters/letter/{second}", namespace="lab"))
    page.get_by_role("link", name="Discard…").click()
    expect(page.get_by_role("alert")).to_contain_text("Discard this dead letter?")
    page.get_by_role("button", name="Discard for good").click()
    expect(page.get_by_role("status")).to_contain_text("discarded")
    assert second not in letters(site, action)


def test_discard_of_a_group_without_an_error_leaves_the_others(site: Running, open_page: Pages) -> None:
    action = f"NONE_{uuid4().hex[:8]}"
    with connect(site.database) as conn:
        bury(conn, action, 2)
        bury(conn, action, 1, error="")
    where = {"kind": "action", "source": "queue", "name": action, "reason": "failed", "namespace": "lab", "discard": "1"}
    page = open_page(site.url("/dead-letters/group", **where))
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_role("status")).to_contain_text("dead letters of")
    assert len(letters(site, action)) >= 2, "letters with another error stay"


@pytest.mark.parametrize("hours", [-3, 3])
def test_redrive_of_all_goes_by_the_clock_of_the_database(database: Target, hours: float) -> None:
    with connect(database) as conn:
        name = database.dsn.rpartition("/")[2]
        conn.execute(f"alter database {name} set headrace.clock_shift = '{hours} hours'")
    with connect(database) as conn:
        create_namespace(conn, "lab")
        bury(conn, "MAIL", 5)
    group = {"kind": "action", "source": "queue", "name": "MAIL", "reason": "failed", "error": "SmtpError: mailbox # is full"}
    with serve([database]) as address:
        csrf = ask(f"{address}/topics").cookies[CSRF_COOKIE]
        form = {"csrf": csrf, "how": "all", **group}
        url = f"{address}/dead-letters/group/redrive?namespace=lab"
        assert ask(url, method="POST", form=form, headers={"cookie": f"{CSRF_COOKIE}={csrf}"}).status == 303
        site = Running(address, database)
        wait_until(lambda: not letters(site, "MAIL"), "the end of the redrive", timeout_s=20)


def test_pages_of_a_group_follow_each_other(site: Running) -> None:
    action = f"PAGE_{uuid4().hex[:8]}"
    with connect(site.database) as conn:
        bury(conn, action, 250)
    group = {"kind": "action", "source": "queue", "name": action, "reason": "failed", "error": "SmtpError: mailbox # is full"}
    url, ids = site.url("/dead-letters/group", namespace="lab", **group), []
    while url:
        text = ask(url).text
        ids += re.findall(r'href="/dead-letters/letter/(\d+)', text)
        following = re.search(r'href="([^"]+)">Newer<', text)
        url = site.address + unescape(following[1]) if following else ""
    assert len(ids) == len(set(ids)) == 250
    assert len(json.loads(ask(site.url("/dead-letters/group", namespace="lab", format="json", **group)).text)) == 250
