"""Names, keys, payloads and errors of an enemy are shown as text: on every page, in every export."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from headrace.web.console.tables import Column, Table
from headrace.web.console.texts import cell_text, payload_text
from tests.web.console.addresses import page_addresses
from tests.web.console.conftest import Pages, Running
from tests.web.console.filling import HOSTILE
from tests.web.console.test_guard import ask


def test_nothing_of_an_enemy_runs_or_is_markup(site: Running, open_page: Pages) -> None:
    page = open_page("about:blank")
    for namespace in ("enemy", "default"):
        for route, address in page_addresses(site.database, namespace).items():
            answer = page.goto(site.address + address) if route != "/palette" else page.request.get(site.address + address)
            assert answer is not None and answer.status == 200, route
            text = answer.text()
            # A field of a form keeps what was typed, to the character.
            shown = re.sub(r'<input [^>]*value="[^"]*"|<textarea.*?</textarea>', "", text, flags=re.DOTALL)
            for character in ("\x1b", "\u202e", "\u200b"):
                assert character not in shown, f"{character!r} of {route} reaches the browser"
            assert "{{7*7}}" in text or "49}}" not in text, "a template ran"
            assert page.evaluate("window.hacked") is None, route
            assert page.locator("main img, main script, main iframe").count() == 0, route


@pytest.mark.parametrize("route", ["/events", "/events/{event_id}", "/consumers/{topic}/{consumer}", "/rules/{name:path}", "/nodes",
    "/correlators/{name:path}", "/dead-letters/group", "/dead-letters/letter/{letter:path}"])  # fmt: skip
def test_hostile_text_is_there_to_be_read(site: Running, route: str) -> None:
    page = ask(site.address + page_addresses(site.database, "enemy")[route]).text
    assert "&lt;script&gt;window.hacked" in page, "the test of hostile text looks at a page that has none"


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_exports_of_hostile_text_can_be_read(site: Running, kind: str) -> None:
    for route, address in page_addresses(site.database, "enemy").items():
        answer = ask(f"{site.address}{address}&format={kind}")
        if "attachment" not in answer.headers.get("content-disposition", ""):
            continue
        rows = json.loads(answer.text) if kind == "json" else list(csv.DictReader(io.StringIO(answer.text)))
        assert isinstance(rows, list), route
        assert not set(answer.text) & set("\x1b\u202e"), route


@pytest.mark.parametrize("parameter", ["q", "sort", "namespace", "shard", "to", "table", "format", "next"])
@pytest.mark.parametrize("path", ["/topics", "/consumers/orders/reporting", "/login"])
def test_parameters_of_the_url_are_text(site: Running, path: str, parameter: str) -> None:
    for value in (HOSTILE, "'\"><script>alert(1)</script>", "javascript:alert(1)"):
        answer = ask(site.url(path, **{parameter: value}))
        assert answer.status < 500
        assert "<script>alert" not in answer.text and "<script>window" not in answer.text
        assert 'href="javascript:' not in answer.text


def test_deep_and_long_values_stay_readable() -> None:
    deep: object = "bottom"
    for _ in range(5_000):
        deep = [deep]
    assert payload_text(deep) == "(nested too deeply to be shown)"
    assert "bottom" in payload_text(json.loads("[" * 128 + '"bottom"' + "]" * 128))
    assert len(cell_text("x" * 1_000_000)) == 201
    assert cell_text("a\nb\x1b[2J\u202ec") == "a\\nb\\x1b[2J\\u202ec"
    assert cell_text(HOSTILE).count("\\u202e") == 1


def test_spreadsheet_runs_no_cell_as_a_formula() -> None:
    evil = ["=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(A1)", "\t=1", "plain", None]
    table = Table("t", (Column("value"),), [{"value": value} for value in evil])
    cells = [row["value"] for row in csv.DictReader(io.StringIO(table.to_csv()))]
    assert cells == ["'=cmd|' /C calc'!A0", "'+1", "'-1+1", "'@SUM(A1)", "\\t=1", "plain", ""]
    assert [row["value"] for row in json.loads(table.to_json())] == evil, "JSON has the values as they are"
