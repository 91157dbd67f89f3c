"""A topic moves from one engine to the other and back: nothing is lost, nothing is repeated, and never do two work at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import psycopg
import pytest

from headrace.core import Invalid, UnknownTopic
from headrace.db import Connection, Target, connect
from headrace.log import get_topic
from headrace.rules import Rule, alter_rule
from headrace.spark.pipeline import list_batches, list_pipelines, set_engine
from tests.builders import topic

from .conftest import Made
from .steps import RULES, compile_everything, differing, happen, looks, run_database, run_spark
from .test_agreement import prepared

pytestmark = pytest.mark.lane("pg18")


async def test_moving_in_the_middle_of_a_stream_changes_nothing(
    conn: Connection, database: Target, twin: Callable[[], Target], pipelines: Made
) -> None:
    """Both engines take turns, in batches of different sizes."""
    await prepared(conn, database, events=90, seed=5)
    conn.close()
    other = twin()
    await run_database(database)
    with connect(database) as ours, connect(other) as theirs:
        one = pipelines(other, theirs, events_max=13)
        for turn in range(4):
            set_engine(theirs, "cars", "spark")
            run_spark(one, batches=1 + turn % 2)
            set_engine(theirs, "cars", "database")
            assert one.step() is None and one.tick() is None
            await run_database(other, most=7, batches=2)
        set_engine(theirs, "cars", "spark")
        run_spark(one)
        assert list(differing(looks(ours, in_order=False), looks(theirs, in_order=False))) == []
        batches = list_batches(theirs, "cars", limit=100)
        assert [b.batch for b in batches] == list(range(len(batches), 0, -1))
        (state,) = list_pipelines(theirs)
        assert (state.engine, state.lag_events, state.batches) == ("spark", 0, len(batches))
        assert state.rate and state.batch_ms and state.outputs == sum(batch.outputs for batch in batches)


async def test_changed_rule_fires_by_the_version_in_force_at_the_position(
    conn: Connection, database: Target, twin: Callable[[], Target], pipelines: Made
) -> None:
    await prepared(conn, database, events=30, seed=6)
    conn.close()
    other = twin()

    async def halfway(here: Connection, target: Target) -> None:
        happen(here, 20, seed=7, ago_s=900)
        alter_rule(
            here, Rule(name="big", topic="cars", event_type="NEW_CAR", action="big", condition="(object -> 'n')::int < 40")
        )
        await compile_everything(target)

    await run_database(database)
    with connect(database) as ours, connect(other) as theirs:
        set_engine(theirs, "cars", "spark")
        one = pipelines(other, theirs)
        run_spark(one)
        await halfway(ours, database)
        await halfway(theirs, other)
        await run_database(database)
        run_spark(one)
        fired = "select rule_version_id, position from headrace_internal.firing order by firing_id"
        assert ours.execute(fired).fetchall() == theirs.execute(fired).fetchall()
        versions = theirs.execute("select distinct version from headrace.event_history where rule = 'big'").fetchall()
        assert len(versions) == 2


async def test_each_engine_leaves_the_others_topics_alone(conn: Connection, database: Target, pipelines: Made) -> None:
    await prepared(conn, database, events=20, seed=8)
    one = pipelines(database, conn)
    before = looks(conn)
    assert one.step() is None and one.tick() is None
    assert set_engine(conn, "cars", "spark") and not set_engine(conn, "cars", "spark")
    assert get_topic(conn, "cars").engine == "spark"
    await run_database(database)
    assert looks(conn) == before


async def test_move_waits_for_the_batch_that_runs(conn: Connection, second: Connection, database: Target) -> None:
    await prepared(conn, database, events=10, seed=9)
    with second.transaction():
        second.execute("select headrace_internal.react(topic_id) from headrace.topic where topic = 'cars'")
        conn.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            set_engine(conn, "cars", "spark")
    assert set_engine(conn, "cars", "spark")


@pytest.mark.parametrize("meanwhile", ["move", "rule", "batch"])
async def test_batch_that_something_came_before_is_thrown_away(
    conn: Connection, second: Connection, database: Target, pipelines: Made, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """While Spark works, the topic goes to the database, a rule is written, or another pipeline does the batch."""
    await prepared(conn, database, events=20, seed=10)
    set_engine(conn, "cars", "spark")
    one, rival = pipelines(database, conn), pipelines(database, second)
    compute = one._computing.compute

    def disturbed(parts: Sequence[object]) -> object:
        done = compute(parts)  # type: ignore[arg-type]
        if meanwhile == "move":
            set_engine(second, "cars", "database")
        elif meanwhile == "rule":
            second.execute("update headrace.rule set condition = 'false'")
        else:
            rival.step()
        return done

    monkeypatch.setattr(one._computing, "compute", disturbed)
    before = looks(conn)
    done = one.step()
    assert done is not None
    if meanwhile == "rule":
        # Only the rules wait for the compiler; the correlators have gone on.
        assert done.firings == 0 and done.outputs > 0 and looks(conn)["firings"] == []
        return
    assert (done.firings, done.outputs, done.events) == (0, 0, 0)
    if meanwhile == "move":
        assert looks(conn) == before
        await run_database(database)
    else:
        monkeypatch.undo()
        run_spark(one)
    assert len({row[4] for row in looks(conn)["firings"]}) == len(looks(conn)["firings"]) > 0


async def test_consumer_that_fails_is_narrowed_down_while_the_others_go_on(
    conn: Connection, database: Target, pipelines: Made
) -> None:
    await prepared(conn, database, events=40, seed=11)
    set_engine(conn, "cars", "spark")
    conn.execute(
        """create function public.refuse() returns trigger language plpgsql as $$ begin
               if new.position >= 20 then raise exception 'no'; end if; return new; end $$;
           create trigger refuse before insert on headrace_internal.firing for each row execute function public.refuse()"""
    )
    one = pipelines(database, conn)
    await asyncio.to_thread(run_spark, one, batches=20)
    found = looks(conn)
    at = {row[0]: row[1] for row in found["cursors"]}
    first = conn.execute("select min(position) from headrace_internal.log l join headrace.topic t using (topic_id) where t.topic = 'cars' "
        "and l.type = 'NEW_CAR' and position >= 20 and ((payload -> 'n')::int > 60 or (payload -> 'n')::int % 2 = 1 and "
        "payload ->> 'color' = 'red' or emitted_at < '2026-01-01T00:00:30Z')").fetchone()  # fmt: skip
    assert first is not None and at["headrace.rules"] == first[0] - 1
    assert {position for name, position in at.items() if name != "headrace.rules"} == {40}
    row = conn.execute(
        "select attempts, retry_at is not null, error from headrace_internal.cursor where error is not null"
    ).fetchone()
    assert row is not None and row[:2] == (1, True) and "no" in row[2]
    conn.execute("drop trigger refuse on headrace_internal.firing; update headrace_internal.cursor set retry_at = null")
    run_spark(one)
    assert {row[1] for row in looks(conn)["cursors"]} == {40} and len(RULES) == 4


def test_engine_that_is_not_there_is_refused(conn: Connection) -> None:
    topic(conn, "cars")
    with pytest.raises(Invalid, match="spark"):
        set_engine(conn, "cars", "flink")  # type: ignore[arg-type]
    with pytest.raises(UnknownTopic):
        set_engine(conn, "bikes", "spark")
