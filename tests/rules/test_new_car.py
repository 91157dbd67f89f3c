"""The classic case: two rules on new cars, two cars that match, and a third that does not."""

from __future__ import annotations

import pytest

from headrace.db import Connection
from headrace.observe.history import event_history
from headrace.rules import RuleEngine
from tests.builders import topic

from .steps import publish, sent, settle, write

KOENIGSEGG = {"brand": "Koenigsegg", "model": "CC850", "horsepower": 1385, "price": 3650000, "color": "silver"}
HONDA = {"brand": "Honda", "model": "Jazz", "horsepower": 122, "price": 26000, "color": "silver"}
LADA = {"brand": "Lada", "model": "Niva", "horsepower": 83, "price": 14000, "color": "green"}


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    write(conn, "high", "(object -> 'horsepower')::int > 1000", action="NOTIFY_HIGH_PRIORITY")
    write(
        conn,
        "normal",
        "(object -> 'price')::int < 100000 and object ->> 'color' = 'silver'",
        action="NOTIFY_NORMAL_PRIORITY",
    )
    return conn


async def test_two_rules_and_two_cars_give_exactly_two_actions(cars: Connection, reactor: RuleEngine) -> None:
    publish(cars, "NEW_CAR", KOENIGSEGG)
    publish(cars, "NEW_CAR", HONDA)
    await settle(reactor, cars)

    assert [(action["action"], action["payload"]["model"]) for action in sent(cars)] == [
        ("NOTIFY_HIGH_PRIORITY", "CC850"),
        ("NOTIFY_NORMAL_PRIORITY", "Jazz"),
    ]
    history = cars.execute("select payload ->> 'model', action from headrace.event_history order by position").fetchall()
    assert history == [("CC850", "NOTIFY_HIGH_PRIORITY"), ("Jazz", "NOTIFY_NORMAL_PRIORITY")]
    assert cars.execute("select count(*) from headrace.event_unmatched").fetchone() == (0,)


async def test_third_car_without_a_match_is_unmatched(cars: Connection, reactor: RuleEngine) -> None:
    for car in (KOENIGSEGG, HONDA, LADA):
        publish(cars, "NEW_CAR", car)
    await settle(reactor, cars)

    assert len(sent(cars)) == 2
    assert cars.execute("select payload ->> 'model' from headrace.event_unmatched").fetchall() == [("Niva",)]


async def test_action_names_its_cause(cars: Connection, reactor: RuleEngine) -> None:
    event_id = publish(cars, "NEW_CAR", HONDA)
    await settle(reactor, cars)

    (action,) = sent(cars)
    firing = cars.execute("select firing_id, action_id::text from headrace.firing").fetchone()
    assert firing is not None
    assert action["cause"] == {
        "kind": "rule",
        "rule": "normal",
        "version": 1,
        "topic": "cars",
        "position": 1,
        "event_id": str(event_id),
        "firing_id": firing[0],
    }
    assert (action["id"], action["event_type"], action["namespace"]) == (firing[1], "NEW_CAR", "default")


async def test_action_has_the_priority_and_delay_of_its_rule(cars: Connection, reactor: RuleEngine) -> None:
    cars.execute("update headrace.rule set priority = 7, delay_s = 60 where rule = 'normal'")
    publish(cars, "NEW_CAR", {**HONDA, "horsepower": 2000})
    await settle(reactor, cars)
    rows = cars.execute("select action ->> 'action', (action -> 'priority')::int, delay_s from public.sent order by n").fetchall()
    assert rows == [("NOTIFY_HIGH_PRIORITY", 0, 0), ("NOTIFY_NORMAL_PRIORITY", 7, 60)]


async def test_trace_shows_the_history_of_an_event(cars: Connection, reactor: RuleEngine) -> None:
    event_id = publish(cars, "NEW_CAR", HONDA)
    (before,) = event_history(cars, event_id)
    assert (before.position, before.outcome) == (None, "waiting")

    await settle(reactor, cars)
    (history,) = event_history(cars, event_id)
    assert (history.position, history.outcome) == (1, "matched")
    assert [(evaluation.rule, evaluation.answer, evaluation.fired) for evaluation in history.evaluations] == [
        ("high", False, False),
        ("normal", True, True),
    ]
    assert [(firing.rule, firing.action) for firing in history.firings] == [("normal", "NOTIFY_NORMAL_PRIORITY")]

    other = publish(cars, "NEW_CAR", LADA)
    await settle(reactor, cars)
    assert event_history(cars, other)[0].outcome == "unmatched"
