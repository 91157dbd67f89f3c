"""`headrace plan` and `headrace apply`: a file of definitions, shown first, then applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.db import Connection, Server, Target, connect
from tests.builders import own_database, topic
from tests.cli.conftest import Cli, call

pytestmark = pytest.mark.lane("pg18")

FAST = ["--topic", "cars", "--event-type", "NEW_CAR", "--action", "NOTIFY"]
FILE = """
rules:
  - {name: fast, topic: cars, event_type: NEW_CAR, condition: "(object -> 'hp')::int > 1000", action: NOTIFY}
  - {name: slow, topic: cars, event_type: NEW_CAR, condition: "(object -> 'hp')::int < 10", action: SMILE}
"""
ALL_KINDS = """
correlators:
  - {name: pair, topic: cars, pattern: "push(x) {sequential {a, b}}", outputs: {x: {action: ALARM}}}
schedules:
  - {name: nightly, cron: "0 3 * * *", topic: cars, type: count.cars}
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


def test_plan_shows_and_apply_does(cli: Cli, cars: Connection, file: Path, tmp_path: Path) -> None:
    cli("rule", "create", "fast", *FAST)
    [planned] = cli("plan", str(file), "--json").json
    meaning = planned["alter"][0].pop("meaning")
    assert meaning.startswith(("stricter: {", "looser: {")) and meaning in " ".join(cli("plan", str(file)).out.split())
    assert (planned["create"], planned["alter"], planned["drop"]) == (
        [{"kind": "rule", "name": "slow"}],
        [{"kind": "rule", "name": "fast", "differences": ["condition"]}],
        [],
    )
    assert cli("plan", str(file), "--check").code == 6
    assert [rule["name"] for rule in cli("rule", "list", "--json").json] == ["fast"], "a plan changes nothing"
    answer = cli("apply", str(file), stdin="y\n")
    assert (answer.code, "1 to create, 1 to alter, 0 to drop, 0 unchanged" in answer.out) == (0, True)
    assert cli("plan", str(file), "--check").code == 0
    other = tmp_path / "other.yaml"
    other.write_text("rules:\n  - {name: third, topic: cars, event_type: NEW_CAR, action: NOTIFY}\n")
    [planned] = cli("apply", str(other), "--yes", "--json").json
    assert (len(planned["create"]), planned["drop"]) == (1, []), "another file's rules are left alone"
    file.write_text("rules: []\n")
    [planned] = cli("apply", str(file), "--yes", "--json").json
    assert [change["name"] for change in planned["drop"]] == ["fast", "slow"]
    assert [rule["name"] for rule in cli("rule", "list", "--json").json] == ["third"]


def test_one_file_holds_all_kinds(cli: Cli, cars: Connection, file: Path) -> None:
    file.write_text(FILE + ALL_KINDS)
    answer = cli("apply", str(file), "--yes")
    assert (answer.code, "4 to create" in answer.out, "0 3 * * * (UTC) → cars, count.cars" in answer.out) == (0, True, True)
    assert [schedule["name"] for schedule in cli("schedule", "list", "--json").json] == ["nightly"]
    file.write_text((FILE + ALL_KINDS).replace("ALARM", "RING"))
    assert "correlator pair: keys 0 carried, 0 restarted" in cli("apply", str(file), "--yes").out
    file.write_text(FILE)
    dropped = cli("apply", str(file), "--yes", "--json").json[0]["drop"]
    assert [(change["kind"], change["name"]) for change in dropped] == [("correlator", "pair"), ("schedule", "nightly")]


def test_apply_asks(cli: Cli, cars: Connection, file: Path) -> None:
    assert cli("apply", str(file), stdin="n\n").code == 1
    assert cli("apply", str(file), "--json").code == 2
    assert cli("rule", "list", "--json").json == []


def test_error_in_a_file_names_file_and_definition(cli: Cli, cars: Connection, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(FILE.replace("< 10", "< now()"))
    rejected = cli("apply", str(file), "--yes", "--json")
    assert (rejected.code, rejected.error["error"]) == (5, "ConditionError")
    assert "in rules.yaml, rule 'slow'" in rejected.error["message"]
    code = tmp_path / "rules.py"
    code.write_text("1 / 0\n")
    rejected = cli("plan", str(code), "--json")
    assert (rejected.code, "ZeroDivisionError" in rejected.error["message"]) == (5, True)
    assert cli("rule", "list", "--json").json == []


def test_schedule_is_on_one_shard_and_stays_there(cars: Connection, server: Server, database: Target, file: Path) -> None:
    with own_database(server, "other", template="headrace_template") as other:
        with connect(other) as conn:
            topic(conn, "cars")
        shards = ("--dsn", f"one={database.dsn} two={other.dsn}")
        file.write_text(FILE + ALL_KINDS)
        first = call("apply", str(file), "--yes", "--json", *shards).json
        assert sorted(len(planned["create"]) for planned in first) == [3, 4]
        # Another key would choose a shard anew; a schedule that exists stays where it is.
        for key in "abcdef":
            file.write_text(FILE + ALL_KINDS.replace("count.cars", f"count.cars, key: {key}"))
            assert sum(len(planned["alter"]) for planned in call("plan", str(file), "--json", *shards).json) == 1
        file.write_text(FILE + ALL_KINDS)
        assert call("plan", str(file), "--check", *shards).code == 0
