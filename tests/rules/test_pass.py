"""The pass: rules and simple correlators work on new events in the step that appends them. Whatever hinders one of them hinders neither the
events nor the others, and it works on them later, once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping

import psycopg
import pytest

from headrace.correlators import CorrelatorEngine
from headrace.db import Connection, Target, connect
from headrace.rules import RuleEngine
from tests.builders import topic

from .steps import compile_all, firings, publish, sent, write

PATTERN = "repeat {push(twice) {sequential {NEW_CAR, NEW_CAR}}}"
OUTPUTS = json.dumps({"twice": {"action": "again"}})
Served = dict[int, dict[int, int | None]]


@pytest.fixture
async def cars(conn: Connection, reactor: RuleEngine, correlators: CorrelatorEngine) -> Connection:
    """Two topics with a rule that fires on each event, and a correlator over the first."""
    for name in ("cars", "bikes"):
        topic(conn, name)
        write(conn, name, "true", topic=name)
    correlate(conn, "pairs")
    await compile_all(reactor)
    while await correlators.compile_once():
        pass
    return conn


def correlate(conn: Connection, name: str) -> None:
    conn.execute(
        "insert into headrace.correlator (correlator, topic, pattern, outputs) values (%s, 'cars', %s, %s)",
        (name, PATTERN, OUTPUTS),
    )


def topic_id(conn: Connection, name: str = "cars") -> int:
    (found,) = conn.execute("select headrace.topic_id(%s)", (name,)).fetchone()  # type: ignore[misc]
    return int(found)


def step(conn: Connection, places: Mapping[int, list[int]], *, batch: int = 5000, pass_ms: float = 1e6) -> Served:
    """One step of the sequencer with these members of the pass; what each of them did, by topic. Without its limit of time: a session that
    plans everything for the first time on a busy machine may take longer."""
    members = [(topic, number) for topic, numbers in places.items() for number in numbers]
    rows = conn.execute(
        "select topic_id, payload from headrace_internal.sequence_step(%s, false, '{}', %s::integer[], %s::integer[], %s) "
        "where event_id is null",
        (batch, [topic for topic, _ in members], [number for _, number in members], pass_ms),
    ).fetchall()
    return {topic: {number: outputs for number, outputs, _ in said["served"] or ()} for topic, said in rows}


def positions(conn: Connection, name: str = "cars") -> list[int]:
    """Positions of the cursors of a topic's rules and correlators."""
    return [
        position
        for (position,) in conn.execute(
            "select u.position from headrace.cursor u join headrace.consumer c using (consumer_id) "
            "where c.topic_id = headrace.topic_id(%s) and c.consumer like 'headrace.%%' order by c.consumer desc",
            (name,),
        )
    ]


def head(conn: Connection, name: str = "cars") -> int:
    (found,) = conn.execute("select coalesce(max(position), 0) from headrace.log_head(headrace.topic_id(%s))", (name,)).fetchone()  # type: ignore[misc]
    return int(found)


def break_rules(conn: Connection, name: str, program: str) -> None:
    """Gives the rules of a topic a program that no condition has."""
    conn.execute(
        "update headrace_internal.rule_program set checksum = md5(random()::text), program = replace(program, 'l.producer,', %s) "
        "where topic_id = headrace.topic_id(%s)",
        (f"({program}) as producer,", name),
    )


async def react(reactor: RuleEngine, name: str = "cars") -> int:
    [watched] = [watched for watched in await reactor.watched() if watched.topic == name]
    batch = await reactor.fire_once(watched)
    return batch.firings if batch else 0


async def test_rules_and_correlators_work_in_the_step(cars: Connection) -> None:
    id_ = topic_id(cars)
    for n in range(1, 4):
        publish(cars, "NEW_CAR", {"n": n})
        assert step(cars, {id_: [0, 1]}) == {id_: {0: 1, 1: 1 - n % 2}}
    assert [(rule, position) for rule, _, position in firings(cars)] == [("cars", 1), ("cars", 2), ("cars", 3)]
    assert [action["action"] for action in sent(cars)] == ["act", "act", "again", "act"]
    assert positions(cars) == [3, 3]


