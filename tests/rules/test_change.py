"""Rules are managed by plain SQL: every change is a version, active from a stated position on."""

from __future__ import annotations

import pytest

from headrace.core import UnknownTopic
from headrace.db import Connection, map_database_errors
from headrace.rules import RuleEngine, list_rules
from tests.builders import drain, notifications, topic

from .steps import compile_all, firings, publish, settle, write


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    return conn


def versions(conn: Connection) -> list[tuple[object, ...]]:
    return conn.execute(
        """select version, status, dropped, since_position, until_position from headrace.rule_version
           order by version_id"""
    ).fetchall()


async def test_changed_rule_takes_effect_at_a_stated_position(cars: Connection, reactor: RuleEngine) -> None:
    write(cars, "fast", "(object -> 'hp')::int > 100")
    for hp in (50, 150):
        publish(cars, "NEW_CAR", {"hp": hp})
    await settle(reactor, cars)
    cars.execute("update headrace.rule set condition = '(object -> ''hp'')::int > 10'")
    for hp in (50, 150):
        publish(cars, "NEW_CAR", {"hp": hp})
    await settle(reactor, cars)

    assert firings(cars) == [("fast", 1, 2), ("fast", 2, 3), ("fast", 2, 4)]
    assert versions(cars) == [(1, "valid", False, 1, 2), (2, "valid", False, 3, None)]
    assert list_rules(cars)[0].since_position == 3


async def test_event_published_after_a_rule_waits_until_it_is_compiled(cars: Connection, reactor: RuleEngine) -> None:
    write(cars, "first", "true")
    await compile_all(reactor)
    write(cars, "second", "true")
    publish(cars, "NEW_CAR", {})
    drain(cars)
    assert cars.execute("select * from headrace_internal.react(1, 10)").fetchall() == []

    await settle(reactor, cars)
    assert firings(cars) == [("first", 1, 1), ("second", 1, 1)]


async def test_events_before_the_first_rule_are_not_evaluated(cars: Connection, reactor: RuleEngine) -> None:
    publish(cars, "NEW_CAR", {})
    drain(cars)
    write(cars, "all", "true")
    publish(cars, "NEW_CAR", {})
    await settle(reactor, cars)
    assert firings(cars) == [("all", 1, 2)]
    assert cars.execute("select count(*) from headrace.event_unmatched").fetchone() == (0,)


async def test_invalid_rule_is_marked_with_its_error_and_the_others_go_on(cars: Connection, reactor: RuleEngine) -> None:
    write(cars, "bad", "(object -> 'hp')::regclass = 1")
    write(cars, "good", "true")
    publish(cars, "NEW_CAR", {})
    await settle(reactor, cars)

    assert firings(cars) == [("good", 1, 1)]
    row = cars.execute("select status, error from headrace.rule where rule = 'bad'").fetchone()
    assert row is not None and row[0] == "invalid"
    assert "a cast to regclass" in row[1] and "^" in row[1]


async def test_rule_made_invalid_ends_where_it_was_changed(cars: Connection, reactor: RuleEngine) -> None:
    write(cars, "all", "true")
    publish(cars, "NEW_CAR", {})
    await settle(reactor, cars)
    cars.execute("update headrace.rule set condition = 'drop table'")
    publish(cars, "NEW_CAR", {})
    await settle(reactor, cars)
    assert firings(cars) == [("all", 1, 1)]
    assert versions(cars) == [(1, "valid", False, 1, 1), (2, "invalid", False, None, None)]


async def test_deleted_and_inactive_rules_do_not_fire_and_stay_on_record(cars: Connection, reactor: RuleEngine) -> None:
    write(cars, "gone", "true")
    write(cars, "asleep", "true")
    await compile_all(reactor)
    cars.execute("delete from headrace.rule where rule = 'gone'")
    cars.execute("update headrace.rule set active = false where rule = 'asleep'")
    publish(cars, "NEW_CAR", {})
    await settle(reactor, cars)
    assert firings(cars) == []
    assert cars.execute("select count(*) from headrace.rule_version").fetchone() == (4,)
    assert [(state.rule.name, state.status) for state in list_rules(cars)] == [("asleep", "valid")]


async def test_change_that_changes_nothing_makes_no_version(cars: Connection, reactor: RuleEngine) -> None:
    write(cars, "all", "true")
    await compile_all(reactor)
    cars.execute("update headrace.rule set condition = condition, source = 'elsewhere'")
    assert len(versions(cars)) == 1


async def test_of_several_changes_at_once_the_last_is_active(cars: Connection, reactor: RuleEngine) -> None:
    write(cars, "all", "false")
    for condition in ("nonsense", "true", "(object -> 'a')::int = 1"):
        cars.execute("update headrace.rule set condition = %s", (condition,))
    publish(cars, "NEW_CAR", {"a": 1})
    await settle(reactor, cars)
    assert firings(cars) == [("all", 4, 1)]


async def test_rule_moved_to_another_topic_ends_on_the_old_one(cars: Connection, reactor: RuleEngine) -> None:
    topic(cars, "boats")
    write(cars, "all", "true")
    await compile_all(reactor)
    cars.execute("update headrace.rule set topic = 'boats'")
    publish(cars, "NEW_CAR", {})
    publish(cars, "NEW_CAR", {}, topic="boats")
    await settle(reactor, cars)
    assert firings(cars) == [("all", 3, 1)]
    assert cars.execute("select topic from headrace.event_history").fetchall() == [("boats",)]


async def test_topic_without_rules_has_no_consumer(cars: Connection, reactor: RuleEngine) -> None:
    write(cars, "all", "true")
    await compile_all(reactor)
    assert len(await reactor.watched()) == 1
    cars.execute("delete from headrace.rule")
    await compile_all(reactor)
    assert await reactor.watched() == []
    assert cars.execute("select count(*) from headrace.consumer").fetchone() == (0,)
    assert cars.execute("select count(*) from headrace_internal.rule_program").fetchone() == (0,)


async def test_topic_can_be_dropped_with_its_rules(cars: Connection, reactor: RuleEngine) -> None:
    write(cars, "all", "true")
    write(cars, "within", "true", timing="inline")
    await compile_all(reactor)
    cars.execute("select headrace.drop_topic('cars', true)")
    assert cars.execute("select count(*) from headrace_internal.rule_program").fetchone() == (0,)
    topic(cars, "boats")
    write(cars, "all", "true", topic="boats")
    publish(cars, "NEW_CAR", {}, topic="boats")
    assert await settle(reactor, cars) == 1


def test_rule_on_an_unknown_topic_is_rejected(cars: Connection) -> None:
    with pytest.raises(UnknownTopic, match="boats"), map_database_errors():
        write(cars, "all", "true", topic="boats")


def test_compilers_are_notified_once_per_statement(cars: Connection, second: Connection) -> None:
    second.execute("listen headrace_rule")
    cars.execute(
        """insert into headrace.rule (rule, topic, event_type, action)
           select 'r' || n, 'cars', 'NEW_CAR', 'act' from generate_series(1, 100) n"""
    )
    assert notifications(second, cars) == 1


async def test_status_is_written_once_the_row_is_unlocked(cars: Connection, second: Connection, reactor: RuleEngine) -> None:
    write(cars, "all", "true")
    with second.transaction(force_rollback=True):
        second.execute("update headrace.rule set action = 'other'")
        await compile_all(reactor)
        assert cars.execute("select status from headrace.rule").fetchone() == ("pending",)
    await reactor.compile_once()
    assert cars.execute("select status from headrace.rule").fetchone() == ("valid",)
