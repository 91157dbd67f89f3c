"""What a rule is, is nobody else's business; and a broken rule is nobody else's problem."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import psycopg
import pytest

from headrace.consume import Consumer, create_consumer, drop_consumer, seek_consumer
from headrace.core import ReservedConsumer
from headrace.correlators import Correlator, CorrelatorEngine, create_correlator
from headrace.db import Connection, Target, connect
from headrace.rules import RuleEngine, compiler, list_rules
from headrace.rules.programs import SHARED_MIN
from tests.builders import drain, topic

from .steps import compile_all, firings, publish, sent, settle, write

# As in the rules below; the names of functions and columns have no such word.
SECRET = r"%secret\_%"


def secret_rules(conn: Connection) -> None:
    for timing in ("after", "inline"):
        write(
            conn,
            f"rare {timing}",
            "object ->> 'secret_field' = 'secret_constant' and (object #> '{secret_path,secret_step}') is not null "
            "and object -> 'secret_parent' ? 'secret_member' and key like 'secret_pattern%'",
            type="secret.type",
            timing=timing,
        )
        for number in range(SHARED_MIN):
            condition = f"(object -> 'secret_amount')::int > 98765{number}"
            write(conn, f"common {timing} {number}", condition, type="secret.type", timing=timing)


async def test_no_catalog_and_no_session_shows_a_rule_to_other_roles(
    conn: Connection, second: Connection, reactor: RuleEngine, correlators: CorrelatorEngine
) -> None:
    topic(conn, "cars")
    secret_rules(conn)
    pattern = "push(x) {<object ->> 'secret_field' = 'secret_constant'>}"
    create_correlator(conn, Correlator(name="pair", topic="cars", key="object ->> 'secret_key'", pattern=pattern))
    await compile_all(reactor)
    await correlators.compile_once()
    conn.execute("select headrace.publish('cars', 'secret.type', '{\"secret_amount\": 999999}')")
    assert len(sent(conn)) == SHARED_MIN, "the inline rules are at work in this session"
    functions = (
        "select p.oid::regprocedure from pg_proc p where p.prosrc ilike %s or p.prosrc ~ '98765' or p.proargnames::text ilike %s"
    )
    with second.transaction(force_rollback=True):
        second.execute("create role headrace_stranger")
        second.execute("set local role headrace_stranger")
        assert second.execute(functions, (SECRET, SECRET)).fetchall() == []
        assert second.execute("select from pg_views v where v.definition ilike %s", (SECRET,)).fetchall() == []
        for table in ("rule_program", "rule_match", "correlator_table", "inline_failure"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), second.transaction():
                second.execute(f"select from headrace_internal.{table}")
    prepared = conn.execute(
        "select p.name from pg_prepared_statements p where p.statement ~ '98765[0-9]|secret_field'"
    ).fetchall()
    assert prepared == [], "a publisher's session holds no rule"


async def test_old_programs_leave_the_session_of_a_node(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    for hp in range(5):
        write(conn, f"rule {hp}", f"(object -> 'hp')::int > {hp}")
        publish(conn, "NEW_CAR", {"hp": 100})
        await settle(reactor, conn)
        drain(conn)
        conn.execute("update headrace_internal.cursor set position = 0")
        conn.execute("select from headrace_internal.react(1)")
    assert len(firings(conn)) == sum(range(1, 6))
    prepared = "select count(*) from pg_prepared_statements where name like 'headrace%'"
    assert conn.execute(prepared).fetchone() == (1,)
    conn.execute("deallocate all")
    conn.execute("update headrace_internal.cursor set position = 0")
    assert conn.execute("select events, firings from headrace_internal.react(1)").fetchall() == [(5, 0)]


async def test_topic_keeps_its_consumer_while_a_rule_is_being_written(
    conn: Connection, second: Connection, reactor: RuleEngine
) -> None:
    topic(conn, "cars")
    write(conn, "first", "true")
    await compile_all(reactor)
    with second.transaction():
        write(second, "second", "true")
        conn.execute("delete from headrace.rule where rule = 'first'")
        await compile_all(reactor)
    publish(conn, "NEW_CAR", {})
    drain(conn)
    publish(conn, "NEW_CAR", {})
    await settle(reactor, conn)
    assert firings(conn) == [("second", 1, 1), ("second", 1, 2)]


async def test_consumer_goes_after_the_transaction_that_held_it_was_rolled_back(
    conn: Connection, second: Connection, reactor: RuleEngine
) -> None:
    topic(conn, "cars")
    write(conn, "first", "true")
    await compile_all(reactor)
    with second.transaction(force_rollback=True):
        write(second, "second", "true")
        conn.execute("delete from headrace.rule where rule = 'first'")
        await compile_all(reactor)
        assert len(await reactor.watched()) == 1
    await reactor.compile_once()
    assert await reactor.watched() == []


async def test_consumers_of_rules_and_correlators_are_not_changed_by_hand(
    conn: Connection, reactor: RuleEngine, correlators: CorrelatorEngine
) -> None:
    topic(conn, "cars")
    write(conn, "all", "true")
    create_correlator(conn, Correlator(name="pair", topic="cars", pattern="push(x) {a}"))
    await compile_all(reactor)
    await correlators.compile_once()
    for name, owner in (("headrace.rules", "the rules"), ("headrace.correlator.pair", 'correlator "pair"')):
        with pytest.raises(ReservedConsumer, match=owner):
            drop_consumer(conn, "cars", name)
        with pytest.raises(ReservedConsumer, match=owner):
            seek_consumer(conn, "cars", name, "latest")
        with pytest.raises(ReservedConsumer, match=owner):
            create_consumer(conn, Consumer(topic="cars", name=name, handler=print))
    assert conn.execute("select count(*) from headrace.consumer").fetchone() == (2,)


async def test_rule_with_a_damaged_condition_is_marked_and_harms_nobody(conn: Connection, reactor: RuleEngine) -> None:
    for name in ("cars", "boats"):
        topic(conn, name)
        for timing in ("after", "inline"):
            write(conn, f"{name} {timing} good", "true", topic=name, timing=timing)
            write(conn, f"{name} {timing} bad", "(object -> 'a')::int = 1", topic=name, timing=timing)
    await compile_all(reactor)
    conn.execute("update headrace_internal.rule_version set canonical = 'drop everything' where rule like 'cars % bad'")
    for name in ("cars", "boats"):
        write(conn, f"{name} new", "true", topic=name)
    await compile_all(reactor)
    for name in ("cars", "boats"):
        publish(conn, "NEW_CAR", {"a": 1}, topic=name)
    await settle(reactor, conn)
    fired = {str(row[0]) for row in firings(conn)}
    assert fired == {
        "cars after good", "cars inline good", "cars new",
        "boats after good", "boats after bad", "boats inline good", "boats inline bad", "boats new",
    }  # fmt: skip
    invalid = {state.rule.name: state.error or "" for state in list_rules(conn) if state.status == "invalid"}
    assert invalid.keys() == {"cars after bad", "cars inline bad"}
    assert all("write the rule again" in error for error in invalid.values())


BREAK = "alter table headrace_internal.rule_match rename column integers to broken"
MEND = "alter table headrace_internal.rule_match rename column broken to integers"


async def test_failing_inline_program_lets_the_publisher_go_on_and_fires_after_the_log(
    conn: Connection, reactor: RuleEngine
) -> None:
    topic(conn, "cars")
    topic(conn, "boats")
    for number in range(SHARED_MIN):
        write(conn, f"r{number}", f"(object -> 'hp')::int > {number}", timing="inline")
    write(conn, "boat", "true", topic="boats", timing="inline")
    await compile_all(reactor)
    conn.execute(BREAK)
    publish(conn, "NEW_CAR", {"hp": 2})
    publish(conn, "NEW_CAR", {}, topic="boats")
    assert [action["cause"]["rule"] for action in sent(conn)] == ["boat"], "another topic is not affected"
    failures = conn.execute("select count(*), min(error) from headrace_internal.inline_failure").fetchone()
    assert failures is not None and failures[0] == 1 and "integers" in failures[1]
    assert await settle(reactor, conn) == 0, "still broken: the rules of the topic go on"
    conn.execute(MEND)
    publish(conn, "NEW_CAR", {"hp": 1})
    await settle(reactor, conn)
    assert firings(conn) == [("boat", 1, 1), ("r0", 1, 1), ("r1", 1, 1), ("r0", 1, 2)]
    assert conn.execute("select count(*) from headrace_internal.inline_failure").fetchone() == (0,)


async def test_publisher_with_an_old_snapshot_does_not_use_constants_of_another_program(
    conn: Connection, second: Connection, reactor: RuleEngine
) -> None:
    topic(conn, "cars")
    write(conn, "fast", "(object -> 'hp')::int > 100", timing="inline")
    await compile_all(reactor)
    second.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with second.transaction():
        second.execute("select 1")
        write(conn, "cheap", "(object -> 'price')::int < 10", timing="inline")
        await compile_all(reactor)
        publish(second, "NEW_CAR", {"hp": 200, "price": 5})
    await settle(reactor, conn)
    assert firings(conn) == [("cheap", 1, 1), ("fast", 1, 1)]


async def test_inline_rules_come_and_go_while_a_publisher_is_open_and_others_publish(
    conn: Connection, second: Connection, database: Target, reactor: RuleEngine
) -> None:
    """No lock that publishers share is taken: neither the compiler nor a publisher of another topic waits."""
    topic(conn, "cars")
    topic(conn, "boats")
    write(conn, "first", "true", timing="inline")
    with second.transaction(), connect(database) as other:
        publish(second, "NEW_CAR", {})
        other.execute("set lock_timeout = '1ms'")
        for timing in ("inline", "after", "inline"):
            conn.execute("update headrace.rule set timing = %s", (timing,))
            await compile_all(reactor)
            assert {state.status for state in list_rules(conn)} == {"valid"}, timing
            publish(other, "NEW_BOAT", {}, topic="boats")
        publish(other, "NEW_CAR", {})
        assert len(sent(other)) == 1


async def test_inline_rules_wait_for_the_holder_of_their_topic_and_that_is_recorded(
    conn: Connection, second: Connection, reactor: RuleEngine
) -> None:
    topic(conn, "cars")
    topic(conn, "boats")
    write(conn, "held", "true", timing="inline")
    write(conn, "free", "true", topic="boats", timing="inline")
    with second.transaction():
        second.execute("select headrace.create_consumer('cars', 'slow')")
        for _ in range(2):
            await reactor.compile_once()
        assert {state.rule.name: state.status for state in list_rules(conn)} == {"held": "pending", "free": "valid"}
        assert conn.execute("select kind, name from headrace.failure").fetchall() == [("rule compilation", "cars")]


async def test_publishers_of_a_topic_without_inline_rules_do_not_call_them(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    topic(conn, "boats")
    write(conn, "within", "true", timing="inline")
    await compile_all(reactor)
    marks = "select topic from headrace_internal.topic where has_inline_rules"
    functions = "select count(*) from pg_proc where proname ~ '^match_inline_'"
    assert conn.execute(marks).fetchall() == [("cars",)] and conn.execute(functions).fetchone() == (1,)
    conn.execute("update headrace.rule set timing = 'after'")
    await compile_all(reactor)
    assert conn.execute(marks).fetchall() == [] and conn.execute(functions).fetchone() == (0,)
    conn.execute("update headrace.rule set timing = 'inline'")
    await compile_all(reactor)
    conn.execute("select headrace.drop_topic('cars', p_force => true)")
    assert conn.execute(functions).fetchone() == (0,)


@pytest.mark.parametrize("timing", ["after", "inline"])
async def test_rules_of_a_topic_may_read_more_fields_than_a_query_has_columns(
    conn: Connection, reactor: RuleEngine, timing: str
) -> None:
    """PostgreSQL allows 1 664 columns in a query."""
    topic(conn, "cars")
    for rule in range(36):
        tests = [f"object ->> 'f{rule}_{number}' = 'x'" for number in range(50)]
        write(conn, f"wide {rule}", " or ".join([*tests, f"key = 'k{rule}'"]), type="car", timing=timing)
    await compile_all(reactor)
    assert {(state.status, state.error) for state in list_rules(conn)} == {("valid", None)}
    conn.execute("select headrace.publish('cars', 'car', '{\"f35_49\": \"x\", \"f0_0\": \"x\"}', p_key => 'k7')")
    await settle(reactor, conn)
    assert conn.execute("select count(*) from headrace.firing").fetchone() == (3,), "by a first, a last and the key's rule"


async def test_rules_work_whose_numbers_are_none_of_an_integer(conn: Connection, reactor: RuleEngine) -> None:
    for sequence in ("rule_rule_id_seq", "rule_shape_shape_id_seq"):
        conn.execute(f"select setval('headrace_internal.{sequence}', 3000000000)")
    topic(conn, "cars")
    for number in range(SHARED_MIN):
        write(conn, f"shared {number}", f"(object ->> 'hp')::int = {number}")
    write(conn, "inline", "key = 'k'", timing="inline")
    await compile_all(reactor)
    conn.execute("select headrace.pause('rule', 'shared 3')")
    publish(conn, "NEW_CAR", {"hp": 3})
    assert await settle(reactor, conn) == 1
    assert conn.execute("select headrace.resume('rule', 'shared 3')").fetchone() == (1,)
    write_again = "update headrace.rule set condition = 'true' where rule = 'inline'"
    conn.execute(write_again)
    publish(conn, "NEW_CAR", {"hp": 4})
    assert await settle(reactor, conn) >= 1
    assert conn.execute("select min(rule_id) > 3000000000 from headrace.rule_version").fetchone() == (True,)


@pytest.mark.parametrize("step", ["compile_version", "match_program"])
async def test_large_conditions_are_compiled_beside_the_loops_of_the_node(
    conn: Connection, reactor: RuleEngine, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Reading and printing thousands of comparisons takes seconds, in which leases and heartbeats of all namespaces become due."""
    original = getattr(compiler, step)
    entered, loop_goes_on = threading.Event(), threading.Event()

    def compile_slowly(*args: Any) -> Any:
        entered.set()
        assert loop_goes_on.wait(10), "the event loop waits for the compiler"
        return original(*args)

    monkeypatch.setattr(compiler, step, compile_slowly)
    topic(conn, "cars")
    write(conn, "wide", " or ".join(f"object ->> 'f{number}' = 'x'" for number in range(50)))
    compilation = asyncio.create_task(compile_all(reactor))
    async with asyncio.timeout(30):
        while not entered.is_set():
            await asyncio.sleep(0.01)
    if step == "compile_version":
        # Nor does a batch wait for it.
        conn.execute("select from headrace_internal.cursor for no key update nowait")
    loop_goes_on.set()
    await compilation
    assert [(state.status, state.error) for state in list_rules(conn)] == [("valid", None)]
