"""Rules evaluated as a set fire as each of them would alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from psycopg.types.json import Jsonb

from headrace.core import encode
from headrace.db import Connection, Server, Target, connect
from headrace.lang.condition import Condition, Json, Node, Sample, jsonb_text, parse, to_python
from headrace.rules import RuleEngine
from headrace.rules.compiler import PendingVersion, compile_version
from headrace.rules.programs import SHARED_MIN
from tests.builders import topic
from tests.examples import examples
from tests.lang.condition.strategies import conditions, events, key_conditions, key_events

from .conftest import REMEMBER, reacting
from .steps import compile_all, firings, publish, settle, write

TYPES = ["a.b", "C"]
numbered = count(1)


@pytest.fixture(scope="module")
def shared(server: Server) -> Iterator[Target]:
    """One database for all examples; each has a topic of its own."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute("create database matching template headrace_template")
    target = Target("matching", server.dsn("matching"))
    with connect(target) as conn:
        conn.execute(REMEMBER)
        conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    yield target
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute("drop database matching with (force)")


@settings(
    deadline=None,
    max_examples=examples(6, 15),
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@pytest.mark.parametrize("shared_min", [1, 3, 100], ids=["joined", "mixed", "direct"])
@given(
    st.lists(st.tuples(conditions, st.sampled_from(TYPES)), min_size=1, max_size=25),
    st.lists(st.tuples(events, st.sampled_from(TYPES)), min_size=1, max_size=20),
)
def test_firings_are_what_python_computes(
    shared: Target, shared_min: int, rules: list[tuple[Node, str]], samples: list[tuple[Sample, str]]
) -> None:
    assert_firings(shared, shared_min, rules, samples)


@settings(
    deadline=None,
    max_examples=examples(10, 60),
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(
    st.lists(st.tuples(key_conditions, st.sampled_from(TYPES)), min_size=20, max_size=40),
    st.lists(st.tuples(key_events, st.sampled_from(TYPES)), min_size=20, max_size=40),
)
def test_rules_found_by_keys_and_bounds_are_what_python_computes(
    shared: Target, rules: list[tuple[Node, str]], samples: list[tuple[Sample, str]]
) -> None:
    assert_firings(shared, 1, rules, samples)


def assert_firings(shared: Target, shared_min: int, rules: list[tuple[Node, str]], samples: list[tuple[Sample, str]]) -> None:
    texts = [(Condition(tree), type) for tree, type in rules]
    subjects = [replace(sample, type=type, key=sample.key or None) for sample, type in samples]
    expected = {
        (f"r{number}", position)
        for number, (condition, type) in enumerate(texts)
        for position, subject in enumerate(subjects, 1)
        if subject.type == type and to_python(condition)(subject) is True
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("headrace.rules.programs.SHARED_MIN", shared_min)
        patched.setattr("headrace.rules.compiler.SHARED_MIN", shared_min)
        assert asyncio.run(fired(shared, texts, subjects)) == expected


async def fired(target: Target, rules: list[tuple[Condition, str]], subjects: list[Sample]) -> set[tuple[str, int]]:
    name = f"t{next(numbered)}"
    with connect(target) as conn:
        topic(conn, name)
        for number, (condition, type) in enumerate(rules):
            conn.execute(
                "insert into headrace.rule (rule, topic, event_type, condition, action) values (%s, %s, %s, %s, 'act')",
                (f"{name} {number}", name, type, condition.text),
            )
        # Past the limits of publish, which have their own tests: a condition must stand anything that is in the log.
        conn.cursor().executemany(
            """insert into headrace_internal.outbox_0 (topic_id, type, key, payload, headers, emitted_at)
               values (headrace.topic_id(%s), %s, %s, %s::jsonb, %s::jsonb, %s)""",
            [(name, s.type, s.key, jsonb_text(s.payload), jsonb_text(dict(s.headers)), s.emitted_at) for s in subjects],
        )
        async with reacting(target) as reactor:
            await settle(reactor, conn)
        rows = conn.execute(
            """select r.rule, f.position from headrace.firing f join headrace.rule_version r on r.version_id = f.rule_version_id
               where f.topic_id = headrace.topic_id(%s)""",
            (name,),
        ).fetchall()
    return {(f"r{rule.split()[1]}", position) for rule, position in rows}


async def test_rules_of_one_shape_share_a_join(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    for number in range(20):
        write(conn, f"r{number}", f"object ->> 'model' = 'm{number}' and (object -> 'hp')::int > {number}")
    await compile_all(reactor)
    assert conn.execute("select count(*) from headrace_internal.rule_shape").fetchone() == (1,)


async def test_new_constants_do_not_change_the_program(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    for number in range(SHARED_MIN):
        write(conn, f"r{number}", f"(object -> 'hp')::int > {number}")
    await compile_all(reactor)
    written = "select checksum from headrace_internal.rule_program"
    before = conn.execute(written).fetchall()
    write(conn, "one more", "(object -> 'hp')::int > 100")
    await compile_all(reactor)
    assert conn.execute(written).fetchall() == before


async def test_ten_thousand_rules_are_found_by_the_index(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    for number in range(SHARED_MIN):
        write(conn, f"r{number}", f"object ->> 'model' = 'm{number}' and (object -> 'hp')::int > 1000")
    await compile_all(reactor)
    # As many constants as ten thousand rules have; no statistics about them, as right after a load.
    conn.execute(
        """with more as (
               insert into headrace_internal.rule_version (rule_id, version, namespace, rule, topic, topic_id, event_type, condition, action,
                   priority, delay_s, timing, active, status)
               select n, 1, 'default', 'r' || n, v.topic, v.topic_id, v.event_type, v.condition, v.action, 0, 0, 'after', true, 'valid'
               from headrace.rule_version v, generate_series(100, 10099) n where v.rule = 'r0' returning version_id, rule)
           insert into headrace_internal.rule_match (shape_id, version_id, since_position, event_type, key, bound, integers)
           select s.shape_id, m.version_id, 1, 'NEW_CAR', m.rule, 1000, '{1000}' from more m, headrace_internal.rule_shape s"""
    )
    for number in range(100):
        conn.execute("select headrace.publish('cars', 'NEW_CAR', %s)", (Jsonb({"model": f"r{number + 100}", "hp": 1001}),))
    conn.execute("select headrace.sequence()")
    before = reads(conn)
    hits = conn.execute("select sum(cardinality(m)) from headrace_internal.match_events(1, 'after', 0, 100) m").fetchone()
    scanned, by_index = (after - earlier for after, earlier in zip(reads(conn), before, strict=True))
    assert hits == (100,)
    assert scanned == 0
    assert by_index == 100


KINDS = (
    "object ->> 'list' in ('i{n}', 'j{n}')",
    "object ->> 'text' like 'p{n:05}-%'",
    "(object -> 'number')::numeric between {n}0.5 and {n}0.5 + 7",
    "(object -> 'number')::int > {n}0 - 1 and (object -> 'number')::int <= {n}5",
    "(object ->> 'at')::timestamptz between '{at}' and '{until}'",
    "(object -> 'low')::int > {n}",
    "object ->> 'day' >= 'd{n:05}'",
    "(object -> 'flag')::boolean and (object -> 'low')::bigint > {n}",
)
EVENT: dict[str, Json] = {
    "list": "i3",
    "text": "p00003-x",
    "number": 34,
    "at": "2026-01-01T03:10:00Z",
    "low": 3,
    "day": "d00003",
    "flag": True,
}
RULES_FIRST, RULES_LAST = 500, 5_000


async def test_rows_read_per_event_do_not_grow_with_the_rules(conn: Connection, reactor: RuleEngine) -> None:
    """Of every kind of access path there are ten times as many rules, but as many that may be true."""
    topic(conn, "cars")
    for n in range(SHARED_MIN * len(KINDS)):
        write(conn, f"r{n}", condition_of(n))
    await compile_all(reactor)
    for _ in range(10):
        publish(conn, "NEW_CAR", EVENT)
    conn.execute("select headrace.sequence()")
    read: list[int] = []
    matched: list[tuple[int]] = []
    for first, last in ((SHARED_MIN * len(KINDS), RULES_FIRST), (RULES_FIRST, RULES_LAST)):
        add_rules(conn, first, last)
        before = reads(conn)
        statement = "select sum(cardinality(m)) from headrace_internal.match_events(1, 'after', 0, 10) m"
        matched += conn.execute(statement).fetchall()
        scanned, by_index = (after - earlier for after, earlier in zip(reads(conn), before, strict=True))
        assert scanned == 0
        read.append(by_index)
    sample = Sample(EVENT, "NEW_CAR")
    true = sum(to_python(parse(condition_of(n)))(sample) is True for n in range(RULES_LAST))
    assert matched == [(10 * true,)] * 2
    assert read[1] == read[0] <= 10 * 2 * true


def condition_of(n: int) -> str:
    number = n // len(KINDS)
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    return KINDS[n % len(KINDS)].format(n=number, at=at.isoformat(), until=(at + timedelta(minutes=30)).isoformat())


def add_rules(conn: Connection, first: int, last: int) -> None:
    """As the compiler does, but all at once."""
    rows = conn.execute(
        """insert into headrace_internal.rule_version (rule_id, version, namespace, rule, topic, topic_id, event_type, condition, action,
               priority, delay_s, timing, active)
           select 1000 + n, 1, 'default', 'r' || n, 'cars', 1, 'NEW_CAR', '', 'act', 0, 0, 'after', true
           from generate_series(%s::int, %s::int - 1) n returning version_id""",
        (first, last),
    ).fetchall()
    pending = (PendingVersion(row[0], condition_of(n), False) for n, row in enumerate(rows, first))
    compiled = encode([compile_version(version) for version in pending])
    conn.execute("select headrace_internal.take_effect(1, 0, %s::jsonb)", (compiled,))
    assert conn.execute("select count(*) from headrace_internal.rule_shape").fetchone() == (len(KINDS),)


async def test_later_rule_with_another_length_or_width_is_found(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    for number in range(SHARED_MIN):
        write(conn, f"n{number}", f"(object -> 'price')::int between {number} and {number + 20}")
        write(conn, f"p{number}", f"object ->> 'model' like 'm{number}%'")
    await compile_all(reactor)
    write(conn, "wide", "(object -> 'price')::int between 50 and 50000000")
    write(conn, "empty", "(object -> 'price')::int between 50 and 5")
    write(conn, "long", "object ->> 'model' like 'Jazz 2.0 Hybrid%'")
    publish(conn, "NEW_CAR", {"price": 4_000_000, "model": "Jazz 2.0 Hybrid Crosstar"})
    assert await settle(reactor, conn) == 2
    assert [rule for rule, *_ in firings(conn)] == ["long", "wide"]
    conn.execute("delete from headrace.rule where rule in ('long', 'n1')")
    publish(conn, "NEW_CAR", {"price": 4_000_000, "model": "Jazz 2.0 Hybrid"})
    assert await settle(reactor, conn) == 1


def reads(conn: Connection) -> tuple[int, int]:
    """Rows of rule_match read so far by scans of the table, and by index."""
    conn.execute("select pg_stat_force_next_flush()")
    conn.execute("select pg_stat_clear_snapshot()")
    row = conn.execute("select seq_tup_read, idx_tup_fetch from pg_stat_user_tables where relname = 'rule_match'").fetchone()
    assert row is not None
    return row
