"""Every processed event is in headrace.event_history or in headrace.event_unmatched, with the reason; headrace.evaluate asks one rule."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg.types.json import Jsonb

from headrace.core import Conflict, Invalid, UnknownRule
from headrace.db import Connection, map_database_errors
from headrace.lang.condition import Sample, parse, to_python
from headrace.rules import RuleEngine
from tests.builders import drain, topic
from tests.rules.steps import compile_all, publish, settle, write

CONDITIONS = (
    "(object -> 'n')::int > 2",
    "(object -> 'n')::int = 1 or object ->> 'color' = 'red'",
    "object ->> 'color' <> 'red'",
    "not ((object -> 'n')::int < 3)",
    "object ->> 'color' is null",
    "false",
)
PAYLOADS = ({}, {"n": 1}, {"n": 3}, {"n": "x", "color": "red"}, {"color": "blue"}, {"n": 2, "color": None}, [1], None)


def unmatched(conn: Connection) -> list[tuple[object, ...]]:
    return conn.execute("select topic, position, reason from headrace.event_unmatched order by 1, 2").fetchall()


async def test_event_without_a_firing_is_unmatched_with_its_reason(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    topic(conn, "boats")
    publish(conn, "NEW_CAR", {"hp": 9})
    publish(conn, "NEW_BOAT", {}, topic="boats")
    await settle(reactor, conn)
    none = "no rule for its type"
    assert unmatched(conn) == [("boats", 1, none), ("cars", 1, none)], "topics without rules: up to the head of the log"
    write(conn, "fast", "(object -> 'hp')::int > 5")
    write(conn, "idle", "true", type="OLD_CAR")
    conn.execute("update headrace.rule set active = false where rule = 'idle'")
    await compile_all(reactor)
    for type, payload in (("NEW_CAR", {"hp": 1}), ("NEW_CAR", {"hp": "x"}), ("NEW_CAR", {"hp": 9}), ("OLD_CAR", {})):
        publish(conn, type, payload)
    drain(conn)
    assert unmatched(conn) == [("boats", 1, none), ("cars", 1, none)], "the rules have not passed the others yet"
    await settle(reactor, conn)
    cars = [("cars", 1, none), ("cars", 2, "no condition true"), ("cars", 3, "a condition unknown"), ("cars", 5, none)]
    assert unmatched(conn) == [("boats", 1, none), *cars]
    conn.execute("delete from headrace.rule")
    await settle(reactor, conn)
    publish(conn, "NEW_CAR", {"hp": 9})
    drain(conn)
    assert unmatched(conn) == [("boats", 1, none), *cars, ("cars", 6, none)], "the reasons are those of then"


async def test_event_that_an_inline_rule_came_too_late_for_is_not_called_false(
    conn: Connection, second: Connection, reactor: RuleEngine
) -> None:
    topic(conn, "cars")
    with second.transaction():
        publish(second, "NEW_CAR", {"hp": 9})
        publish(second, "NEW_CAR", {"hp": 1})
        publish(second, "NEW_CAR", {"hp": "x"})
        write(conn, "fast", "(object -> 'hp')::int > 5", timing="inline")
        await compile_all(reactor)
    assert await settle(reactor, conn) == 0
    reasons = ["published before its rule", "no condition true", "a condition unknown"]
    assert [reason for _, _, reason in unmatched(conn)] == reasons


@pytest.mark.parametrize("fields", [None, ["hp"]], ids=["erased", "redacted"])
async def test_reason_of_an_erased_event_is_not_made_up(conn: Connection, reactor: RuleEngine, fields: list[str] | None) -> None:
    topic(conn, "cars")
    write(conn, "fast", "(object -> 'hp')::int > 5")
    await compile_all(reactor)
    for type in ("NEW_CAR", "OLD_CAR"):
        conn.execute("select headrace.publish('cars', %s, '{\"hp\": 1}', p_key => 'k')", (type,))
    await settle(reactor, conn)
    conn.execute("select headrace.erase_key('cars', 'k', p_fields => %s)", (fields,))
    assert [reason for _, _, reason in unmatched(conn)] == ["erased", "no rule for its type"]


@pytest.mark.parametrize("seed", range(4))
async def test_history_and_unmatched_are_the_log_up_to_the_cursor(conn: Connection, reactor: RuleEngine, seed: int) -> None:
    """Random rules that come, change, rest and go between random events; the reasons are those that Python computes."""
    rng, topic_name = random.Random(seed), topic(conn, "cars")
    in_force: dict[str, tuple[str, str]] = {}
    expected: dict[int, str | None] = {}
    position = 0
    for _ in range(12):
        name = f"r{rng.randrange(4)}"
        condition, type = rng.choice(CONDITIONS), rng.choice("AB")
        conn.execute("delete from headrace.rule where rule = %s", (name,))
        in_force.pop(name, None)
        if rng.random() < 0.7:
            write(conn, name, condition, type=type, timing=rng.choice(("after", "inline")))
            in_force[name] = (condition, type)
        await settle(reactor, conn)
        for payload in rng.sample(PAYLOADS, 3):
            position, event_type = position + 1, rng.choice("AB")
            publish(conn, event_type, payload, topic=topic_name)
            sample = Sample(payload, type=event_type)
            answers = [to_python(parse(text))(sample) for text, type in in_force.values() if type == event_type]
            reason = "a condition unknown" if None in answers else "no condition true" if answers else "no rule for its type"
            expected[position] = None if True in answers else reason
        drain(conn)
        assert outcomes(conn) == log_up_to_the_cursor(conn)
        await settle(reactor, conn)
        assert outcomes(conn) == log_up_to_the_cursor(conn) == list(range(1, position + 1))
    reasons = {position: reason for _, position, reason in unmatched(conn)}
    assert reasons == {position: reason for position, reason in expected.items() if reason}


def outcomes(conn: Connection) -> list[int]:
    """The positions in both views up to the rules' cursor: one that is in both would be there twice."""
    rows = conn.execute("""select h.position from (select distinct position from headrace.event_history) h
        where h.position <= coalesce((select position from headrace.cursor join headrace.consumer using (consumer_id)
            where consumer = 'headrace.rules'), 1000)
        union all select position from headrace.event_unmatched order by 1""")
    return [position for (position,) in rows]