async def test_nobody_works_in_a_step_without_being_named(cars: Connection) -> None:
    publish(cars, "NEW_CAR", {})
    assert step(cars, {}) == {topic_id(cars): {}}
    assert firings(cars) == [] and positions(cars) == [0, 0]


async def test_member_that_is_behind_is_left_alone(cars: Connection, reactor: RuleEngine) -> None:
    id_ = topic_id(cars)
    publish(cars, "NEW_CAR", {})
    step(cars, {id_: [1]})
    publish(cars, "NEW_CAR", {})
    assert step(cars, {id_: [0, 1]}) == {id_: {1: 1}}
    assert await react(reactor) == 2
    publish(cars, "NEW_CAR", {})
    assert step(cars, {id_: [0, 1]}) == {id_: {0: 1, 1: 0}}


@pytest.mark.parametrize(
    "hindrance",
    [
        "select headrace.pause('consumer', 'cars/headrace.rules')",
        "update headrace_internal.cursor set retry_at = headrace.clock() - interval '1 hour'",
        "update headrace_internal.cursor set state = 'stopped'",
        "update headrace_internal.cursor set single_to = 5",
        "update headrace_internal.topic set engine = 'spark'",
        "insert into headrace.rule (rule, topic, event_type, action) values ('later', 'cars', 'NEW_CAR', 'act')",
    ],
)
async def test_rules_with_something_else_due_are_left_alone(cars: Connection, hindrance: str) -> None:
    id_ = topic_id(cars)
    cars.execute(hindrance)
    publish(cars, "NEW_CAR", {})
    assert 0 not in step(cars, {id_: [0]})[id_]
    assert firings(cars) == [] and head(cars) == 1


@pytest.mark.parametrize(
    "hindrance",
    [
        "select headrace.pause('correlator', 'pairs')",
        "update headrace_internal.cursor set retry_at = headrace.clock()",
        "update headrace_internal.cursor set single_to = 5",
        "update headrace_internal.topic set engine = 'spark'",
        "update headrace_internal.correlator_table set simple = false",
        "update headrace_internal.correlator_table set halted = true",
        "update headrace.correlator set pattern = 'push(x) {NEW_CAR}', outputs = '{}' where correlator = 'pairs'",
        "delete from headrace.correlator",
    ],
)
async def test_correlator_with_something_else_due_is_left_alone(cars: Connection, hindrance: str) -> None:
    id_ = topic_id(cars)
    cars.execute(hindrance)
    publish(cars, "NEW_CAR", {})
    assert 1 not in step(cars, {id_: [1]})[id_]
    assert head(cars) == 1


async def test_correlator_is_never_stepped_on_the_events_of_another_topic(cars: Connection) -> None:
    bikes = topic_id(cars, "bikes")
    publish(cars, "NEW_CAR", {}, topic="bikes")
    assert step(cars, {bikes: [1, 99]}) == {bikes: {}}
    assert positions(cars) == [0, 0]


async def test_rule_written_before_an_event_fires_on_it(cars: Connection, reactor: RuleEngine) -> None:
    write(cars, "second", "true")
    publish(cars, "NEW_CAR", {})
    step(cars, {topic_id(cars): [0]})
    await compile_all(reactor)
    await react(reactor)
    assert [rule for rule, _, _ in firings(cars)] == ["cars", "second"]


async def test_rule_that_is_compiled_meanwhile_begins_behind_the_step(
    cars: Connection, second: Connection, reactor: RuleEngine
) -> None:
    publish(cars, "NEW_CAR", {})
    with cars.transaction():
        step(cars, {topic_id(cars): [0]})
        write(second, "second", "true")
        with pytest.raises(psycopg.errors.LockNotAvailable), second.transaction():
            second.execute("set local lock_timeout = '20ms'")
            second.execute("select headrace_internal.begin_compilation(%s, 'headrace.rules', true)", (topic_id(cars),))
    await compile_all(reactor)
    publish(cars, "NEW_CAR", {})
    step(cars, {topic_id(cars): [0]})
    assert [(rule, position) for rule, _, position in firings(cars)] == [("cars", 1), ("cars", 2), ("second", 2)]


