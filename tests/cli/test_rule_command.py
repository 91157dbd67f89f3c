"""`headrace rule`, `event-type` and `action` names: by hand and from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.db import Connection
from tests.builders import topic
from tests.cli.conftest import Cli

pytestmark = pytest.mark.lane("pg18")

FAST = ["--topic", "cars", "--event-type", "NEW_CAR", "--action", "NOTIFY"]
FILE = """
rules:
  - {name: fast, topic: cars, event_type: NEW_CAR, condition: "(object -> 'hp')::int > 1000", action: NOTIFY}
  - {name: slow, topic: cars, event_type: NEW_CAR, condition: "(object -> 'hp')::int < 10", action: SMILE}
"""


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    return conn


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(FILE)
    return path


def test_rule_is_created_changed_shown_and_dropped(cli: Cli, cars: Connection) -> None:
    assert cli("rule", "create", "fast", *FAST, "--condition", "(object -> 'hp')::int > 1000", "--json").json == {"rule": "fast"}
    assert cli("rule", "create", "fast", *FAST).code == 4
    assert cli("rule", "alter", "fast", "--no-active", "--priority", "3", "--json").json["changed"] == {
        "priority": 3,
        "active": False,
    }
    [shown] = cli("rule", "show", "fast", "--json").json
    assert (shown["name"], shown["condition"], shown["priority"], shown["active"], shown["version"], shown["source"]) == (
        "fast", "(object -> 'hp')::int > 1000", 3, False, 2, "sql",
    )  # fmt: skip
    assert "not active" in cli("rule", "list").out
    assert cli("rule", "drop", "fast", "--yes").code == 0
    assert cli("rule", "list", "--json").json == []
    history = cli("rule", "history", "fast", "--json").json
    assert [(one["version"], one["active"], one["dropped"]) for one in history] == [
        (1, True, False), (2, False, False), (3, False, True),
    ]  # fmt: skip
    assert "dropped" in cli("rule", "history", "fast").out


def test_rule_that_is_not_there_is_told(cli: Cli, cars: Connection) -> None:
    for words in (["show", "x"], ["alter", "x", "--priority", "1"], ["drop", "x", "--yes"], ["history", "x"]):
        assert (cli("rule", *words, "--json").code, cli("rule", *words, "--json").error["error"]) == (3, "UnknownRule")
    assert cli("rule", "alter", "x").code == 2
    assert cli("rule", "create", "x", "--topic", "boats", "--event-type", "A", "--action", "B").code == 3


def test_condition_that_is_none_is_refused_with_its_place(cli: Cli, cars: Connection) -> None:
    refused = cli("rule", "create", "bad", *FAST, "--condition", "pg_sleep(10) = 1", "--json")
    assert (refused.code, refused.error["error"]) == (5, "ConditionError")
    assert "line 1, column 1" in refused.error["message"]
    assert cli("rule", "list", "--json").json == []


def test_plan_shows_and_apply_does(cli: Cli, cars: Connection, file: Path, tmp_path: Path) -> None:
    cli("rule", "create", "fast", *FAST)
    [planned] = cli("rule", "plan", str(file), "--json").json
    assert (planned["create"], planned["change"], planned["drop"]) == (["slow"], [{"rule": "fast", "differs": ["condition"]}], [])
    assert cli("rule", "plan", str(file), "--check").code == 6
    assert [one["name"] for one in cli("rule", "list", "--json").json] == ["fast"], "a plan changes nothing"
    told = cli("rule", "apply", str(file), given="y\n")
    assert (told.code, "1 to create, 1 to change, 0 to drop, 0 the same" in told.out) == (0, True)
    assert cli("rule", "plan", str(file), "--check").code == 0
    other = tmp_path / "other.yaml"
    other.write_text("rules:\n  - {name: third, topic: cars, event_type: NEW_CAR, action: NOTIFY}\n")
    [planned] = cli("rule", "apply", str(other), "--yes", "--json").json
    assert (planned["create"], planned["drop"]) == (["third"], []), "another file's rules are left alone"
    file.write_text("rules: []\n")
    assert cli("rule", "apply", str(file), "--yes", "--json").json[0]["drop"] == ["fast", "slow"]
    assert [one["name"] for one in cli("rule", "list", "--json").json] == ["third"]


def test_apply_asks(cli: Cli, cars: Connection, file: Path) -> None:
    assert cli("rule", "apply", str(file), given="n\n").code == 1
    assert cli("rule", "apply", str(file), "--json").code == 2
    assert cli("rule", "list", "--json").json == []


def test_file_with_a_mistake_names_file_and_rule(cli: Cli, cars: Connection, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(FILE.replace("< 10", "< now()"))
    refused = cli("rule", "apply", str(file), "--yes", "--json")
    assert (refused.code, refused.error["error"]) == (5, "ConditionError")
    assert "in rules.yaml, rule 'slow'" in refused.error["message"]
    code = tmp_path / "rules.py"
    code.write_text("1 / 0\n")
    refused = cli("rule", "plan", str(code), "--json")
    assert (refused.code, "ZeroDivisionError" in refused.error["message"]) == (5, True)
    assert cli("rule", "list", "--json").json == []


def test_names_are_registered_and_supervised(cli: Cli, cars: Connection) -> None:
    warned = cli("rule", "create", "fast", *FAST)
    assert (warned.code, "does not know" in warned.err) == (0, True)
    assert cli("event-type", "list", "--json").json[0] | {"shard": ""} == {
        "shard": "", "name": "NEW_CAR", "registered": False, "description": None, "rules": 1,
    }  # fmt: skip
    cli("event-type", "create", "NEW_CAR", "--description", "a car is new")
    cli("action", "create", "NOTIFY")
    assert cli("event-type", "list", "--json").json[0]["description"] == "a car is new"
    [action] = cli("action", "list", "--json").json
    assert (action["name"], action["registered"], action["rules"], action["nodes"]) == ("NOTIFY", True, 1, 0)
    assert cli("namespace", "alter", "default", "--unknown-names", "refuse").code == 0
    assert cli("rule", "create", "boat", "--topic", "cars", "--event-type", "NEW_BOAT", "--action", "NOTIFY").code == 5
    assert cli("rule", "create", "second", *FAST).err == ""
    assert cli("event-type", "drop", "NEW_CAR").code == 0
    assert cli("event-type", "drop", "NEW_CAR").code == 5
    assert cli("action", "drop", "NOTIFY").code == 0
    assert cli("event-type", "create", "not a type").code == 5
