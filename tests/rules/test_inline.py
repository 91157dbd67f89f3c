"""Inline rules run in the publisher's own transaction."""

from __future__ import annotations

from uuid import uuid4

import pytest

from headrace.core import Event
from headrace.db import Connection
from headrace.log import outbox
from headrace.rules import RuleEngine
from headrace.rules.programs import SHARED_MIN
from tests.builders import topic

from .steps import compile_all, firings, publish, sent, settle, write


@pytest.fixture
async def cars(conn: Connection, reactor: RuleEngine) -> Connection:
    topic(conn, "cars")
    topic(conn, "boats")
    write(conn, "within", "(object -> 'hp')::int > 100", timing="inline")
    write(conn, "later", "(object -> 'hp')::int > 100")
    await compile_all(reactor)
    return conn


def rules_sent(conn: Connection) -> list[str]:
    return [action["cause"]["rule"] for action in sent(conn)]


async def test_event_and_action_commit_together(cars: Connection, second: Connection) -> None:
    with cars.transaction():
        publish(cars, "NEW_CAR", {"hp": 150})
        assert rules_sent(cars) == ["within"]
        assert rules_sent(second) == []
    assert rules_sent(second) == ["within"]


async def test_direct_inserts_of_the_library_fire_too(cars: Connection) -> None:
    """From the second event on a connection of the owner, publish() writes to the outbox without the function."""
    for hp in (150, 160, 50):
        outbox.publish(cars, "cars", "NEW_CAR", {"hp": hp})
    assert rules_sent(cars) == ["within", "within"]


async def test_inline_rules_fire_however_an_event_is_published(cars: Connection) -> None:
    """In the producer's order, as far as a statement has several events."""
    cars.execute("create table public.car (hp integer)")
    cars.execute("select headrace.capture('public.car', 'cars', p_insert_type => 'NEW_CAR')")
    cars.execute("insert into public.car values (101), (100), (102)")
    outbox.publish_many(cars, [Event(topic="cars", type="NEW_CAR", payload={"hp": hp}) for hp in (103, 99, 104)])
    cars.execute("""select headrace.publish_cloudevent('cars',
        '{"specversion": "1.0", "id": "1", "source": "/x", "type": "NEW_CAR", "data": {"hp": 105}}')""")
    cars.execute("""select headrace.publish_many('[{"topic": "cars", "type": "NEW_CAR", "payload": {"hp": 106}},
        {"topic": "boats", "type": "NEW_CAR", "payload": {"hp": 1}}, {"topic": "cars", "type": "NEW_CAR", "payload": {"hp": 107}}]')""")
    assert [action["payload"]["hp"] for action in sent(cars)] == [101, 102, 103, 104, 105, 106, 107]


async def test_event_and_action_roll_back_together(cars: Connection, reactor: RuleEngine) -> None:
    with cars.transaction(force_rollback=True):
        publish(cars, "NEW_CAR", {"hp": 150})
    await settle(reactor, cars)
    assert sent(cars) == [] and firings(cars) == []


async def test_same_event_id_twice_fires_once(cars: Connection, reactor: RuleEngine) -> None:
    event_id = uuid4()
    publish(cars, "NEW_CAR", {"hp": 150}, id=event_id)
    publish(cars, "NEW_CAR", {"hp": 150}, id=event_id)
    await settle(reactor, cars)
    publish(cars, "NEW_CAR", {"hp": 150}, id=event_id)
    await settle(reactor, cars)
    assert rules_sent(cars) == ["within", "later"]


async def test_event_in_the_log_before_the_rule_is_not_new_when_published_again(cars: Connection, reactor: RuleEngine) -> None:
    event_id = uuid4()
    publish(cars, "NEW_CAR", {"hp": 1}, id=event_id)
    await settle(reactor, cars)
    write(cars, "all", "true", timing="inline")
    await compile_all(reactor)
    publish(cars, "NEW_CAR", {"hp": 1}, id=event_id)
    assert rules_sent(cars) == []


async def test_firing_gets_its_position_when_the_event_is_sequenced(cars: Connection, reactor: RuleEngine) -> None:
    publish(cars, "NEW_CAR", {"hp": 1})
    publish(cars, "NEW_CAR", {"hp": 150})
    assert firings(cars) == [("within", 1, None)]
    await settle(reactor, cars)
    assert firings(cars) == [("later", 1, 2), ("within", 1, 2)]
    assert cars.execute("select position from headrace.event_unmatched").fetchall() == [(1,)]


async def test_many_events_of_one_statement_are_matched_as_a_set(cars: Connection, reactor: RuleEngine) -> None:
    cars.execute(
        """select headrace.publish(case when n % 2 = 0 then 'cars' else 'boats' end, 'NEW_CAR', jsonb_build_object('hp', n))
           from generate_series(1, 1300) n"""
    )
    assert len(rules_sent(cars)) == 600
    await settle(reactor, cars)
    assert len(rules_sent(cars)) == 1200


async def test_many_inline_rules_of_one_shape_are_joined(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    for number in range(2 * SHARED_MIN):
        write(conn, f"r{number}", f"object ->> 'color' = 'c{number}' and (object -> 'hp')::int > {number}", timing="inline")
    await compile_all(reactor)
    publish(conn, "NEW_CAR", {"color": "c7", "hp": 8})
    publish(conn, "NEW_CAR", {"color": "c8", "hp": 8})
    assert rules_sent(conn) == ["r7"]


async def test_every_event_has_an_outcome_with_inline_rules_alone(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    write(conn, "within", "object ->> 'color' = 'silver'", timing="inline")
    await compile_all(reactor)
    publish(conn, "NEW_CAR", {"color": "silver"})
    publish(conn, "NEW_CAR", {"color": "red"})
    await settle(reactor, conn)
    assert conn.execute("select position from headrace.event_history").fetchall() == [(1,)]
    assert conn.execute("select position from headrace.event_unmatched").fetchall() == [(2,)]


async def test_bad_values_never_abort_the_publisher(cars: Connection) -> None:
    for value in ("x", None, [], {}, 1e300, -1, True):
        publish(cars, "NEW_CAR", {"hp": value})
    assert sent(cars) == []
