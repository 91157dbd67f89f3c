"""One file holds rules, correlators and schedules: a plan shows the changes, and apply makes exactly these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.core import Invalid, InvalidCron, InvalidDefinitionFile, InvalidNumber, UnknownTopic
from headrace.correlators import CORRELATORS, CorrelatorEngine
from headrace.db import Connection
from headrace.definitions import Operation, Plan, apply, load_definitions, plan
from headrace.rules import RULES, Rule, RuleEngine, create_rule, list_rules
from headrace.schedules import SCHEDULES, Schedule, create_schedule, get_schedule, list_schedules, pause_schedule
from tests.builders import topic
from tests.correlators.steps import happen, settle_correlators
from tests.rules.steps import sent, settle

KINDS = (RULES, CORRELATORS, SCHEDULES)
YAML = """
rules:
  - name: alarm
    topic: cars
    event_type: car.stolen
    action: ALARM
correlators:
  - name: stolen
    topic: cars
    pattern: repeat {push(theft) {sequential {broken, moved}}}
    outputs:
      theft: {event: car.stolen, topic: cars}
schedules:
  - name: nightly
    cron: 0 3 * * *
    zone: Europe/Berlin
    topic: cars
    type: count.cars
    payload: {parked: true, since: 2026-01-31}
"""
PYTHON = """
from headrace.correlators import Correlator
from headrace.rules import Rule
from headrace.schedules import ScheduleDefinition

