"""Names, keys, payloads and errors of an enemy are shown as text: on every page, in every export."""

from __future__ import annotations

import csv
import io
import json

import pytest
from starlette.routing import Route

from headrace.console.app import page_routes
from headrace.console.masks import MASK, hidden_fields, mask_payload
from headrace.console.tables import Column, Table
from headrace.console.texts import cell_text, payload_text
from tests.console.conftest import Pages, Running
from tests.console.filling import HOSTILE
from tests.console.test_guard import ask

READING = sorted(
    route.path
    for route in page_routes()
    if isinstance(route, Route)
    and "GET" in (route.methods or ())
    and "{" not in route.path
    and route.path not in ("/login", "/palette")
)


@pytest.mark.parametrize("path", [*READING, "/topics/orders", "/consumers/orders/shipping"])
def test_nothing_of_an_enemy_runs_or_is_markup(site: Running, open_page: Pages, path: str) -> None:
    open_page.allowed.append("status of 4")
    page = open_page(site.url(path))
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script, main iframe").count() == 0
    html = ask(site.url(path)).text
    for character in ("\x1b", "\u202e", "\u200b"):
        assert character not in html, f"{character!r} reaches the browser"


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
    assert cells == ["'=cmd|' /C calc'!A0", "'+1", "'-1+1", "'@SUM(A1)", "'\t=1", "plain", ""]
    assert [row["value"] for row in json.loads(table.to_json())] == evil, "JSON has the values as they are"


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
