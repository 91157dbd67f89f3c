"""Access tokens, hooks and the editor of relays in a browser."""

from __future__ import annotations

from collections.abc import Sequence

from playwright.sync_api import expect

from headrace.db import connect
from headrace.definitions.schemas import set_schema
from headrace.log.topics import create_topic
from headrace.relays import get_relay, list_relay_versions
from headrace.web.http import get_hook, list_access_tokens
from headrace.web.http.access_tokens import token_digest
from tests.web.console.conftest import Pages, Running
from tests.web.console.test_consumers import audit


def test_token_is_shown_once_and_revoked(site: Running, open_page: Pages) -> None:
    page = open_page(site.url("/access-tokens", namespace="lab"))
    page.get_by_role("link", name="Create token").first.click()
    page.get_by_label("Name", exact=True).fill("partner")
    page.get_by_label("Topics", exact=True).fill("parcels")
    page.get_by_label("Valid for days").fill("30")
    page.get_by_role("button", name="Create").click()
    token = page.get_by_role("region", name="Token").locator("code").inner_text()
    with connect(site.database) as conn:
        digest = conn.execute("select digest from headrace_internal.access_token where name = 'partner'").fetchone()
        assert digest == (token_digest(token),)
        [stored] = list_access_tokens(conn, namespace="lab")
        assert (stored.rights, stored.topics, stored.event_types) == (["publish"], ["parcels"], None)
        assert stored.expires_at is not None
        page.get_by_role("link", name="All tokens").click()
        assert token not in page.content()
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("status")).to_contain_text("token partner is revoked")
        expect(page.get_by_role("region", name="access_tokens")).to_contain_text("revoked")
    for what in ("access_token.create", "access_token.revoke"):
        [entry] = audit(site, what, "partner")
        assert token not in str(entry)


def test_hook_is_created_disabled_enabled_and_dropped(site: Running, open_page: Pages) -> None:
    open_page.allowed.append("status of 422")
    page = open_page(site.url("/hooks/-/create", namespace="lab"))
    page.get_by_label("Name", exact=True).fill("stripe")
    page.get_by_label("Topic", exact=True).select_option("parcels")
    page.get_by_label("Signature").select_option("stripe")
    page.get_by_label("Secrets").fill("whsec_typed_by_mistake")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("env:")
    assert "whsec_typed_by_mistake" not in page.content(), "a secret in the place of its reference is not shown again"
    page.get_by_label("Secrets").fill("env:STRIPE")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_have_text("hook stripe created")
    expect(page.get_by_role("region", name="Facts")).to_contain_text("POST /hooks/lab/stripe")
    expect(page.get_by_role("region", name="Mapping")).to_contain_text("stripe.{body:type}")
    with connect(site.database) as conn:
        for button, active in (("Disable", False), ("Enable", True)):
            page.get_by_role("button", name=button).click()
            expect(page.get_by_role("status")).to_contain_text("hook stripe")
            assert get_hook(conn, "stripe", namespace="lab").active is active
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Drop").click()
    expect(page.get_by_role("status")).to_have_text("hook stripe dropped")
    for what in ("hook.create", "hook.disable", "hook.enable", "hook.drop"):
        assert len(audit(site, what, "stripe")) == 1


def test_relay_is_planned_backtested_created_changed_and_dropped(site: Running, open_page: Pages) -> None:
    with connect(site.database) as conn:
        create_topic(conn, "invoices", namespace="lab")
        set_schema(
            conn,
            "invoice.sent",
            {"type": "object", "properties": {"total": {"type": "integer"}}, "additionalProperties": False},
            namespace="lab",
        )
        for total in (1, 2):
            conn.execute(
                "select headrace.publish('invoices', 'invoice.sent', jsonb_build_object('total', %s::int), p_namespace => 'lab')",
                (total,),
            )
        conn.execute("select headrace.sequence()")
    page = open_page(site.url("/relays/-/create", namespace="lab"))
    page.get_by_label("Name", exact=True).fill("erp")
    page.get_by_label("Topic", exact=True).select_option("invoices")
    page.get_by_label("Target", exact=True).select_option("webhook")
    page.get_by_label("Options").fill('{"url": "https://erp.example/hook", "secret": "clear"}')
    page.get_by_label("Condition").fill("(object -> 'totl')::int > 1")
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("alert")).to_contain_text("option 'secret' has a secret in clear text")
    page.get_by_label("Options").fill('{"url": "https://erp.example/hook", "secret": "env:RELAY_ERP"}')
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("group", name="Findings")).to_contain_text("did you mean 'total'?")
    page.get_by_label("Condition").fill("(object -> 'total')::int > 1")
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("group", name="Findings")).to_have_count(0)
    expect(page.get_by_role("group", name="Backtest")).to_contain_text('{"total": 2}')
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_contain_text("relay erp created")
    page.get_by_role("link", name="Edit and backtest").click()
    expect(page.get_by_role("region", name="Plan")).to_contain_text("Nothing changes.")
    page.get_by_label("Condition").fill("(object -> 'total')::int > 100")
    page.get_by_role("button", name="Plan").click()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_contain_text("relay erp changed")
    expect(page.get_by_role("region", name="Versions")).to_contain_text("Version 2 changed")
    with connect(site.database) as conn:
        assert get_relay(conn, "erp", namespace="lab").relay.condition.endswith("> 100")
        assert conn.execute("select count(*) from headrace.log where type = 'invoice.sent'").fetchone() == (2,)
    page.get_by_role("link", name="Cursors and seek").click()
    page.get_by_label("To", exact=True).fill("earliest")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Move", exact=True)).to_contain_text("2 events will be handled again")
    page.go_back()
    page.go_back()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Drop").click()
    expect(page.get_by_role("status")).to_have_text("relay erp dropped")
    with connect(site.database) as conn:
        assert [version.dropped for version in list_relay_versions(conn, "erp", namespace="lab")] == [False, False, True]
    _assert_audited(site, "erp", ("relay.create", "relay.alter", "relay.drop"))


def _assert_audited(site: Running, subject: str, changes: Sequence[str]) -> None:
    for what in changes:
        assert len(audit(site, what, subject)) == 1, what
