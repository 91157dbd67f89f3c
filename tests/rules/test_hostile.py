"""Hostile conditions are rejected on every path: SQL, Python, file, command line, tester."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
import yaml

from headrace.core import Invalid
from headrace.db import Connection, Target
from headrace.lang.condition import ConditionError, load_corpus
from headrace.rules import Rule, RuleEngine, alter_rule, create_rule, list_rules, load_rules
from tests.builders import topic
from tests.cli.conftest import call
from tests.rules.steps import publish, sent, settle, write

pytestmark = pytest.mark.lane("pg18")

CORPUS = Path(__file__).parents[1] / "corpus" / "condition_hostile.toml"
HOSTILE = load_corpus(CORPUS)
SAMPLE = HOSTILE[::20]


def rule(condition: str, name: str = "hostile") -> Rule:
    return Rule(name=name, topic="cars", event_type="NEW_CAR", condition=condition, action="act")


async def test_hostile_condition_written_by_sql_is_marked_invalid_and_never_evaluated(
    conn: Connection, reactor: RuleEngine
) -> None:
    topic(conn, "cars")
    rejected_at_once: set[str] = set()
    with conn.transaction():
        for number, case in enumerate(HOSTILE):
            try:
                with conn.transaction():
                    write(conn, f"hostile {number}", case.condition, timing="inline" if number % 2 else "after")
            except (psycopg.DataError, psycopg.IntegrityError):
                rejected_at_once.add(f"hostile {number}")  # Not even text for PostgreSQL, or longer than a rule may be.
    write(conn, "good", "true", action="good")
    await settle(reactor, conn)
    for _ in range(3):
        publish(conn, "NEW_CAR", {"a": 1})
    assert await settle(reactor, conn) == 3
    assert [action["action"] for action in sent(conn)] == ["good"] * 3
    states = {state.rule.name: state for state in list_rules(conn)}
    assert len(rejected_at_once) < 10
    for number, case in enumerate(HOSTILE):
        name = f"hostile {number}"
        if name not in rejected_at_once:
            assert states[name].status == "invalid", case.name
            assert (case.error or "") in (states[name].error or ""), case.name
            assert "allowed:" in (states[name].error or ""), case.name
    row = conn.execute("select count(*) from headrace.rule_version where since_position is not null").fetchone()
    assert row == (1,), "no hostile version was ever active"


def test_python_rejects_hostile_conditions_before_anything_is_written(conn: Connection) -> None:
    topic(conn, "cars")
    create_rule(conn, rule("true", "mine"))
    for case in HOSTILE:
        with pytest.raises(ConditionError) as raised:
            create_rule(conn, rule(case.condition))
        assert (case.error or "") in str(raised.value), case.name
        with pytest.raises(ConditionError):
            alter_rule(conn, rule(case.condition, "mine"))
    assert [(state.rule.name, state.version) for state in list_rules(conn)] == [("mine", 1)]


def test_file_with_a_hostile_condition_is_rejected_whole(tmp_path: Path) -> None:
    for case in HOSTILE:
        good = {"name": "good", "topic": "cars", "event_type": "NEW_CAR", "action": "act"}
        path = tmp_path / "rules.yaml"
        path.write_text(yaml.safe_dump({"rules": [good, good | {"name": "bad", "condition": case.condition}]}))
        with pytest.raises(Invalid) as raised:
            load_rules(path)
        assert "rule 'bad'" in "".join([str(raised.value), *getattr(raised.value, "__notes__", [])]), case.name


def test_tester_rejects_hostile_conditions_on_every_engine(database: Target) -> None:
    dsn = database.dsn
    for engine in ("python", "database"):
        answer = call("condition", "test", str(CORPUS), "--engine", engine, "--dsn", dsn, "--json")
        assert (answer.code, answer.json["as_expected"]) == (0, len(HOSTILE))


def test_command_line_rejects_hostile_conditions(database: Target, conn: Connection, tmp_path: Path) -> None:
    for case in SAMPLE:
        hostile = case.condition
        words = ["rule", "create", "hostile", "--topic", "cars", "--event-type", "A", "--action", "B", "--condition", hostile]
        path = tmp_path / "rules.yaml"
        entry = {"name": "bad", "topic": "cars", "event_type": "NEW_CAR", "action": "act", "condition": hostile}
        path.write_text(yaml.safe_dump({"rules": [entry]}))
        dsn = ["--dsn", database.dsn]
        for arguments in (
            [*words, *dsn],
            ["plan", str(path), *dsn],
            ["apply", str(path), "--yes", *dsn],
            ["condition", "explain", "--", hostile],
        ):
            answer = call(*arguments)
            assert (answer.code, "allowed:" in answer.err) == (5, True), arguments
    assert list_rules(conn) == []
