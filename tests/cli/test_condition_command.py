"""`headrace condition`: a user's corpus on every engine, and the value of every clause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, call

CASES = """
[[case]]
name = "fast car"
condition = "(object -> 'horsepower')::int > 1000"
event = '{"type": "NEW_CAR", "payload": {"horsepower": 1600}}'
expect = "true"

[[case]]
name = "no color"
condition = "object ->> 'color' = 'silver'"
payload = '{}'
expect = "unknown"

[[case]]
name = "no subquery"
condition = "exists (select 1)"
error = ""
"""
WRONG = """
[[case]]
name = "expects false"
condition = "key = 'a'"
event = '{"key": "a"}'
expect = "false"

[[case]]
name = "expects an error"
condition = "true"
error = "never said"

[[case]]
name = "another error"
condition = "pg_sleep(1) = 1"
error = "never said"
"""


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "cases.toml"
    path.write_text(CASES)
    return path


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.toml"
    path.write_text(CASES + WRONG)
    return path


def test_corpus_holds_on_python_and_database(cli: Cli, cases: Path) -> None:
    for engine in ("python", "database"):
        answer = cli("condition", "test", str(cases), "--engine", engine, "--json")
        assert (answer.code, answer.json) == (0, {"engine": engine, "cases": 3, "as_expected": 3, "differ": []})


def test_corpus_holds_on_spark(spark: Any, cases: Path) -> None:
    assert call("condition", "test", str(cases), "--engine", "spark", "--json").json["as_expected"] == 3


def test_case_that_differs_is_named_on_every_engine(cli: Cli, wrong: Path) -> None:
    for engine in ("python", "database"):
        answer = cli("condition", "test", str(wrong), "--engine", engine, "--json")
        assert (answer.code, answer.json["as_expected"]) == (6, 3)
        differ = {case["name"]: case["what"].split(" condition,")[0] for case in answer.json["differ"]}
        assert differ == {
            "expects false": "expected false, got true",
            "expects an error": "expected error: never said, got true",
            "another error": "expected error: never said, got error:",
        }
        assert "expects false" in answer.error["message"]
    result = call("condition", "test", str(wrong))
    assert (result.code, "3 differ" in result.out, "expects false" in result.err) == (6, True, True)


def test_file_that_is_not_a_corpus_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[[case]]\nname = 'x'\n")
    for file in ("bad.toml", "missing.toml"):
        answer = call("condition", "test", str(tmp_path / file), "--json")
        assert (answer.code, answer.error["error"]) == (5, "CorpusError")
    assert call("condition", "test", str(tmp_path / "bad.toml"), "--engine", "abacus").code == 2


def test_explain_shows_every_clause() -> None:
    text = "(object -> 'hp')::int > 1000 and object ->> 'color' = 'silver'"
    whole = '{"payload": {"hp": 1600}}'
    for event in (whole, '{"hp": 1600}'):
        answer = call("condition", "explain", text, "--event", event, "--json").json
        assert (answer["value"], [part["value"] for part in answer["parts"]]) == ("unknown", ["true", "unknown"])
    shown = call("condition", "explain", text, "--event", whole).out
    assert "1600" in shown and "silver" in shown


def test_explain_points_at_the_error() -> None:
    answer = call("condition", "explain", "(object -> 'a')::regclass = 1")
    assert answer.code == 5
    lines = answer.err.splitlines()
    assert lines[1].index("regclass") == lines[2].index("^")
    assert call("condition", "explain", "true", "--event", '{"payload": {}, "tpye": "a"}').code == 5
    assert call("condition", "explain", "true", "--event", "{").code == 5


def test_compare_says_how_two_conditions_differ() -> None:
    answer = call("condition", "compare", "(object -> 'v')::int > 5", "(object -> 'v')::int > 9", "--json").json
    assert answer == {"difference": "stricter", "only_old": '{"v": 6}', "only_new": None}
    assert "undecided" in call("condition", "compare", "object ->> 'c' like 'a%'", "starts_with(object ->> 'c', 'a')").out
