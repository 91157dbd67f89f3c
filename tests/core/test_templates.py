"""One grammar names a part of an event or request: paths, and templates with placeholders."""

from __future__ import annotations

import pytest

from headrace.core import JSON, Invalid, follow_path, parse_event_path, parse_path, parse_template

PAYLOAD: JSON = {"lines": [{"sku": "a-1"}, {"sku": "b-2"}], "0": "zero", "any name": {"x.y": 1}, "größe": None}
PLACEHOLDERS = ("topic", "header:name", "body:path")
VALUES = {"topic": "orders", "header": None, "body": "7"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("lines[1].sku", "b-2"),
        ("lines.1.sku", "b-2"),
        ("lines[2].sku", None),
        ("lines.sku", None),
        ("0", "zero"),
        ("[0]", None),
        ('["any name"]["x.y"]', 1),
        ("größe.cm", None),
        ("lines.999999999", None),
    ],
)
def test_path_leads_to_a_value_or_to_nothing(path: str, value: JSON) -> None:
    assert follow_path(PAYLOAD, parse_path(path)) == value


@pytest.mark.parametrize("path", ["", "a..b", "a.", ".a", "a b", "a[x]", "a[-1]", "a[1234567]", 'a["x]', "a{b}", "a|b"])
def test_path_that_names_nothing_is_rejected(path: str) -> None:
    with pytest.raises(Invalid, match="is not a path"):
        parse_path(path)


def test_path_into_an_event_starts_with_one_of_its_fields() -> None:
    assert parse_event_path("$.payload.lines[0]").steps == ("lines", 0)
    for text in ("payload.total", "$.total", "$.type.x"):
        with pytest.raises(Invalid):
            parse_event_path(text)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{topic}", "orders"),
        ("a/{topic}.{body:order.id}", "a/orders.7"),
        ("{header:x-kind|none}", "none"),
        ("{header:x-kind|}", ""),
        ("{header:x-kind}", None),
        ("{{topic}} {topic}", "{topic} orders"),
        ("", ""),
    ],
)
def test_template_is_filled_with_values_or_defaults(template: str, text: str | None) -> None:
    assert parse_template(template, PLACEHOLDERS).fill(lambda placeholder: VALUES[placeholder.root]) == text


@pytest.mark.parametrize(
    "template",
    ["{", "}", "{topic", "{}", "{other}", "{topic:x}", "{header}", "{body:a..b}", "{topic.__class__}", "{topic!r}", "{0}"],
)
def test_template_has_no_other_braces(template: str) -> None:
    with pytest.raises(Invalid):
        parse_template(template, PLACEHOLDERS)
