"""Rules are created, altered and dropped from Python, and read from a file; invalid conditions never get that far."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core import RuleExists, UnknownRule
from headrace.db import Connection
from headrace.lang.condition import ConditionError, load_corpus
from headrace.rules import Rule, alter_rule, create_rule, drop_rule, list_rules, load_rules
from tests.builders import topic

YAML = """
rules:
  - name: high
    topic: cars
    event_type: NEW_CAR
    condition: (object -> 'horsepower')::int > 1000
    action: NOTIFY_HIGH_PRIORITY
    priority: 5
  - name: normal
    topic: cars
    event_type: NEW_CAR
    condition: (object -> 'price')::int < 100000 and object ->> 'color' = 'silver'
    action: NOTIFY_NORMAL_PRIORITY
"""
PYTHON = """
from headrace.rules import Rule

rules = [Rule(name=f"r{n}", topic="cars", event_type="NEW_CAR", action="A", condition=f"key = '{n}'") for n in (1, 2)]
"""
HOSTILE = load_corpus(Path(__file__).parents[1] / "corpus/condition_hostile.toml")


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    return conn


def names(conn: Connection) -> list[str]:
    return [state.rule.name for state in list_rules(conn)]


def rule(name: str, **options: object) -> Rule:
    return Rule(**{"name": name, "topic": "cars", "event_type": "NEW_CAR", "action": "A", **options})  # type: ignore[arg-type]


def test_yaml_and_python_files_are_read_alike(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(YAML)
    (tmp_path / "rules.py").write_text(PYTHON)
    high, normal = load_rules(tmp_path / "rules.yaml")
    assert (high.name, high.priority, normal.priority, normal.timing) == ("high", 5, 0, "after")
    assert [rule.name for rule in load_rules(tmp_path / "rules.py")] == ["r1", "r2"]


def test_error_names_the_rules_that_exist(cars: Connection) -> None:
    create_rule(cars, rule("a"))
    with pytest.raises(RuleExists, match='"a" already exists'):
        create_rule(cars, rule("a"))
    with pytest.raises(UnknownRule, match="known rules: a"):
        alter_rule(cars, rule("b"))
    with pytest.raises(UnknownRule, match="known rules: a"):
        drop_rule(cars, "b")
    alter_rule(cars, rule("a", delay_s=60))
    assert list_rules(cars, name="a")[0].rule.delay_s == 60
    drop_rule(cars, "a")
    assert names(cars) == []


def test_hostile_condition_in_a_file_is_rejected_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "rules.py"
    for case in HOSTILE:
        options = f"name='a', topic='t', event_type='e', action='a', condition={case.condition!r}"
        file.write_text(f"from headrace.rules import Rule\nrules = [Rule({options})]")
        with pytest.raises(ConditionError) as raised:
            load_rules(file)
        assert raised.value.__notes__ == ["in rules.py, rule 'a'"]