rules = [Rule(name=f"r{n}", topic="cars", event_type="NEW_CAR", action="A") for n in (1, 2)]
correlators = [Correlator(name="c", topic="cars", pattern="a")]
schedules = [ScheduleDefinition(name="s", cron="* * * * *", topic="cars", type="t")]
"""


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    topic(conn, "boats")
    return conn


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cars.yaml"
    path.write_text(YAML)
    return path


def rule(name: str, **options: object) -> Rule:
    return Rule(**{"name": name, "topic": "cars", "event_type": "NEW_CAR", "action": "A", **options})  # type: ignore[arg-type]


def rule_names(conn: Connection) -> list[str]:
    return [state.rule.name for state in list_rules(conn)]


def names(plan: Plan, operation: Operation) -> list[str]:
    return [change.name for change in plan.select(operation)]


async def test_file_of_all_kinds_is_applied_in_one_go_and_works(
    cars: Connection, file: Path, reactor: RuleEngine, correlators: CorrelatorEngine
) -> None:
    changes = plan(cars, file, kinds=KINDS)
    assert [(change.kind.noun, change.name, change.operation) for change in changes.changes] == [
        ("rule", "alarm", "create"),
        ("correlator", "stolen", "create"),
        ("schedule", "nightly", "create"),
    ]
    apply(cars, changes)
    assert plan(cars, file, kinds=KINDS).is_empty
    assert get_schedule(cars, "nightly").payload == {"parked": True, "since": "2026-01-31"}
    await settle(reactor, cars)
    await settle_correlators(correlators, cars)
    happen(cars, "broken moved")
    await settle_correlators(correlators, cars)
    await settle(reactor, cars)
    assert [action["action"] for action in sent(cars)] == ["ALARM"]


@pytest.mark.lane("pg18")
def test_list_that_leaves_the_file_is_dropped_with_it(cars: Connection, file: Path) -> None:
    create_schedule(cars, "by-hand", cron="* * * * *", topic="cars", type="t")
    apply(cars, plan(cars, file, kinds=KINDS))
    file.write_text("rules: []")
    changes = plan(cars, file, kinds=KINDS)
    assert names(changes, "drop") == ["alarm", "stolen", "nightly"]
    apply(cars, changes)
    assert (rule_names(cars), [one.name for one in list_schedules(cars)]) == ([], ["by-hand"])


@pytest.mark.lane("pg18")
def test_plan_shows_what_apply_does_and_a_second_plan_is_empty(cars: Connection) -> None:
    create_rule(cars, rule("by-hand"))
    apply(cars, plan(cars, [rule("same"), rule("changes"), rule("goes")], kinds=KINDS))
    wanted = [rule("same"), rule("changes", condition="false", priority=3), rule("new")]
    changes = plan(cars, wanted, kinds=KINDS)
    assert (names(changes, "create"), names(changes, "drop"), names(changes, "unchanged")) == (["new"], ["goes"], ["same"])
    assert [(change.name, change.differences) for change in changes.select("alter")] == [("changes", ("condition", "priority"))]
    assert rule_names(cars) == ["by-hand", "changes", "goes", "same"], "a plan changes nothing"

    apply(cars, changes)
    assert rule_names(cars) == ["by-hand", "changes", "new", "same"]
    assert plan(cars, wanted, kinds=KINDS).is_empty


@pytest.mark.lane("pg18")
def test_source_takes_over_what_it_names_and_drops_only_its_own(cars: Connection) -> None:
    for name in ("both", "by-hand"):
        create_rule(cars, rule(name))
    apply(cars, plan(cars, [rule("both")], kinds=KINDS))
    assert [(state.rule.name, state.source) for state in list_rules(cars)] == [("both", "file"), ("by-hand", "sql")]
    assert names(plan(cars, [], kinds=KINDS), "drop") == ["both"]
    assert plan(cars, [], kinds=KINDS, source="another").is_empty
    assert plan(cars, [], kinds=(CORRELATORS,)).is_empty, "kinds that are not named are left alone"


def test_apply_is_all_or_nothing_over_all_kinds(cars: Connection, file: Path) -> None:
    file.write_text(YAML.replace("topic: cars\n    type: count.cars", "topic: nowhere\n    type: count.cars"))
    with pytest.raises(UnknownTopic):
        apply(cars, plan(cars, file, kinds=KINDS))
    assert rule_names(cars) == []


@pytest.mark.lane("pg18")
@pytest.mark.parametrize(
    ("before", "after", "differences", "expect"),
    [
        ("0 3 * * *", "0 4 * * *", ("cron",), {"cron": "0 4 * * *"}),
        ("topic: cars\n    type", "topic: boats\n    type", ("topic",), {"topic": "boats"}),
        ("type: count.cars", "type: count.cars\n    key: k", ("key",), {"key": "k"}),
        ("type: count.cars", "type: count.cars\n    active: false", ("active",), {"state": "paused"}),
        ("{parked: true, since: 2026-01-31}", "", ("payload",), {"payload": {}}),
        ("zone: Europe/Berlin", "grace_s: 5", ("zone", "grace_s"), {"zone": "UTC", "grace_s": 5}),
    ],
)
def test_changed_schedule_is_altered_there_and_back(
    cars: Connection, file: Path, before: str, after: str, differences: tuple[str, ...], expect: dict[str, Any]
) -> None:
    first = schedule_after_apply(cars, file)
    file.write_text(YAML.replace(before, after))
    changes = plan(cars, file, kinds=KINDS)
    assert [change.differences for change in changes.select("alter")] == [differences]
    changed = schedule_after_apply(cars, file)
    assert {name: getattr(changed, name) for name in expect} == expect
    file.write_text(YAML)
    back = schedule_after_apply(cars, file)
    assert {name: getattr(back, name) for name in expect} == {name: getattr(first, name) for name in expect}
    assert plan(cars, file, kinds=KINDS).is_empty


def schedule_after_apply(conn: Connection, file: Path) -> Schedule:
    apply(conn, plan(conn, file, kinds=KINDS))
    return get_schedule(conn, "nightly")


@pytest.mark.lane("pg18")
def test_schedule_paused_by_hand_is_a_difference(cars: Connection, file: Path) -> None:
    apply(cars, plan(cars, file, kinds=KINDS))
    pause_schedule(cars, "nightly")
    assert [change.differences for change in plan(cars, file, kinds=KINDS).select("alter")] == [("active",)]


def test_python_file_has_the_lists_as_variables(tmp_path: Path) -> None:
    file = tmp_path / "cars.py"
    file.write_text(PYTHON)
    assert [definition.name for definition in load_definitions(file, KINDS)] == ["r1", "r2", "c", "s"]
    assert [definition.name for definition in load_definitions(file, (CORRELATORS,))] == ["c"]


ONE_RULE = "{name: a, topic: t, event_type: e, action: a}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [1", "not YAML"),
        ("!!python/object/apply:os.system ['true']", "not YAML"),
        (f"- {ONE_RULE}", "no list `rules`, `correlators`, `schedules` or `relays`; write the name above"),
        ("{}", "has no list `rules` or `correlators` or `schedules`; write `rules:` and below it"),
        ("rule: []", "unknown list rule; known are rules, correlators, schedules"),
        (f"rules: {ONE_RULE}", "`rules` is not a list; write `rules:`"),
        ("rules: [1]", "cars.yaml, rule 1: not a Rule and not a mapping"),
        ("rules: [{name: a, topic: t, event_type: e, action: a, colour: red}]", r"rule 1 \(a\): unknown colour; known are name"),
        ("rules: [{name: a, topic: t, event_type: e}]", r"rule 1 \(a\): missing required field `action`"),
        ("rules: [{name: a, topic: t, event_type: e, action: a, timing: soon}]", r"rule 1 \(a\): timing: .*'soon'"),
        ("schedules: [{name: a, topic: t, type: e, cron: 5}]", r"schedule 1 \(a\): cron: Expected `str`, got `int`"),
        ("schedules: [{name: a, topic: t, type: e, cron: '* * * * *', headers: [1]}]", r"schedule 1 \(a\): headers: "),
        (f"rules: [{ONE_RULE}, {ONE_RULE}]", "rule 'a' is there twice"),
    ],
)
def test_bad_file_is_rejected_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "cars.yaml").write_text(text)
    with pytest.raises(InvalidDefinitionFile, match=message):
        load_definitions(tmp_path / "cars.yaml", KINDS)


@pytest.mark.parametrize(
    ("cron", "payload", "error"), [("61 * * * *", "{}", InvalidCron), ("5 * * * *", "[.nan]", InvalidNumber)]
)
def test_bad_schedule_is_rejected_with_the_place(file: Path, cron: str, payload: str, error: type[Exception]) -> None:
    file.write_text(YAML.replace("0 3 * * *", cron).replace("{parked: true, since: 2026-01-31}", payload))
    with pytest.raises(error) as raised:
        load_definitions(file, KINDS)
    assert "cars.yaml, schedule" in raised.value.__notes__[0]


def test_definition_of_no_kind_is_rejected(cars: Connection) -> None:
    with pytest.raises(Invalid, match="Rule is not one of Correlator"):
        plan(cars, [rule("a")], kinds=(CORRELATORS,))