async def test_rules_that_another_session_works_on_are_left_alone(cars: Connection, second: Connection) -> None:
    id_ = topic_id(cars)
    publish(cars, "NEW_CAR", {})
    with second.transaction():
        second.execute("select headrace_internal.begin_compilation(%s, 'headrace.rules', true)", (id_,))
        assert step(cars, {id_: [0, 1]}) == {id_: {1: 0}}
    assert head(cars) == 1 and firings(cars) == []


async def test_evaluation_that_raises_stops_neither_the_events_nor_the_others(cars: Connection, reactor: RuleEngine) -> None:
    id_, bikes = topic_id(cars), topic_id(cars, "bikes")
    break_rules(cars, "cars", "select (1 / (l.position - l.position))::text")
    for name in ("cars", "bikes"):
        publish(cars, "NEW_CAR", {}, topic=name)
    assert step(cars, {id_: [0, 1], bikes: [0]}) == {id_: {0: None, 1: 0}, bikes: {0: 1}}
    assert (head(cars), head(cars, "bikes")) == (1, 1)
    assert (positions(cars), positions(cars, "bikes")) == ([0, 1], [1])
    assert [rule for rule, _, _ in firings(cars)] == ["bikes"] and len(sent(cars)) == 1
    await react(reactor)
    assert "division by zero" in str(cars.execute("select error from headrace.cursor where error is not null").fetchall())


async def test_all_that_fail_are_left_and_the_rest_is_done_once(cars: Connection) -> None:
    id_, bikes = topic_id(cars), topic_id(cars, "bikes")
    for name in ("cars", "bikes"):
        break_rules(cars, name, "select (1 / (l.position - l.position))::text")
        publish(cars, "NEW_CAR", {}, topic=name)
    assert step(cars, {id_: [1, 0], bikes: [0]}) == {id_: {0: None, 1: 0}, bikes: {0: None}}
    assert (head(cars), head(cars, "bikes"), firings(cars)) == (1, 1, [])
    assert positions(cars) == [0, 1]


async def test_open_resume_delays_nobody_and_its_rule_fires_later(
    cars: Connection, second: Connection, reactor: RuleEngine
) -> None:
    """A role of a namespace may keep its resume open for as long as it likes."""
    id_, bikes = topic_id(cars), topic_id(cars, "bikes")
    cars.execute("select headrace.pause('rule', 'cars')")
    times_s: list[float] = []
    free_s: list[float] = []
    for n in range(1, 6):
        with second.transaction(force_rollback=True):
            second.execute("select headrace.resume('rule', 'cars')")
            for name in ("cars", "bikes"):
                publish(cars, "NEW_CAR", {}, topic=name)
            started = time.monotonic()
            assert step(cars, {id_: [0], bikes: [0]}) == {id_: {0: None}, bikes: {0: 1}}
            times_s.append(time.monotonic() - started)
        assert await react(reactor) == 1
        assert len(firings(cars)) == 3 * n - 1
        publish(cars, "NEW_CAR", {})
        started = time.monotonic()
        assert step(cars, {id_: [0], bikes: [0]}) == {id_: {0: 1}}
        free_s.append(time.monotonic() - started)
    # Everything else in a step waits for 200 ms.
    assert min(times_s) < min(free_s) + 0.15


async def test_open_deletion_of_a_correlator_delays_nobody(cars: Connection, second: Connection) -> None:
    id_ = topic_id(cars)
    publish(cars, "NEW_CAR", {})
    step(cars, {id_: [0, 1]})
    with second.transaction(force_rollback=True):
        second.execute("delete from headrace_internal.correlator")
        publish(cars, "NEW_CAR", {})
        served = step(cars, {id_: [0, 1]})[id_]
        assert served[0] == 1 and served.get(1) is None
    assert head(cars) == 2


async def test_nobody_begins_after_the_time_is_over(cars: Connection) -> None:
    id_, bikes = topic_id(cars), topic_id(cars, "bikes")
    for name in ("cars", "bikes"):
        break_rules(cars, name, "select pg_sleep(0.05)::text")
        publish(cars, "NEW_CAR", {}, topic=name)
    served = step(cars, {id_: [0, 1], bikes: [0]}, pass_ms=20)
    assert sorted(len(numbers) for numbers in served.values()) == [0, 1]
    assert len(firings(cars)) == 1


