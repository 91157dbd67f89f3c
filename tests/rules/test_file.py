"""Rules from Python and from a file: a plan first, then exactly that."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core import BadRuleFile, RuleExists, UnknownRule, UnknownTopic
from headrace.db import Connection
from headrace.lang.condition import ConditionError, load_corpus
from headrace.rules import Rule, alter_rule, apply, create_rule, drop_rule, list_rules, load_rules, plan
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
    assert [one.name for one in load_rules(tmp_path / "rules.py")] == ["r1", "r2"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rules: [1", "not YAML"),
        ("- 1", "no list `rules`"),
        ("rules: [{name: a, topic: t, event_type: e, action: a, colour: red}]", "unknown colour; known are name"),
        ("rules: [{name: a, topic: t, event_type: e}]", "missing required field `action`"),
        ("rules: [{name: a, topic: t, event_type: e, action: a, timing: soon}]", "'soon'"),
        ("rules: [{name: a, topic: t, event_type: e, action: a}, {name: a, topic: t, event_type: e, action: a}]", "twice"),
        ("!!python/object/apply:os.system ['true']", "not YAML"),
    ],
)
def test_bad_file_is_refused_with_its_reason(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "rules.yaml").write_text(text)
    with pytest.raises(BadRuleFile, match=told):
        load_rules(tmp_path / "rules.yaml")


def test_plan_shows_what_apply_does_and_a_second_plan_is_empty(cars: Connection) -> None:
    create_rule(cars, rule("by-hand"))
    apply(cars, plan(cars, [rule("same"), rule("changes"), rule("goes")]))
    wanted = [rule("same"), rule("changes", condition="false", priority=3), rule("new")]
    shown = plan(cars, wanted)
    assert [one.name for one in shown.create] == ["new"]
    assert [(change.after.name, change.differs) for change in shown.change] == [("changes", ("condition", "priority"))]
    assert [state.rule.name for state in shown.drop] == ["goes"]
    assert [state.rule.name for state in shown.same] == ["same"]
    assert names(cars) == ["by-hand", "changes", "goes", "same"]

    apply(cars, shown)
    assert names(cars) == ["by-hand", "changes", "new", "same"]
    assert plan(cars, wanted).empty


def test_plan_takes_over_a_rule_of_its_name_and_leaves_others_alone(cars: Connection) -> None:
    create_rule(cars, rule("both"))
    create_rule(cars, rule("by-hand"))
    apply(cars, plan(cars, [rule("both")]))
    assert [(state.rule.name, state.source) for state in list_rules(cars)] == [("both", "file"), ("by-hand", "sql")]
    assert [state.rule.name for state in plan(cars, []).drop] == ["both"]


def test_apply_is_all_or_nothing(cars: Connection) -> None:
    shown = plan(cars, [rule("a"), rule("b", topic="nowhere")])
    with pytest.raises(UnknownTopic):
        apply(cars, shown)
    assert names(cars) == []


def test_create_alter_and_drop_name_what_is_there(cars: Connection) -> None:
    create_rule(cars, rule("a"))
    with pytest.raises(RuleExists, match="'a' is already there"):
        create_rule(cars, rule("a"))
    with pytest.raises(UnknownRule, match="known rules: a"):
        alter_rule(cars, rule("b"))
    with pytest.raises(UnknownRule, match="known rules: a"):
        drop_rule(cars, "b")
    alter_rule(cars, rule("a", delay_s=60))
    assert list_rules(cars, name="a")[0].rule.delay_s == 60
    drop_rule(cars, "a")
    assert names(cars) == []


@pytest.mark.lane("pg18")
def test_hostile_text_is_refused_from_python_before_anything_is_written(cars: Connection) -> None:
    for case in HOSTILE:
        with pytest.raises(ConditionError):
            create_rule(cars, rule("a", condition=case.condition))
    assert names(cars) == []


def test_hostile_text_is_refused_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rules.py"
    for case in HOSTILE:
        options = f"name='a', topic='t', event_type='e', action='a', condition={case.condition!r}"
        file.write_text(f"from headrace.rules import Rule\nrules = [Rule({options})]")
        with pytest.raises(ConditionError) as refused:
            load_rules(file)
        assert refused.value.__notes__ == ["in rules.py, rule 'a'"]