def log_up_to_the_cursor(conn: Connection) -> list[int]:
    rows = conn.execute("""select position from headrace.log where position <= coalesce((
        select position from headrace.cursor join headrace.consumer using (consumer_id)
        where consumer = 'headrace.rules'), 1000) order by 1""")
    return [position for (position,) in rows]


async def test_evaluate_says_what_a_stored_rule_says(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    for number, condition in enumerate(CONDITIONS):
        write(conn, f"r{number}", condition)
    write(conn, "about", "type = 'NEW_CAR' and key = 'k' and headers ->> 'h' = 'v' and emitted_at < '2026-01-01T00:00:00Z'")
    conn.execute("update headrace.rule set active = false where rule = 'r0'")
    with pytest.raises(Conflict, match="not compiled yet"), map_database_errors():
        conn.execute("select headrace.evaluate('r1', '{}')")
    await compile_all(reactor)
    for number, condition in enumerate(CONDITIONS):
        for payload in PAYLOADS:
            row = conn.execute("select headrace.evaluate(%s, %s)", (f"r{number}", Jsonb(payload))).fetchone()
            assert row == (to_python(parse(condition))(Sample(payload, type="NEW_CAR")),), (condition, payload)
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    about = "select headrace.evaluate('about', '{}', %s, 'k', '{\"h\": \"v\"}', %s)"
    assert conn.execute(about, ("NEW_CAR", moment)).fetchone() == (True,)
    assert conn.execute(about, (None, None)).fetchone() == (False,), "now is after 2025"
    assert conn.execute(about, ("OLD_CAR", moment)).fetchone() == (False,), "another type"
    assert conn.execute("select count(*) from headrace.log").fetchone() == (0,)


async def test_evaluate_never_runs_the_users_text(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    write(conn, "hostile", "(select true from pg_sleep(9))")
    await compile_all(reactor)
    with pytest.raises(Invalid, match='rule "hostile" is invalid'), map_database_errors():
        conn.execute("select headrace.evaluate('hostile', '{}')")
    with pytest.raises(UnknownRule, match='no rule "nobody" in namespace "default"'), map_database_errors():
        conn.execute("select headrace.evaluate('nobody', '{}')")
    with pytest.raises(psycopg.Error):
        conn.execute("select headrace.evaluate('hostile', 'no json')")
