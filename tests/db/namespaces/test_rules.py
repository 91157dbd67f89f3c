"""Rules of a namespace: written by its admin, compiled by the owner, fired for every publisher, invisible to other namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from headrace.consume import drop_consumer
from headrace.core import ReservedConsumer
from headrace.db import Connection, Target
from headrace.log.outbox import publish
from headrace.log.topics import drop_topic
from headrace.rules import RuleEngine
from tests.db.namespaces.conftest import SignIn
from tests.db.namespaces.test_catalog import OPEN_TO_PUBLIC, UNPINNED, names
from tests.rules.conftest import REMEMBER, reacting
from tests.rules.steps import compile_all, settle

RULE = """insert into headrace.rule (rule, topic, event_type, condition, action, timing)
          values (%(timing)s, 'orders', 'placed', '(object -> ''n'')::int > 5', 'NOTIFY', %(timing)s)"""


@pytest.fixture
async def reactor(owner_conn: Connection, database: Target) -> AsyncIterator[RuleEngine]:
    owner_conn.execute(REMEMBER + "select headrace_internal.secure();")
    async with reacting(database) as engine:
        yield engine


async def test_inline_rule_fires_for_a_role_that_may_only_publish(
    owner_conn: Connection, sign_in: SignIn, reactor: RuleEngine
) -> None:
    admin, publisher, stranger = sign_in(a="admin"), sign_in(a="publish"), sign_in(b="admin")
    for timing in ("inline", "after"):
        admin.execute(RULE, {"timing": timing})
    await compile_all(reactor)
    publish(publisher, "orders", "placed", {"n": 9})
    publish(publisher, "orders", "placed", {"n": 1})
    assert owner_conn.execute("select namespace from public.sent").fetchall() == [("a",)]
    assert admin.execute("select rule, status from headrace.rule_state order by 1").fetchall() == [
        ("after", "valid"),
        ("inline", "valid"),
    ]
    for relation in ("rule", "rule_version", "firing", "rule_state", "event_history"):
        assert stranger.execute(f"select from headrace.{relation}").fetchall() == [], relation


async def test_evaluate_answers_who_may_read_the_rule_and_nobody_else(sign_in: SignIn, reactor: RuleEngine) -> None:
    admin, reader, publisher, stranger = sign_in(a="admin"), sign_in(a="consume"), sign_in(a="publish"), sign_in(b="admin")
    admin.execute(RULE, {"timing": "after"})
    await compile_all(reactor)
    assert reader.execute("""select headrace.evaluate('after', '{"n": 9}')""").fetchone() == (True,)
    assert reader.execute("""select headrace.evaluate('after', '{"n": "x"}')""").fetchone() == (None,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        publisher.execute("select headrace.evaluate('after', '{}')")
    for rule in ("after", "nobody"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match='permission denied for namespace "a"'):
            stranger.execute("select headrace.evaluate(%s, '{}', p_namespace => 'a')", (rule,))


async def test_functions_made_for_rules_are_as_closed_as_the_others(
    owner_conn: Connection, sign_in: SignIn, reactor: RuleEngine
) -> None:
    admin = sign_in(a="admin")
    for timing in ("inline", "after"):
        admin.execute(RULE, {"timing": timing})
    await compile_all(reactor)
    assert names(owner_conn, OPEN_TO_PUBLIC) == []
    assert names(owner_conn, UNPINNED) == []
    owner_conn.execute("delete from headrace.schedule where namespace = 'a'")
    drop_topic(admin, "orders", force=True)
    assert names(owner_conn, "select kind from headrace_internal.rule_program") == []


async def test_role_that_consumes_does_not_move_or_drop_the_consumer_of_the_rules(
    owner_conn: Connection, sign_in: SignIn, reactor: RuleEngine
) -> None:
    admin, reader = sign_in(a="admin"), sign_in(a="consume")
    admin.execute(RULE, {"timing": "after"})
    await compile_all(reactor)
    row = owner_conn.execute("select consumer_id from headrace.consumer where consumer = 'headrace.rules'").fetchone()
    assert row is not None
    with pytest.raises(ReservedConsumer, match="belongs to the rules"):
        drop_consumer(reader, "orders", "headrace.rules")
    for call in ("headrace.advance(%s, -1, 1000)", "headrace.claim(%s, 1)", "headrace.fail(%s, -1, 0, 1, 1, 'no')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(f"select {call}", row)
    publish(admin, "orders", "placed", {"n": 9})
    await settle(reactor, owner_conn)
    assert owner_conn.execute("select count(*) from public.sent").fetchone() == (1,)
