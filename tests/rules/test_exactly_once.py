"""Each version fires exactly once per position, whatever crashes and however many nodes run."""

from __future__ import annotations

import asyncio
import math

import psycopg
import pytest

from headrace.db import Connection, Target
from headrace.rules import RuleEngine
from tests.builders import drain, topic

from .conftest import reacting
from .steps import compile_all, firings, publish, sent, settle, write


@pytest.fixture
async def hundred(conn: Connection, reactor: RuleEngine) -> Connection:
    """A hundred events in the log, each of which fires one rule of two."""
    topic(conn, "cars")
    write(conn, "even", "(object -> 'n')::int % 2 = 0")
    write(conn, "odd", "(object -> 'n')::int % 2 = 1")
    await compile_all(reactor)
    with conn.transaction():
        for n in range(1, 101):
            publish(conn, "NEW_CAR", {"n": n})
    drain(conn)
    return conn


def assert_once_each(conn: Connection) -> None:
    assert [(rule, position) for rule, _, position in firings(conn)] == [("odd" if n % 2 else "even", n) for n in range(1, 101)]
    assert sorted(action["payload"]["n"] for action in sent(conn)) == list(range(1, 101))


async def run_dry(reactor: RuleEngine, *, batch: int) -> None:
    (watched,) = await reactor.watched()
    idle = 0
    while idle < 3:
        async with reactor._pool.connection() as own:
            row = await (await own.execute("select * from headrace_internal.react(%s, %s)", (watched.topic_id, batch))).fetchone()
        idle = 0 if row else idle + 1
        await asyncio.sleep(0)


async def test_two_engines_at_once_fire_once(hundred: Connection, database: Target, reactor: RuleEngine) -> None:
    async with reacting(database) as other:
        await asyncio.gather(run_dry(reactor, batch=3), run_dry(other, batch=7))
    await settle(reactor, hundred)
    assert_once_each(hundred)


async def test_killed_transaction_leaves_nothing_and_is_repeated(
    hundred: Connection, second: Connection, reactor: RuleEngine
) -> None:
    with pytest.raises(psycopg.OperationalError), second.transaction():
        pid = second.info.backend_pid
        second.execute("select * from headrace_internal.react(1, 60)")
        hundred.execute("select pg_terminate_backend(%s)", (pid,))
        second.execute("select 1")
    assert firings(hundred) == [] and sent(hundred) == []
    await settle(reactor, hundred)
    assert_once_each(hundred)


async def test_locked_cursor_is_skipped(hundred: Connection, second: Connection) -> None:
    with second.transaction():
        second.execute("select * from headrace_internal.react(1, 60)")
        assert hundred.execute("select * from headrace_internal.react(1, 60)").fetchall() == []


async def test_turn_that_has_read_all_rests_and_one_that_has_not_goes_on(hundred: Connection, reactor: RuleEngine) -> None:
    """Events that are appended meanwhile notify. A batch that fails is repeated event by event, and each of these turns goes on."""
    react = "select events, has_more from headrace_internal.react(1, 60)"
    assert hundred.execute(react).fetchall() == [(60, True)]
    hundred.execute("update headrace_internal.cursor set single_to = position + 2")
    assert [hundred.execute(react).fetchall() for _ in range(3)] == [[(1, True)], [(1, True)], [(38, False)]]
    (watched,) = await reactor.watched()
    hundred.execute("update headrace_internal.cursor set position = 98, single_to = 99")
    assert [await reactor.turn(watched) for _ in range(3)] == [0, math.inf, math.inf]


async def test_replayed_events_do_not_fire_again(hundred: Connection, reactor: RuleEngine) -> None:
    await settle(reactor, hundred)
    hundred.execute("update headrace_internal.cursor set position = 0")
    assert await settle(reactor, hundred) == 0
    assert_once_each(hundred)


async def test_batch_rejected_by_the_queue_is_retried_and_loses_nothing(hundred: Connection, reactor: RuleEngine) -> None:
    hundred.execute("alter table public.sent add constraint full_up check ((action #>> '{payload,n}')::int <> 50)")
    (watched,) = await reactor.watched()
    for _ in range(60):
        await reactor.fire_once(watched)
    held = hundred.execute("select position, error from headrace.consumer_lag where consumer = 'headrace.rules'").fetchone()
    assert held is not None and held[0] == 49 and "full_up" in held[1]

    hundred.execute("alter table public.sent drop constraint full_up")
    hundred.execute("select headrace.resume('consumer', 'cars/headrace.rules')")
    await settle(reactor, hundred)
    assert_once_each(hundred)


async def test_batch_that_raises_an_error_of_ours_is_recorded_and_ends_no_loop(hundred: Connection, reactor: RuleEngine) -> None:
    hundred.execute(
        """create function public.refuse() returns trigger language plpgsql
           as $$ begin raise exception 'not today' using errcode = 'HR001'; end $$;
           create trigger refuse before insert on public.sent execute function public.refuse()"""
    )
    (watched,) = await reactor.watched()
    assert await reactor.fire_once(watched) is None
    lag = hundred.execute("select position, error from headrace.consumer_lag where consumer = 'headrace.rules'").fetchone()
    assert reactor.failures == 1 and lag is not None and lag[0] == 0 and "not today" in lag[1]
