"""Rules evaluated as a set fire as each of them would alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from headrace.db import Connection, Server, Target, connect
from headrace.lang.condition import Condition, Node, Sample, jsonb_text, to_python
from headrace.rules import RuleEngine
from headrace.rules.programs import SHARED_MIN
from tests.builders import topic
from tests.examples import examples
from tests.lang.condition.strategies import conditions, events

from .conftest import REMEMBER, reacting
from .steps import compile_all, settle, write

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
            """insert into headrace_internal.outbox (topic_id, type, key, payload, headers, emitted_at)
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
               insert into headrace_internal.rule_version (rule_id, version, namespace, rule, topic_id, event_type, condition, action,
                   priority, delay_s, timing, active, status)
               select n, 1, 'default', 'r' || n, v.topic_id, v.event_type, v.condition, v.action, 0, 0, 'after', true, 'valid'
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


def reads(conn: Connection) -> tuple[int, int]:
    """Rows of rule_match read so far by scans of the table, and by index."""
    conn.execute("select pg_stat_force_next_flush()")
    conn.execute("select pg_stat_clear_snapshot()")
    row = conn.execute("select seq_tup_read, idx_tup_fetch from pg_stat_user_tables where relname = 'rule_match'").fetchone()
    assert row is not None
    return row
