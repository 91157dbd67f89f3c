"""Correlators are rows: written, compiled, run, changed and dropped, each exactly once per position."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest

from headrace.consume import seek_consumer
from headrace.core import (
    Conflict,
    CorrelatorExists,
    CorrelatorTopicChanged,
    FeedbackLoop,
    InvalidOutputs,
    UnknownCorrelator,
    UnknownTopic,
    UnregisteredName,
)
from headrace.correlators import (
    CORRELATORS,
    ActionOutput,
    Correlator,
    CorrelatorEngine,
    EventOutput,
    alter_correlator,
    create_correlator,
    deliver_correlations,
    drop_correlator,
    key_state,
    list_correlators,
    read_instances,
    write_instances,
)
from headrace.db import Connection, Target, map_database_errors
from headrace.lang.condition import ConditionError
from headrace.lang.ecl import Correlation, Event, Instance, PatternError, Status, compile, from_json, parse
from headrace.lang.ecl.stepping import Batch
from headrace.lang.ecl.table import classify, run_step
from headrace.observe.history import event_history
from tests.builders import topic
from tests.correlators.steps import happen, pushed, settle_correlators
from tests.rules.steps import sent

PAIR = "repeat {push(x) {sequential {a, b}}}"
X = {"x": ActionOutput(action="ALARM", priority=3, delay_s=7)}


def pair(**given: Any) -> Correlator:
    return Correlator(**{"name": "pair", "topic": "cars", "pattern": PAIR, "outputs": X, "key": "key"} | given)


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    return conn


async def test_tokens_become_actions_with_the_event_and_the_evidence(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair())
    await settle_correlators(correlators, cars)
    happen(cars, "a:k1 a:k2 b:k1 b:k3 c:k2 b:k2")
    assert await settle_correlators(correlators, cars) == 2
    assert pushed(cars) == [("pair", 1, "k1", "x", 3, [1, 3]), ("pair", 1, "k2", "x", 6, [2, 6])]
    first = sent(cars)[0]
    assert (first["action"], first["key"], first["priority"], first["event_type"]) == ("ALARM", "k1", 3, "b")
    assert first["payload"] | {"at": None} == {
        "correlator": "pair", "token": "x", "key": "k1", "at": None, "position": 3, "evidence": [1, 3], "type": "b",
        "payload": {"n": 3},
    }  # fmt: skip
    assert first["cause"]["kind"] == "correlator" and first["cause"]["position"] == 3
    assert cars.execute("select distinct delay_s from public.sent").fetchall() == [(7,)]


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
@pytest.mark.parametrize("pattern", [PAIR, f"parallel {{{PAIR}, repeat {{push(y) {{c}}}}}}"])
async def test_state_and_evidence_go_from_batch_to_batch(
    cars: Connection, correlators: CorrelatorEngine, batch: int, pattern: str
) -> None:
    create_correlator(cars, pair(pattern=pattern))
    await settle_correlators(correlators, cars)
    happen(cars, "a:k a:j b:j a:j a:k c:k b:k b:k a:k b:k b:j")
    await settle_correlators(correlators, cars, batch=batch)
    assert [(key, position, evidence) for _, _, key, token, position, evidence in pushed(cars) if token == "x"] == [
        ("j", 3, [2, 3]), ("k", 7, [1, 7] if pattern == PAIR else [1, 6, 7]), ("k", 10, [9, 10]), ("j", 11, [4, 11]),
    ]  # fmt: skip


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("batch", [1, 3, 11, 1000])
async def test_window_aggregate_and_the_table_s_own_function_agree_on_outputs_evidence_and_state(
    cars: Connection, correlators: CorrelatorEngine, batch: int
) -> None:
    rng = random.Random(batch)
    events = [(rng.choice("aabbcd"), f"k{rng.randrange(4)}") for _ in range(150)]
    pattern = "repeat {push(x) {do {sequential {a, push(y) {b}, a}} unless {push(z) {c}}}}"
    create_correlator(cars, pair(pattern=pattern, evidence_max=3))
    await settle_correlators(correlators, cars)
    happen(cars, " ".join(f"{type_}:{key}" for type_, key in events))
    await settle_correlators(correlators, cars, batch=batch)

    table = compile(parse(pattern))
    assert table.simple
    stepped = Batch(table, evidence_max=3)
    for position, (type_, key) in enumerate(events, 1):
        (symbol,) = classify(table, Event(type_, 0))
        stepped.step(key, position, (symbol,), 0)
    rows = cars.execute("select key, position, token, place, evidence, evidence_total from headrace.correlation order by 2, 4")
    outputs = [(o.key, o.position, o.token, o.place, list(o.evidence), o.evidence_total) for o in stepped.outputs]
    assert rows.fetchall() == outputs and len(outputs) > 20
    instances = cars.execute(
        "select key, units, evidence, evidence_total from headrace.correlator_instance order by key"
    ).fetchall()
    assert instances == sorted(
        (instance.key, list(instance.units), instance.evidence[-3:], instance.evidence_total) for instance in stepped.changed
    )


@pytest.mark.parametrize("pattern", [PAIR, f"parallel {{{PAIR}, push(y) {{sequential {{c, after 1 h}}}}}}"])
async def test_turn_that_has_read_all_rests_and_one_that_has_not_goes_on(
    cars: Connection, correlators: CorrelatorEngine, pattern: str
) -> None:
    """By the database and by the node: events that are appended meanwhile notify."""
    create_correlator(cars, pair(pattern=pattern, outputs=X if pattern == PAIR else X | {"y": X["x"]}))
    await settle_correlators(correlators, cars)
    happen(cars, "a:k b:k a:k b:k a:k")
    (watched,) = await correlators.watched()
    assert watched.simple == (pattern == PAIR)
    batch = await correlators.step_once(watched, limit=2)
    assert batch is not None and batch.has_more
    cars.execute("update headrace_internal.cursor set single_to = position + 1")
    assert await correlators.turn(watched) == 0
    assert await correlators.turn(watched) > 0
    assert len(pushed(cars)) == 2
    assert await correlators.step_once(watched) is None


async def test_evidence_is_cut_to_its_newest_positions(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair(pattern="push(x) {sequential {a, a, a, a, b}}", evidence_max=2))
    await settle_correlators(correlators, cars)
    happen(cars, "a:k a:k a:k a:k b:k")
    await settle_correlators(correlators, cars, batch=2)
    assert cars.execute("select evidence, evidence_total from headrace.correlation").fetchall() == [([4, 5], 5)]


async def test_token_becomes_one_event_on_another_topic(cars: Connection, correlators: CorrelatorEngine) -> None:
    topic(cars, "alerts")
    create_correlator(cars, pair(outputs={"x": EventOutput(event="pair.seen", topic="alerts")}))
    await settle_correlators(correlators, cars)
    happen(cars, "a:k b:k")
    await settle_correlators(correlators, cars)
    happen(cars, "")
    rows = cars.execute(
        """select l.type, l.key, l.payload ->> 'token', l.event_id = f.output_id
           from headrace.log l cross join headrace.correlation f where l.topic_id = headrace.topic_id('alerts')"""
    ).fetchall()
    assert rows == [("pair.seen", "k", "x", True)]


async def test_key_is_a_value_of_the_condition_language_and_events_without_it_are_passed(
    cars: Connection, correlators: CorrelatorEngine
) -> None:
    create_correlator(cars, pair(key="object ->> 'account'"))
    await settle_correlators(correlators, cars)
    happen(cars, "a b a b", payloads=[{"account": "x"}, {}, {"account": "y" * 2000}, {"account": "y" * 2000}])
    await settle_correlators(correlators, cars)
    ((_, _, key, _, position, evidence),) = pushed(cars)
    assert (position, evidence) == (4, [3, 4]) and key.startswith("sha256:") and len(key) == 71


async def test_correlator_without_a_key_is_one_machine(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair(key=None))
    await settle_correlators(correlators, cars)
    happen(cars, "a:k b:j")
    await settle_correlators(correlators, cars)
    assert pushed(cars) == [("pair", 1, "", "x", 2, [1, 2])]
    assert sent(cars)[0]["key"] is None


async def test_events_from_before_its_creation_are_not_seen(cars: Connection, correlators: CorrelatorEngine) -> None:
    happen(cars, "a:k")
    create_correlator(cars, pair())
    happen(cars, "b:k a:k b:k")
    await settle_correlators(correlators, cars)
    assert [row[4] for row in pushed(cars)] == [4]


async def test_invalid_correlator_is_marked_and_the_others_go_on(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair())
    insert = "insert into headrace.correlator (correlator, topic, pattern, key) values (%s, 'cars', %s, %s)"
    cars.execute(insert, ("broken", "push(x) {sequential {a,}}", "key"))
    cars.execute(insert, ("unkeyed", "push(x) {a}", "object -> 'x'"))
    happen(cars, "a:k b:k")
    await settle_correlators(correlators, cars)
    states = {state.correlator.name: state for state in list_correlators(cars)}
    assert (states["pair"].status, states["broken"].status, states["unkeyed"].status) == ("valid", "invalid", "invalid")
    assert "line 1, column" in str(states["broken"].error) and "JSON" in str(states["unkeyed"].error)
    assert len(pushed(cars)) == 1
    assert cars.execute("select correlator, status from headrace.correlator where error is not null order by 1").fetchall() == [
        ("broken", "invalid"), ("unkeyed", "invalid")]  # fmt: skip


async def test_keys_of_an_invalid_change_wait_for_a_valid_one(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair())
    happen(cars, "a:k")
    await settle_correlators(correlators, cars)
    cars.execute("update headrace.correlator set pattern = 'nonsense {'")
    happen(cars, "b:k")
    assert await settle_correlators(correlators, cars) == 0
    cars.execute("update headrace.correlator set pattern = %s", (PAIR,))
    assert await settle_correlators(correlators, cars) == 1
    assert pushed(cars) == [("pair", 3, "k", "x", 2, [1, 2])]


async def test_change_carries_equivalent_keys_and_says_how_many(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair(pattern="repeat {push(x) {sequential {a, b, c}}}"))
    happen(cars, "a:k1 a:k2 b:k2 a:k3 b:k3 a:k4 z:k5")
    await settle_correlators(correlators, cars)
    # After `a` both wait for b, c; after `a b` the old waits for c, and the new one for c or d.
    carry_over = alter_correlator(cars, pair(pattern="repeat {push(x) {sequential {a, b, c or d}}}"))
    assert (carry_over.carried, carry_over.restarted) == (0, 4)
    carry_over = alter_correlator(cars, pair(pattern="repeat {push(x) {sequential {a, sequential {b, c}}}}", evidence_max=5))
    assert (carry_over.carried, carry_over.restarted) == (4, 0)
    await settle_correlators(correlators, cars)
    (state,) = list_correlators(cars)
    assert (state.version, state.carried, state.restarted) == (3, 4, 0)
    happen(cars, "b:k1 c:k1 c:k2")
    await settle_correlators(correlators, cars)
    assert [(row[1], row[2], row[5]) for row in pushed(cars)] == [(3, "k1", [1, 8, 9]), (3, "k2", [2, 3, 10])]


async def test_change_of_meaning_restarts_the_keys_it_concerns(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair(pattern="push(x) {select {sequential {a, b}, sequential {c, d}}}"))
    happen(cars, "a:k1 c:k2 a:k3")
    await settle_correlators(correlators, cars)
    changed = pair(pattern="push(x) {select {sequential {a, b}, sequential {c, e}}}")
    carry_over = alter_correlator(cars, changed)
    await settle_correlators(correlators, cars)
    (state,) = list_correlators(cars)
    assert (carry_over.carried, carry_over.restarted) == (state.carried, state.restarted)
    happen(cars, "b:k1 d:k2 e:k2")
    await settle_correlators(correlators, cars)
    assert all(row[2] != "k2" for row in pushed(cars))


async def test_restart_starts_all_keys_afresh(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair())
    happen(cars, "a:k a:j")
    await settle_correlators(correlators, cars)
    carry_over = alter_correlator(cars, pair(), restart=True)
    assert (carry_over.carried, carry_over.restarted) == (0, 2)
    happen(cars, "b:k")
    assert await settle_correlators(correlators, cars) == 0
    cars.execute("update headrace.correlator set restart = true")
    await settle_correlators(correlators, cars)
    assert cars.execute("select version, restart from headrace.correlator").fetchall() == [(3, False)]


async def test_same_definition_again_is_no_version(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair())
    alter_correlator(cars, pair())
    assert cars.execute("select count(*) from headrace.correlator_version").fetchone() == (1,)


async def test_dropped_or_inactive_correlator_leaves_no_consumer_no_keys_and_no_table(
    cars: Connection, correlators: CorrelatorEngine
) -> None:
    for end in ("update headrace.correlator set active = false", "delete from headrace.correlator"):
        cars.execute("delete from headrace.correlator")
        create_correlator(cars, pair())
        happen(cars, "a:k")
        await settle_correlators(correlators, cars)
        cars.execute(end)
        await settle_correlators(correlators, cars)
        for left in (
            "headrace.consumer", "headrace.correlator_instance", "headrace.correlator_table",
            "headrace.correlator_version where since_position is not null and until_at is null",
        ):  # fmt: skip
            assert cars.execute(f"select count(*) from {left}").fetchone() == (0,), left


async def test_dropped_topic_takes_its_correlators_along(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair())
    happen(cars, "a:k")
    await settle_correlators(correlators, cars)
    cars.execute("select headrace.drop_topic('cars', p_force => true)")
    assert cars.execute("select count(*) from headrace_internal.correlator_table").fetchone() == (0,)
    assert list_correlators(cars) == []


async def test_name_given_again_begins_anew(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair())
    happen(cars, "a:k")
    await settle_correlators(correlators, cars)
    drop_correlator(cars, "pair")
    create_correlator(cars, pair())
    happen(cars, "b:k a:k b:k")
    await settle_correlators(correlators, cars)
    assert [row[4:] for row in pushed(cars)] == [(4, [3, 4])]


def test_bad_input_is_refused_before_anything_is_written(cars: Connection) -> None:
    for wrong, error in (
        ({"pattern": "push(x) {"}, PatternError),
        ({"key": "object"}, ConditionError),
        ({"topic": "nowhere"}, UnknownTopic),
        ({"outputs": {"x": ActionOutput(action="not a name")}}, InvalidOutputs),
        ({"outputs": {"z": ActionOutput(action="X")}}, InvalidOutputs),
        ({"outputs": {"x": EventOutput(event="e", topic="nowhere")}}, UnknownTopic),
    ):  # fmt: skip
        with pytest.raises(error):
            create_correlator(cars, pair(**wrong))
    assert list_correlators(cars) == []
    create_correlator(cars, pair())
    with pytest.raises(CorrelatorExists):
        create_correlator(cars, pair())
    with pytest.raises(UnknownCorrelator):
        drop_correlator(cars, "other")
    with pytest.raises(CorrelatorTopicChanged), map_database_errors():
        cars.execute("update headrace.correlator set correlator = 'renamed'")


async def test_token_without_an_output_is_refused_told_or_allowed_as_unknown_names_are(
    cars: Connection, correlators: CorrelatorEngine
) -> None:
    cars.execute(
        "update headrace_internal.namespace set unknown_names = 'warn'; insert into headrace.action (action) values ('ALARM')"
    )
    create_correlator(cars, pair(pattern="parallel {push(y) {a}, push(x) {b}}"))
    await settle_correlators(correlators, cars)
    (state,) = list_correlators(cars)
    assert state.status == "valid" and state.warning == "token y becomes nothing: give it an output"
    cars.execute("update headrace_internal.namespace set unknown_names = 'refuse'; update headrace.correlator set restart = true")
    await settle_correlators(correlators, cars)
    (state,) = list_correlators(cars)
    assert state.status == "invalid" and "token y becomes nothing" in str(state.error)
    with pytest.raises(UnregisteredName):
        alter_correlator(cars, pair(outputs={"x": ActionOutput(action="OTHER")}))


async def test_output_of_a_token_that_is_never_pushed_is_refused_however_it_is_written(
    cars: Connection, correlators: CorrelatorEngine
) -> None:
    insert = "insert into headrace.correlator (correlator, topic, pattern, outputs) values ('typo', 'cars', %s, %s)"
    with pytest.raises(InvalidOutputs, match=r'output "alram".*write push\(alram\)'), map_database_errors():
        cars.execute(insert, ("push(alarm) {a}", '{"alram": {"action": "CALL"}}'))
    with pytest.raises(InvalidOutputs, match="it pushes alarm"):
        CORRELATORS.check(
            Correlator(name="typo", topic="cars", pattern="push(alarm) {a}", outputs={"alram": ActionOutput(action="C")})
        )
    # Its text contains the name, but only as an event type: a node finds that.
    cars.execute(insert, ("push(alarm) {a}", '{"a": {"action": "CALL"}}'))
    await settle_correlators(correlators, cars)
    (state,) = list_correlators(cars)
    assert state.status == "invalid" and "output 'a' is of a token that the pattern does not push; it pushes alarm" in str(
        state.error
    )


async def test_feedback_is_refused_unless_allowed(cars: Connection, correlators: CorrelatorEngine) -> None:
    topic(cars, "alerts")
    out = Correlator(
        name="out", topic="cars", pattern="repeat {push(x) {a}}", outputs={"x": EventOutput(event="e", topic="alerts")}
    )
    back = Correlator(
        name="back", topic="alerts", pattern="repeat {push(y) {e}}", outputs={"y": EventOutput(event="a", topic="cars")}
    )
    create_correlator(cars, out)
    await settle_correlators(correlators, cars)
    with pytest.raises(FeedbackLoop, match="back pushes y, event a on topic cars; out pushes x, event e on topic alerts"):
        create_correlator(cars, back)
    cars.execute(
        """insert into headrace.correlator (correlator, topic, pattern, outputs)
           values ('back', 'alerts', 'repeat {push(y) {e}}', '{"y": {"event": "a", "topic": "cars"}}')"""
    )
    await settle_correlators(correlators, cars)
    states = {state.correlator.name: state.status for state in list_correlators(cars)}
    assert states == {"out": "valid", "back": "invalid"}
    cars.execute("update headrace.correlator set allow_feedback = true where correlator = 'back'")
    await settle_correlators(correlators, cars)
    assert {state.status for state in list_correlators(cars)} == {"valid"}


def test_correlator_that_reads_another_type_than_it_writes_feeds_nothing(cars: Connection) -> None:
    create_correlator(cars, pair(outputs={"x": EventOutput(event="c", topic="cars")}))
    with pytest.raises(FeedbackLoop):
        alter_correlator(cars, pair(outputs={"x": EventOutput(event="a", topic="cars")}))


async def test_state_of_a_key_says_what_it_waits_for_and_what_would_fire(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair(pattern="push(x) {within 1 h {sequential {a, b, c}}}"))
    happen(cars, "a:k")
    await settle_correlators(correlators, cars)
    state = key_state(cars, "pair", "k")
    assert state is not None and state.known and state.status is Status.WAITING
    assert state.waits_for.types == ("b",) and len(state.deadlines) == 1 and state.evidence == (1,)
    assert [step.type for step in state.shortest.steps] == ["b", "c"] if state.shortest else False
    fresh = key_state(cars, "pair", "never seen")
    assert fresh is not None and not fresh.known and fresh.waits_for.types == ("a",)


async def test_cursor_of_a_correlator_is_not_moved_by_hand(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair())
    await settle_correlators(correlators, cars)
    with pytest.raises(Conflict, match="restart"):
        seek_consumer(cars, "cars", "headrace.correlator.pair", "earliest")


@pytest.mark.parametrize("pattern", [PAIR, "repeat {push(x) {within 1 h {sequential {a, b}}}}"])
async def test_killed_transaction_leaves_nothing_and_is_done_again(
    cars: Connection, correlators: CorrelatorEngine, pattern: str
) -> None:
    create_correlator(cars, pair(pattern=pattern))
    await settle_correlators(correlators, cars)
    happen(cars, "a:k b:k")
    cars.execute("alter table public.sent add constraint full_up check (action is null)")
    (watched,) = await correlators.watched()
    assert await correlators.step_once(watched) is None
    assert pushed(cars) == [] and cars.execute("select count(*) from headrace.correlator_instance").fetchone() == (0,)
    cars.execute("alter table public.sent drop constraint full_up; update headrace_internal.cursor set retry_at = null")
    await settle_correlators(correlators, cars)
    assert [row[4:] for row in pushed(cars)] == [(2, [1, 2])] and len(sent(cars)) == 1


async def test_output_delivered_twice_is_one(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair())
    happen(cars, "a:k b:k")
    await settle_correlators(correlators, cars)
    deliver = """select headrace_internal.deliver_correlations(version_id, array[key], array[position], array[output_at], array[token],
                     array[place], array[evidence::text], array[evidence_total]) from headrace.correlation"""
    assert cars.execute(deliver).fetchone() == (0,)
    assert len(sent(cars)) == 1
    with pytest.raises(psycopg.errors.UniqueViolation):
        cars.execute("insert into headrace_internal.correlation (topic_id, version_id, key, position, token, output_at, place, evidence, "
                     "evidence_total, output_id) select topic_id, version_id, key, position, token, output_at, place, evidence, "
                     "evidence_total, output_id from headrace.correlation")  # fmt: skip


async def test_large_and_deep_payload_does_not_stop_a_correlator(cars: Connection, correlators: CorrelatorEngine) -> None:
    topic(cars, "alerts")
    create_correlator(cars, pair(pattern="repeat {push(x) {a}}", outputs={"x": EventOutput(event="e", topic="alerts")}))
    deep: object = 1
    for _ in range(127):
        deep = [deep]
    happen(cars, "a:k a:k", payloads=[{"x": "y" * 1_040_000}, {"d": deep}])
    assert await settle_correlators(correlators, cars) == 2
    within = "headrace.event_within_limits(o.type, o.key, o.payload, o.headers)"
    assert cars.execute(f"select count(*) from headrace.outbox o where {within}").fetchone() == (2,)


async def test_trace_of_an_event_shows_what_was_pushed_on_it(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair())
    happen(cars, "a:k b:k")
    await settle_correlators(correlators, cars)
    row = cars.execute("select event_id from headrace.log where position = 2").fetchone()
    assert row is not None
    (history,) = event_history(cars, row[0])
    assert history.outcome == "matched"
    assert [(output.correlator, output.token, output.becomes, output.name, output.evidence) for output in history.outputs] == [
        ("pair", "x", "action", "ALARM", [1, 2])
    ]


async def test_any_engine_can_step_and_deliver_as_the_database_does(cars: Connection, correlators: CorrelatorEngine) -> None:
    """Read the instances, step them by the table, write them back and deliver: then the database goes on from there."""
    correlator_id = create_correlator(cars, pair())
    happen(cars, "a:k")
    await settle_correlators(correlators, cars)
    ((version_id, compiled),) = cars.execute("select version_id, compiled from headrace.correlator_table").fetchall()
    table = from_json(compiled)
    (instance,) = read_instances(cars, correlator_id, ["k", "unknown"])
    happen(cars, "b:k a:k b:k")
    symbols = classify(table, Event("b", instance.seen_at + 1))
    state, outputs = run_step(table, instance.state, symbols, instance.seen_at + 1)
    with cars.transaction():
        write_instances(
            cars, correlator_id, [Instance("k", state.units, state.deadlines, instance.started_at, instance.seen_at + 1)]
        )
        correlations = [Correlation("k", 2, one.time, one.token, place, (1, 2), 2) for place, one in enumerate(outputs, 1)]
        assert deliver_correlations(cars, version_id, correlations) == 1
        cars.execute("update headrace_internal.cursor set position = 2")
    assert deliver_correlations(cars, version_id, correlations) == 0
    await settle_correlators(correlators, cars)
    assert [row[4:] for row in pushed(cars)] == [(2, [1, 2]), (4, [3, 4])] and len(sent(cars)) == 2


async def test_hostile_text_is_data(database: Target, cars: Connection, correlators: CorrelatorEngine) -> None:
    name = "a'); drop table headrace.log; --"
    create_correlator(cars, pair(pattern=f"push(x) {{<object ->> 'v' = '{name.replace(chr(39), chr(39) * 2)}'> or \"{name}\"}}"))
    happen(cars, "z:k", payloads=[{"v": name}])
    assert await settle_correlators(correlators, cars) == 1


async def test_classifier_reads_by_position(cars: Connection, correlators: CorrelatorEngine) -> None:
    create_correlator(cars, pair(key="object ->> 'account'", pattern="push(x) {<object ->> 'n' = '1'>}"))
    happen(cars, "a:k")
    await settle_correlators(correlators, cars)
    cars.execute("set enable_seqscan = off; set enable_bitmapscan = off")
    row = cars.execute("select classifier from headrace_internal.correlator_table").fetchone()
    assert row is not None
    cars.execute(f"prepare classify (bigint, bigint) as {row[0]}")
    plan = "\n".join(row[0] for row in cars.execute("explain execute classify (0, 10)").fetchall())
    assert "position_idx" in plan


async def test_correlator_activated_while_its_end_is_compiled_misses_no_event(
    cars: Connection, second: Connection, correlators: CorrelatorEngine
) -> None:
    create_correlator(cars, pair(pattern="repeat {push(x) {a}}"))
    await settle_correlators(correlators, cars)
    cars.execute("update headrace.correlator set active = false")
    with second.transaction():
        second.execute("update headrace.correlator set active = true")
        await correlators.compile_once()
    happen(cars, "a:k")
    await settle_correlators(correlators, cars)
    assert len(pushed(cars)) == 1