async def test_at_most_25_work_in_a_step(cars: Connection, correlators: CorrelatorEngine) -> None:
    for n in range(26):
        correlate(cars, f"more_{n}")
    while await correlators.compile_once():
        pass
    id_ = topic_id(cars)
    publish(cars, "NEW_CAR", {})
    assert len(step(cars, {id_: list(range(1, 28))})[id_]) <= 25


@pytest.mark.parametrize(("events", "batch"), [(101, 5000), (10, 10)])
async def test_step_with_many_events_appends_only(cars: Connection, events: int, batch: int) -> None:
    id_ = topic_id(cars)
    with cars.transaction():
        for n in range(events):
            publish(cars, "NEW_CAR", {"n": n})
    assert step(cars, {id_: [0, 1]}, batch=batch) == {id_: {}}
    assert positions(cars) == [0, 0] and head(cars) == events


async def test_events_of_a_correlator_in_the_step_come_with_the_next_one(cars: Connection) -> None:
    cars.execute(
        "update headrace_internal.correlator_version set outputs = %s",
        (json.dumps({"twice": {"event": "NEW_CAR", "topic": "bikes"}}),),
    )
    id_, bikes = topic_id(cars), topic_id(cars, "bikes")
    for _ in range(2):
        publish(cars, "NEW_CAR", {})
    assert step(cars, {id_: [1], bikes: [0]}) == {id_: {1: 1}}
    assert step(cars, {id_: [1], bikes: [0]}) == {bikes: {0: 1}}


async def test_step_that_dies_leaves_nothing_and_the_next_does_it_all(cars: Connection, second: Connection) -> None:
    id_ = topic_id(cars)
    publish(cars, "NEW_CAR", {})
    with pytest.raises(psycopg.OperationalError), second.transaction():
        assert step(second, {id_: [0, 1]}) == {id_: {0: 1, 1: 0}}
        cars.execute("select pg_terminate_backend(%s)", (second.info.backend_pid,))
        second.execute("select 1")
    assert (head(cars), firings(cars), sent(cars), positions(cars)) == (0, [], [], [0, 0])
    assert step(cars, {id_: [0, 1]}) == {id_: {0: 1, 1: 0}}
    assert len(sent(cars)) == 1


async def test_engine_is_not_switched_within_a_step(cars: Connection, second: Connection) -> None:
    id_ = topic_id(cars)
    publish(cars, "NEW_CAR", {})
    with second.transaction():
        second.execute("select headrace.set_engine('cars', 'spark')")
        assert step(cars, {id_: [0]}) == {}
    assert step(cars, {id_: [0]}) == {id_: {}}
    assert firings(cars) == []


async def test_events_are_erased_before_a_step_or_after_it(cars: Connection, second: Connection) -> None:
    id_ = topic_id(cars)
    cars.execute("select headrace.publish('cars', 'NEW_CAR', '{\"secret\": 1}', p_key => 'k')")
    with second.transaction():
        second.execute("select headrace.erase_key('cars', 'k')")
        assert step(cars, {id_: [0]}) == {}
    assert step(cars, {id_: [0]}) == {id_: {0: 1}}
    assert "secret" not in str(sent(cars))


async def test_many_sessions_at_once_fire_once(cars: Connection, database: Target, reactor: RuleEngine) -> None:
    """Steps with and without a pass, and the ordinary way, on one topic."""
    id_, events = topic_id(cars), 60

    def sequence(places: dict[int, list[int]]) -> None:
        with connect(database) as own:
            for _ in range(4 * events):
                step(own, places, batch=3)

    def publish_all() -> None:
        with connect(database) as own:
            for n in range(events):
                publish(own, "NEW_CAR", {"n": n})

    [watched] = [watched for watched in await reactor.watched() if watched.topic == "cars"]
    work = asyncio.gather(
        asyncio.to_thread(publish_all), asyncio.to_thread(sequence, {id_: [0, 1]}), asyncio.to_thread(sequence, {id_: [0]})
    )
    while not work.done():
        await reactor.fire_once(watched)
        await asyncio.sleep(0)
    await work
    while step(cars, {}):
        pass
    while await reactor.fire_once(watched):
        pass
    assert [position for _, _, position in firings(cars)] == list(range(1, events + 1))
    acts = [action for action in sent(cars) if action["action"] == "act"]
    assert sorted(action["payload"]["n"] for action in acts) == list(range(events))
