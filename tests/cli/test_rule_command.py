"""`headrace rule`, `event-type` and `action` names: created, changed and dropped by hand."""

from __future__ import annotations

import pytest

from headrace.db import Connection
from tests.builders import topic
from tests.cli.conftest import Cli

pytestmark = pytest.mark.lane("pg18")

FAST = ["--topic", "cars", "--event-type", "NEW_CAR", "--action", "NOTIFY"]


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    return conn


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
    history = cli("rule", "versions", "fast", "--json").json
    assert [(version["version"], version["active"], version["dropped"]) for version in history] == [
        (1, True, False), (2, False, False), (3, False, True),
    ]  # fmt: skip
    assert "dropped" in cli("rule", "versions", "fast").out


def test_unknown_rule_is_an_error(cli: Cli, cars: Connection) -> None:
    for words in (["show", "x"], ["alter", "x", "--priority", "1"], ["drop", "x", "--yes"], ["versions", "x"]):
        assert (cli("rule", *words, "--json").code, cli("rule", *words, "--json").error["error"]) == (3, "UnknownRule")
    assert cli("rule", "alter", "x").code == 2
    assert cli("rule", "create", "x", "--topic", "boats", "--event-type", "A", "--action", "B").code == 3


def test_invalid_condition_is_rejected_with_its_place(cli: Cli, cars: Connection) -> None:
    rejected = cli("rule", "create", "bad", *FAST, "--condition", "pg_sleep(10) = 1", "--json")
    assert (rejected.code, rejected.error["error"]) == (5, "ConditionError")
    assert "line 1, column 1" in rejected.error["message"]
    assert cli("rule", "list", "--json").json == []


def test_unregistered_names_are_warned_of_or_rejected(cli: Cli, cars: Connection) -> None:
    warned = cli("rule", "create", "fast", *FAST)
    assert (warned.code, "does not know" in warned.err) == (0, True)
    assert cli("event-type", "list", "--json").json[0] | {"shard": ""} == {
        "shard": "", "name": "NEW_CAR", "registered": False, "description": None, "rules": 1, "schema": None, "validation": None,
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
    assert cli("event-type", "create", "not  a type").code == 5
