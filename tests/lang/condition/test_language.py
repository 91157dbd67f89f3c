"""The language itself: errors that point, limits, canonical text, access paths, explanations, documented examples."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from headrace.core.errors import Invalid
from headrace.lang.condition import (
    Condition,
    ConditionError,
    CorpusError,
    Field,
    Sample,
    decode_json,
    explain,
    field_to_postgres,
    jsonb_text,
    load_corpus,
    parse,
    read_sample,
    run_cases,
    shape_to_postgres,
    to_postgres,
    to_python,
)
from headrace.lang.condition.access import find_access
from headrace.lang.condition.condition import canonical_text
from headrace.lang.condition.corpus import Case
from headrace.lang.condition.tree import Extraction

DOCS = Path(__file__).parents[3] / "docs" / "conditions.md"
EXAMPLE = re.compile(r"^\| `(.+?)` \| `(.+?)` \| (true|false|unknown) \|$", re.MULTILINE)


def answer(text: str, payload: str) -> bool | None:
    return to_python(parse(text))(Sample(decode_json(payload)))


def test_error_points_at_the_place_and_says_what_is_allowed() -> None:
    with pytest.raises(ConditionError) as caught:
        parse("object ->> 'a' = 'x'\n  and now() > emitted_at")
    error = caught.value
    assert (error.line, error.column, error.reason) == (2, 7, "unknown function now")
    assert str(error).splitlines()[1:3] == ["    and now() > emitted_at", "        ^"]
    assert "lower" in error.allowed and error.sqlstate == "HR310" and isinstance(error, Invalid)


def test_error_in_a_pattern_points_into_the_pattern() -> None:
    with pytest.raises(ConditionError) as caught:
        parse("key ~ 'it''s (a+)+'")
    assert caught.value.column == len("key ~ 'it''s (a+)") + 1


def test_error_in_a_long_line_shows_the_part_around_it() -> None:
    with pytest.raises(ConditionError) as caught:
        parse("true and " * 500 + "now()")
    _, shown, caret, _ = str(caught.value).splitlines()
    assert shown[caret.index("^") :].startswith("now()") and len(shown) < 130


@pytest.mark.parametrize(
    "text",
    ["(" * 5000, "not " * 2400, "-" * 9000, "- " * 4000 + "1 = 1", "1+" * 4000 + "1 = 1", "(" * 100 + "true", "'" * 9999],
)
def test_deep_or_endless_text_is_rejected_without_a_crash(text: str) -> None:
    with pytest.raises(ConditionError):
        parse(text)


def test_canonical_text_of_the_deepest_tree_parses() -> None:
    text = "true"
    for _ in range(49):
        text = f"({text}) is true"
    condition = parse(text)
    assert parse(condition.text) == condition


def test_spelling_does_not_matter() -> None:
    spelled = parse("NOT(OBJECT->>'a'!='x')AND(object#>'{b}')::int4>+1.50")
    assert spelled == parse("not object ->> 'a' <> 'x' and (object -> 'b')::int > 1.5")
    assert spelled.text == "not object ->> 'a' <> 'x' and (object -> 'b')::int > 1.5"
    assert hash(spelled) == hash(parse(spelled.text))


def test_fields_are_distinct_and_ordered() -> None:
    condition = parse("object ->> 'b' = 'x' or (object -> 'a')::int > 1 or object ->> 'b' = 'y'")
    assert condition.fields == (Field("object", ("b",), Extraction.TEXT), Field("object", ("a",), Extraction.INT))


@pytest.mark.parametrize(
    ("text", "key", "residual"),
    [
        ("object ->> 'c' = 'silver'", "silver", None),
        ("(object -> 'p')::int < 9 and 'x' = object ->> 'c'", "x", "(object -> 'p')::int < 9"),
        ("(object -> 'n')::int = 5 and object ->> 'c' = 'x' and true", "1:x5", "true"),
        ("(object -> 'n')::int = -5 and (object -> 'b')::boolean", "2:-5true", None),
        ("(object -> 'b')::boolean = false", "false", None),
        ("(object -> 'b')::boolean", "true", None),
        ("key = 'k' or object ->> 'c' = 'x'", "", "key = 'k' or object ->> 'c' = 'x'"),
        ("(object -> 'n')::int = 5.0", "0:4 0:5", "(object -> 'n')::int = 5.0"),
        ("(object -> 'n')::numeric = 5", "0:4 0:5", "(object -> 'n')::numeric = 5"),
        ("not object ->> 'c' = 'x'", "", "not object ->> 'c' = 'x'"),
        ("object ->> 'c' = object ->> 'd'", "", "object ->> 'c' = object ->> 'd'"),
        ("object ->> 'c' in ('a', 'b', 'a')", "a b", None),
        ("key = 'k' and (object -> 'n')::int in (1, 2)", "1:k1 1:k2", None),
        ("object ->> 'c' in ('a', key)", "", "object ->> 'c' in ('a', key)"),
        ("object ->> 'c' like 'abcde%'", "4:abcd", "object ->> 'c' like 'abcde%'"),
        ("object ->> 'c' like '10\\%\\__x'", "4:10%_", "object ->> 'c' like '10\\%\\__x'"),
        ("object ->> 'c' like '%x' and key ilike 'x%'", "", "object ->> 'c' like '%x' and key ilike 'x%'"),
        ("starts_with(object ->> 'c', 'ab')", "2:ab", "starts_with(object ->> 'c', 'ab')"),
        ("object ->> 'c' between 'ab1' and 'ab2'", "2:ab", "object ->> 'c' between 'ab1' and 'ab2'"),
        ("object ->> 'c' between 'x' and 'a'", "", "object ->> 'c' between 'x' and 'a'"),
        ("(object -> 'n')::int between 40 and 30 + 50", "1:2 1:3 1:4 1:5", "(object -> 'n')::int between 40 and 30 + 50"),
        (
            "1 < (object -> 'n')::int and (object -> 'n')::int < 3",
            "0:0 0:1 0:2 0:3",
            "1 < (object -> 'n')::int and (object -> 'n')::int < 3",
        ),
        ("(object -> 'n')::int between 9 and 1", "empty", "(object -> 'n')::int between 9 and 1"),
        ("(object -> 'n')::int > 1 / 0", "", "(object -> 'n')::int > 1 / 0"),
        ("emitted_at = '1970-01-01T00:01:00Z'", "0:59 0:60", "emitted_at = timestamptz '1970-01-01T00:01:00Z'"),
    ],
)
def test_condition_splits_into_keys_and_residual(text: str, key: str, residual: str | None) -> None:
    access, rest = find_access(parse(text))
    assert (" ".join(access.keys), rest.text if rest else None) == (key, residual)


@pytest.mark.parametrize(
    ("text", "field", "is_lower", "value"),
    [
        ("(object -> 'n')::int > 5 and key = 'a'", "(object -> 'n')::int", True, 5),
        ("5.5 >= (object -> 'n')::numeric", "(object -> 'n')::numeric", False, 5.5),
        ("(object -> 'n')::int < 2 and (object -> 'm')::int between 1 and 5", "(object -> 'n')::int", False, 2),
        ("object ->> 'day' >= '2026-01-01'", "object ->> 'day'", True, "2026-01-01"),
        ("emitted_at < '1970-01-01T00:01:00Z'", "emitted_at", False, 60),
        ("(object -> 'n')::int <> 5", None, None, None),
        ("not (object -> 'n')::int > 5", None, None, None),
        ("(object -> 'n')::int > 5 or key = 'a'", None, None, None),
        ("(object -> 'n')::int > (object -> 'm')::int", None, None, None),
    ],
)
def test_comparison_with_one_end_is_a_bound(
    text: str, field: str | None, is_lower: bool | None, value: float | str | None
) -> None:
    bound = find_access(parse(text))[0].bound
    if bound is None:
        assert field is None
    else:
        close = bound.value if isinstance(bound.value, str) else pytest.approx(bound.value)
        assert (canonical_text(bound.field), bound.is_lower, value) == (field, is_lower, close)


def test_access_key_is_printed_in_its_text_form() -> None:
    condition = parse("(object -> 'n')::int = 5")
    [field] = condition.fields
    assert shape_to_postgres(condition, {field: "f1"}, "m", ()).keys == ("(f1)::text",)
    assert shape_to_postgres(parse("object ->> 'c' = 'x'"), {}, "m", ()).keys == ("(payload ->> 'c')",)


def test_over_extracted_columns_a_rule_is_a_bare_comparison() -> None:
    condition = parse("(object -> 'price')::int < 100000 and object ->> 'color' = 'silver'")
    columns = {field: f"f{number}" for number, field in enumerate(condition.fields)}
    assert to_postgres(condition, columns) == "((f0 < 100000) and (f1 = 'silver'::text))"
    assert field_to_postgres(condition.fields[1]) == "(payload ->> 'color')"


def test_explain_shows_every_clause() -> None:
    event = read_sample('{"key": "k", "payload": {"price": 50.50, "at": "2026-01-01T01:00:00+01:00"}}')
    text = "(object -> 'price')::numeric * 2 > 100 and object ->> 'color' = 'red' and (object ->> 'at')::timestamptz < emitted_at"
    explained = explain(parse(text), event)
    assert explained.value == "false"
    assert [(part.text, part.value) for part in explained.parts] == [
        ("(object -> 'price')::numeric * 2 > 100", "true"),
        ("object ->> 'color' = 'red'", "unknown"),
        ("(object ->> 'at')::timestamptz < emitted_at", "false"),
    ]
    assert [(p.text, p.value) for p in explained.parts[0].parts[0].parts] == [("(object -> 'price')::numeric", "50.5")]
    assert [p.value for p in explained.parts[2].parts] == ["2026-01-01T00:00:00Z", "2000-01-01T00:00:00Z"]


def test_documented_examples_hold() -> None:
    examples = EXAMPLE.findall(DOCS.read_text(encoding="utf-8"))
    assert len(examples) >= 20
    names = {"true": True, "false": False, "unknown": None}
    assert [e for e in examples if answer(e[0], e[1]) is not names[e[2]]] == []


def test_documented_error_is_the_error() -> None:
    with pytest.raises(ConditionError) as caught:
        parse("(object->'a')::regclass = 1")
    shown = "\n".join(f"    {line}" for line in str(caught.value).splitlines())
    assert shown in DOCS.read_text(encoding="utf-8")


def test_floats_count_as_their_shortest_text() -> None:
    assert to_python(parse("object ->> 'a' = '0.1' and (object -> 'a')::numeric = 0.1"))(Sample({"a": 0.1})) is True
    assert to_python(parse("(object -> 'a')::int = 100"))(Sample({"a": 1e2})) is True


def test_a_moment_without_a_zone_is_utc() -> None:
    naive = Sample({}, emitted_at=datetime(2026, 1, 1))
    assert to_python(parse("emitted_at = '2026-01-01T00:00:00Z'"))(naive) is True


@pytest.mark.parametrize("text", ["\x00", '"\\u0000"', '"\\ud800"', "NaN", "1e99999999", "[" * 20_000, "{'a': 1}", ""])
def test_json_that_jsonb_rejects_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        decode_json(text)


def test_very_long_numbers_are_printed() -> None:
    assert jsonb_text(10**5000) == "1" + "0" * 5000
    assert answer("length(object ->> 'a') = 401 and (object -> 'a')::bigint is null", '{"a": 1e400}') is True
    assert to_python(parse("(object -> 'a')::int is null"))(Sample({"a": Decimal("1e9000")})) is True


def test_worst_allowed_patterns_end_soon() -> None:
    subject = Sample({}, key="a" * 1000)
    longest = Sample({}, key="a" * 100_000)
    begin = time.monotonic()
    assert to_python(parse("key ~ '^a*a*a*b'"))(Sample({}, key="a" * 300)) is False
    assert to_python(parse("key ~ 'a*b'"))(subject) is False
    assert to_python(parse("key like '%a%a%a%a%a%a%a%a%b'"))(longest) is False
    assert time.monotonic() - begin < 10


def write_corpus(folder: Path, text: str) -> Path:
    path = folder / "cases.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no [[case]]"),
        ("[[case]]\nname = 'a'", "missing required field `condition`"),
        ("[[case]]\nname = 'a'\ncondition = 'true'", "either expect"),
        ("[[case]]\nname = 'a'\ncondition = 'true'\nexpect = 'yes'", "Invalid enum value 'yes'"),
        ("[[case]]\nname = 'a'\ncondition = 'true'\nexpect = 'true'\nerror = ''", "either expect"),
        ("[[case]]\nname = 'a'\ncondition = 'true'\nexpect = 'true'\npayload = '{'", "case 1 (a): not a JSON"),
        ("[[case]]\nname = 'a'\ncondition = 'true'\nexpect = 'true'\nevent = '[]'", "one JSON object"),
        ("[[case]]\nname = 'a'\ncondition = 'true'\nexpect = 'true'\nevent = '{\"key\": 5}'", "key a text"),
        ("[[case]]\nname = 'a'\ncondition = 'true'\nwanted = 'true'", "unknown field `wanted`"),
        ("[[case", "cases.toml"),
    ],
)
def test_error_in_a_corpus_names_the_case(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(CorpusError, match=re.escape(part)):
        load_corpus(write_corpus(tmp_path, text))


def test_outcomes_name_what_differs(tmp_path: Path) -> None:
    cases = load_corpus(
        write_corpus(
            tmp_path,
            "[[case]]\nname = 'right'\ncondition = 'true'\nexpect = 'true'\n"
            "[[case]]\nname = 'wrong'\ncondition = 'true'\nexpect = 'unknown'\n"
            "[[case]]\nname = 'rejected'\ncondition = 'now()'\nerror = 'unknown function'\n"
            "[[case]]\nname = 'not rejected'\ncondition = 'true'\nerror = ''\n"
            "[[case]]\nname = 'rejected by mistake'\ncondition = 'now()'\nexpect = 'true'\n",
        )
    )

    def evaluate(pairs: Sequence[tuple[Condition, Sample]]) -> list[bool | None]:
        return [to_python(condition)(event) for condition, event in pairs]

    outcomes = run_cases(cases, evaluate)
    assert [outcome.case.name for outcome in outcomes if not outcome.passed] == ["wrong", "not rejected", "rejected by mistake"]
    assert isinstance(cases[0], Case) and outcomes[1].got == "true"
